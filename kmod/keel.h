/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the files of the module share: its picture of a VM and the few calls between them. */
#pragma once

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>

#include "abi/hypercall.h"
#include "abi/ioctl.h"
#include "abi/shared.h"

/*
 * The module keeps no state that matters: VMs live in hyp, and what a device process must not lose
 * lies in its vault. A struct keel_vm exists while somebody has the VM open, and can be made again
 * from hyp's answers at any time, also in a root that has just started beside running VMs.
 *
 * Pool memory is mapped in hyp for root only while it belongs to a VM. So the module touches a VM's
 * pages (its shared area, and through mappings its memory) only between opening it and
 * KEEL_HC_VM_DESTROY, and destroys only when no mapping and no reference is left.
 */
#define KEEL_FRAME_SHIFT 21u /* pool memory is handed out in 2 MiB frames */
#define KEEL_FRAME_BYTES (1ul << KEEL_FRAME_SHIFT)

struct keel_region {
	u32 count;
	u32 *frames; /* HPA >> KEEL_FRAME_SHIFT */
};

/*
 * Locks: t keel_vms_lock; a alive; s signal_lock; i irqfd_lock; c set before the VM is published
 * and constant; * atomic. Order: alive, keel_vms_lock, irqfd_lock, (an eventfd's wait queue),
 * signal_lock. Copies from and to user memory are made under none.
 */
struct keel_vm {
	u32 id;                                /* c */
	struct keel_vm_shared *shared;         /* c; in the direct map */
	struct keel_region regions[2];         /* c; index KEEL_REGION_* */
	unsigned int opens;                    /* t; open descriptors */
	bool device_held;                      /* t */
	struct rw_semaphore alive;             /* read: a call for this VM; write: its end */
	bool destroyed;                        /* a */
	atomic_t mappings;                     /* * VMAs; below 0: no more can be made */
	spinlock_t signal_lock;                /* taken by the interrupt */
	u64 listened[KEEL_MAX_DOORBELLS / 64]; /* s; bit n: doorbells[n] is there */
	struct eventfd_ctx *doorbells[KEEL_MAX_DOORBELLS]; /* s */
	struct eventfd_ctx *notify;                        /* s */
	u32 notify_events;                                 /* s */
	struct mutex irqfd_lock;
	struct list_head irqfds;  /* i */
	unsigned int irqfd_count; /* i */
	struct rcu_head rcu;
};

/* One open of a VM. Mappings hold the file, so the device right lasts until the last of them is
 * gone. */
struct keel_vm_file {
	struct keel_vm *vm;
	bool device;
};

/* main.c */
int keel_start(void); /* needs: hyp found; makes /dev/keel. Undone by keel_stop */
void keel_stop(void);

/* One ioctl that is a hypercall's own block. */
#define KEEL_ON_ROOT   (1u << 0) /* allowed on /dev/keel, for vm = 0 */
#define KEEL_ON_VM     (1u << 1) /* allowed on a VM's descriptor */
#define KEEL_ON_DEVICE (1u << 2) /* there only with the device right */
#define KEEL_ANY_VM    (1u << 3) /* on /dev/keel the caller's head.vm counts */
#define KEEL_QUICK     (1u << 4) /* never waits in hyp, and is frequent */
struct keel_call {
	u32 command;
	u32 flags;
};
/* NULL: no such ioctl in that place (KEEL_ON_ROOT or KEEL_ON_VM). */
const struct keel_call *keel_call_find(u32 command, u32 place);
/* Copies the block in, calls for that VM (NULL: for none), copies it out. -ENODEV: the VM is
 * destroyed. */
long keel_call_forward(const struct keel_call *call, struct keel_vm *vm, void __user *arg);

/* hypercall.c */
int keel_hyp_detect(void); /* -ENODEV with a line in the log: not on hyp, not root, other version */
extern phys_addr_t keel_root_shared_address; /* of struct keel_root_shared; once detected */
int keel_hypercall_setup(void);
void keel_hypercall_teardown(void);
/* args: anywhere, at most a page; read and written whole. May take long. Returns 0 or -errno. */
int keel_hypercall(u32 number, void *args, u32 bytes);
/* The same for at most KEEL_QUICK_BYTES and the short calls that never wait; from any context
 * but NMI. */
#define KEEL_QUICK_BYTES 48u
int keel_hypercall_quick(u32 number, void *args, u32 bytes);

/* vm.c */
extern struct mutex keel_vms_lock;
long keel_vm_open(u32 id, u32 flags); /* returns a descriptor */
int keel_vm_create(void __user *arg);
struct keel_vm *keel_vm_find(u32 id); /* for the interrupt; id below KEEL_MAX_VMS; needs: RCU read
                                         lock; NULL: not open */

/* memory.c */
int keel_pool_setup(void);
void keel_pool_teardown(void);
int keel_memory_attach(struct keel_vm *vm, u64 ram_bytes, u64 vault_bytes);
void keel_memory_detach(struct keel_vm *vm);
int keel_memory_mmap(struct file *file, struct vm_area_struct *vma);
/* Waits, for at most timeout_ms, until no page of the VM is referenced by a mapping or by I/O in
 * flight; else -EBUSY. */
int keel_memory_wait_idle(struct keel_vm *vm, unsigned int timeout_ms);

/* event.c */
int keel_events_setup(void);
void keel_events_teardown(void);
void keel_events_take(void);               /* the interrupt's work; any context */
void keel_events_look(struct keel_vm *vm); /* signals what is set in the VM's shared area and has a
                                              listener; any context */
int keel_doorbell_set(struct keel_vm *vm, struct keel_ioc_doorbell *request);
int keel_notify_set(struct keel_vm *vm, const struct keel_ioc_notify *request);
void keel_listeners_drop(struct keel_vm *vm);

/* irqfd.c */
int keel_irqfd_set(struct keel_vm *vm, const struct keel_ioc_irqfd *request);
void keel_irqfds_drop(struct keel_vm *vm);
