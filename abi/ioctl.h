/* SPDX-License-Identifier: BSD-2-Clause */
/* /dev/keel: what keel.ko offers to programs in root. */
#pragma once

#include "abi/types.h"
#include "abi/hypercall.h"

#ifdef __KERNEL__
#include <linux/ioctl.h>
#else
#include <sys/ioctl.h>
#endif

/*
 * On /dev/keel itself (opened by root only): INFO, POOL_RANGES, VM_INFO, COUNTERS of root,
 * LOG_READ, VM_CREATE, VM_OPEN. On a VM's descriptor: everything else, always for that VM (head.vm
 * is overwritten). The argument is the hypercall's own block.
 */
#define KEEL_IOC_MAGIC 0xb7

#define KEEL_IOC_INFO          _IOWR(KEEL_IOC_MAGIC, KEEL_HC_INFO, struct keel_hc_info)
#define KEEL_IOC_POOL_RANGES   _IOWR(KEEL_IOC_MAGIC, KEEL_HC_POOL_RANGES, struct keel_hc_ranges)
#define KEEL_IOC_VM_CREATE     _IOWR(KEEL_IOC_MAGIC, KEEL_HC_VM_CREATE, struct keel_hc_vm_create)
#define KEEL_IOC_VM_DESTROY    _IOWR(KEEL_IOC_MAGIC, KEEL_HC_VM_DESTROY, struct keel_hc_vm)
#define KEEL_IOC_VM_INFO       _IOWR(KEEL_IOC_MAGIC, KEEL_HC_VM_INFO, struct keel_hc_vm_info)
#define KEEL_IOC_VM_RUN        _IOWR(KEEL_IOC_MAGIC, KEEL_HC_VM_RUN, struct keel_hc_vm)
#define KEEL_IOC_VM_PAUSE      _IOWR(KEEL_IOC_MAGIC, KEEL_HC_VM_PAUSE, struct keel_hc_vm)
#define KEEL_IOC_VM_RESET      _IOWR(KEEL_IOC_MAGIC, KEEL_HC_VM_RESET, struct keel_hc_vm)
#define KEEL_IOC_VCPU_GET      _IOWR(KEEL_IOC_MAGIC, KEEL_HC_VCPU_GET, struct keel_hc_vcpu)
#define KEEL_IOC_VCPU_SET      _IOWR(KEEL_IOC_MAGIC, KEEL_HC_VCPU_SET, struct keel_hc_vcpu)
#define KEEL_IOC_IRQ_MSI       _IOWR(KEEL_IOC_MAGIC, KEEL_HC_IRQ_MSI, struct keel_hc_irq)
#define KEEL_IOC_IRQ_PIN       _IOWR(KEEL_IOC_MAGIC, KEEL_HC_IRQ_PIN, struct keel_hc_irq)
#define KEEL_IOC_EXIT_COMPLETE _IOWR(KEEL_IOC_MAGIC, KEEL_HC_EXIT_COMPLETE, struct keel_hc_exit)
#define KEEL_IOC_CONSOLE_READ  _IOWR(KEEL_IOC_MAGIC, KEEL_HC_CONSOLE_READ, struct keel_hc_console)
#define KEEL_IOC_CONSOLE_WRITE _IOWR(KEEL_IOC_MAGIC, KEEL_HC_CONSOLE_WRITE, struct keel_hc_console)
#define KEEL_IOC_COUNTERS      _IOWR(KEEL_IOC_MAGIC, KEEL_HC_COUNTERS, struct keel_hc_counters)
#define KEEL_IOC_ROOT_STAGE    _IOWR(KEEL_IOC_MAGIC, KEEL_HC_ROOT_STAGE, struct keel_hc_root_stage)
#define KEEL_IOC_ROOT_DATA     _IOWR(KEEL_IOC_MAGIC, KEEL_HC_ROOT_DATA, struct keel_hc_root_data)
#define KEEL_IOC_ROOT_COMMIT   _IOWR(KEEL_IOC_MAGIC, KEEL_HC_ROOT_COMMIT, struct keel_hc_vm)
#define KEEL_IOC_ROOT_READY    _IOWR(KEEL_IOC_MAGIC, KEEL_HC_ROOT_READY, struct keel_hc_vm)
#define KEEL_IOC_ROOT_BEAT     _IOWR(KEEL_IOC_MAGIC, KEEL_HC_ROOT_BEAT, struct keel_hc_root_beat)
#define KEEL_IOC_ROOT_STATUS   _IOWR(KEEL_IOC_MAGIC, KEEL_HC_ROOT_STATUS, struct keel_hc_root_status)
#define KEEL_IOC_LOG_READ      _IOWR(KEEL_IOC_MAGIC, KEEL_HC_LOG_READ, struct keel_hc_console)

/*
 * VM_OPEN gives a new descriptor for a VM. DEVICE is the right to serve it (doorbells, interrupts,
 * exits, memory): one holder at a time
 * (-EBUSY). Without it: info, counters, console. VM_CREATE returns id in head.vm; open follows. The
 * device right ends with the descriptor's last close: doorbell bits then stay set until the next
 * holder.
 */
#define KEEL_OPEN_DEVICE 1u
struct keel_ioc_open {
	uint32_t vm;
	uint32_t flags;
};
KEEL_ASSERT_SIZE(struct keel_ioc_open, 8);
#define KEEL_IOC_VM_OPEN                                                                           \
	_IOW(KEEL_IOC_MAGIC, 0x40, struct keel_ioc_open) /* returns the descriptor */

/* A doorbell with the eventfd to signal. fd -1: the bit is only set (watched in shared memory).
 * Signalled at once if the bit is set already. */
struct keel_ioc_doorbell {
	struct keel_hc_doorbell doorbell;
	int32_t fd;
	uint32_t remove; /* 1: take doorbell.index away */
};
KEEL_ASSERT_SIZE(struct keel_ioc_doorbell, 56);
#define KEEL_IOC_DOORBELL _IOW(KEEL_IOC_MAGIC, 0x41, struct keel_ioc_doorbell)

/* eventfd to interrupt: each signal raises this MSI. Assigning again with the same fd changes the
 * route atomically. */
struct keel_ioc_irqfd {
	int32_t fd;
	uint32_t remove;
	uint64_t address;
	uint32_t data;
	uint32_t reserved;
};
KEEL_ASSERT_SIZE(struct keel_ioc_irqfd, 24);
#define KEEL_IOC_IRQFD _IOW(KEEL_IOC_MAGIC, 0x42, struct keel_ioc_irqfd)

/* The eventfd signalled when exit_pending or events (masked) become non-zero; at once if they are.
 * fd -1 removes. */
struct keel_ioc_notify {
	int32_t fd;
	uint32_t events; /* KEEL_EVENT_* that signal; exits always do for a DEVICE holder */
};
KEEL_ASSERT_SIZE(struct keel_ioc_notify, 8);
#define KEEL_IOC_NOTIFY _IOW(KEEL_IOC_MAGIC, 0x43, struct keel_ioc_notify)

/* mmap offsets of a VM's descriptor (DEVICE only). */
#define KEEL_MMAP_RAM   0ull
#define KEEL_MMAP_VAULT (1ull << 46)
