/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls from root's kernel to hyp: numbers, argument blocks, errors. */
#pragma once

#include "abi/types.h"
#include "abi/shared.h"
#include "abi/vcpu.h"

/*
 * VMMCALL (AMD) or VMCALL (Intel) at CPL 0 in root: RAX = KEEL_HC_BASE + number, RBX = GPA of the
 * argument block (8-byte aligned, not crossing a page; every block starts with struct
 * keel_hc_head), RCX = its size in bytes. RAX returns 0 or -KEEL_E*. The block is copied in once,
 * checked, acted on, and copied back whole. Reserved fields must be 0. Other registers are kept.
 * From anyone else: -KEEL_EPERM.
 */
#define KEEL_HC_BASE 0x4b450000u

enum keel_hypercall {
	KEEL_HC_INFO = 1,    /* struct keel_hc_info */
	KEEL_HC_POOL_RANGES, /* struct keel_hc_ranges: the pool's physical ranges */
	KEEL_HC_VM_CREATE,   /* struct keel_hc_vm_create */
	KEEL_HC_VM_DESTROY, /* struct keel_hc_vm: frees everything; root must have unmapped the VM's
	                       memory */
	KEEL_HC_VM_INFO,   /* struct keel_hc_vm_info; vm = the id to start looking from, returns the
	                      next VM with id >= vm */
	KEEL_HC_VM_MEMORY, /* struct keel_hc_vm_memory: HPAs of its 2 MiB pages */
	KEEL_HC_VM_RUN,    /* struct keel_hc_vm */
	KEEL_HC_VM_PAUSE,  /* struct keel_hc_vm: returns when no vCPU runs any more */
	KEEL_HC_VM_RESET,  /* struct keel_hc_vm: power-on state of vCPUs and platform (paused);
	                      memory and console kept */
	KEEL_HC_VCPU_GET,  /* struct keel_hc_vcpu; the VM must be paused, or the vCPU parked */
	KEEL_HC_VCPU_SET,  /* likewise */
	KEEL_HC_DOORBELL_ADD,    /* struct keel_hc_doorbell */
	KEEL_HC_DOORBELL_REMOVE, /* struct keel_hc_doorbell (index only) */
	KEEL_HC_IRQ_MSI,         /* struct keel_hc_irq */
	KEEL_HC_IRQ_PIN,         /* struct keel_hc_irq */
	KEEL_HC_EXIT_COMPLETE,   /* struct keel_hc_exit */
	KEEL_HC_CONSOLE_READ,    /* struct keel_hc_console */
	KEEL_HC_CONSOLE_WRITE,   /* struct keel_hc_console */
	KEEL_HC_COUNTERS,        /* struct keel_hc_counters */
	KEEL_HC_LOG_READ,        /* struct keel_hc_console, vm = 0: hyp's own log ring */
	KEEL_HC_ROOT_STAGE,  /* struct keel_hc_root_stage: begin, or give up, the next root's images
	                      */
	KEEL_HC_ROOT_DATA,   /* struct keel_hc_root_data: a piece of one of them */
	KEEL_HC_ROOT_COMMIT, /* struct keel_hc_vm, vm = 0: they are whole; the next restart starts
	                        them */
	KEEL_HC_ROOT_READY, /* struct keel_hc_vm, vm = 0: this root is good: later ones fall back to
	                       it */
	KEEL_HC_ROOT_BEAT,  /* struct keel_hc_root_beat: root lives */
	KEEL_HC_ROOT_STATUS, /* struct keel_hc_root_status */
	KEEL_HC_COUNT
};

/* Errors, with Linux's numbers. */
#define KEEL_EPERM  1
#define KEEL_ENOENT 2
#define KEEL_EIO    5
#define KEEL_EAGAIN 11
#define KEEL_ENOMEM 12
#define KEEL_EFAULT 14
#define KEEL_EBUSY  16
#define KEEL_EEXIST 17
#define KEEL_EINVAL 22
#define KEEL_ENOSPC 28
#define KEEL_ENOSYS 38

struct keel_hc_head {
	uint32_t vm;       /* VM id (1..KEEL_MAX_VMS), 0 where none is meant */
	uint32_t reserved; /* 0 */
};
KEEL_ASSERT_SIZE(struct keel_hc_head, 8);

struct keel_hc_vm {
	struct keel_hc_head head;
};
KEEL_ASSERT_SIZE(struct keel_hc_vm, 8);

struct keel_hc_info { /* all out */
	struct keel_hc_head head;
	char version[32]; /* of hyp, terminated */
	uint32_t abi_version;
	uint32_t cpus;
	uint32_t vms;
	uint32_t vendor; /* 1: AMD SVM, 2: Intel VMX */
	uint64_t tsc_hz;
	uint64_t pool_bytes;
	uint64_t pool_free_bytes;
	uint64_t image_bytes; /* hyp's ELF image in memory */
	uint64_t heap_bytes;
	uint64_t heap_free_bytes;
	uint64_t entry_tsc;      /* hyp's first instruction */
	uint64_t root_entry_tsc; /* root's first instruction */
	uint64_t now_tsc;
	uint64_t refused_accesses; /* of root, to hyp's or the pool's memory */
	uint64_t stray_interrupts; /* taken where the manual forbids it */
	uint64_t reserved[8];
};
KEEL_ASSERT_OFFSET(struct keel_hc_info, tsc_hz, 56);
KEEL_ASSERT_SIZE(struct keel_hc_info, 208);

#define KEEL_MAX_POOL_RANGES 16u
struct keel_hc_ranges { /* out */
	struct keel_hc_head head;
	uint32_t count;
	uint32_t reserved;
	struct {
		uint64_t start;
		uint64_t bytes;
	} ranges[KEEL_MAX_POOL_RANGES];
};
KEEL_ASSERT_SIZE(struct keel_hc_ranges, 272);

/*
 * Guest RAM lies at GPA 0 up to min(ram_bytes, KEEL_RAM_BELOW_4G) and the rest from 4 GiB; but the
 * last firmware_bytes of it end at 4 GiB, where a CPU begins after a reset; a guest's write to
 * those is an exit.
 * Everything else that is not hyp's own platform (abi: FEC00000h, FED00000h, FEE00000h) and no
 * doorbell is an exit to root.
 */
#define KEEL_RAM_BELOW_4G 0xc0000000ull
#define KEEL_FIRMWARE_MAX 0x1000000ull
#define KEEL_VM_PINNED                                                                             \
	(1u << 0) /* each vCPU gets a CPU of its own: KVM's REALTIME hint is shown                 \
	           */
#define KEEL_VM_VAULT_MIN 0x200000ull
/* When root has been away (ended, and no later one ready) for away_ms. */
#define KEEL_AWAY_WAIT  0u /* nothing: I/O waits for as long as it takes. away_ms is 0 */
#define KEEL_AWAY_PAUSE 1u /* as KEEL_HC_VM_PAUSE */
#define KEEL_AWAY_RESET 2u /* stopped; KEEL_EVENT_RESET with KEEL_RESET_AWAY */
#define KEEL_AWAY_STOP  3u /* likewise with KEEL_RESET_AWAY_STOP */
struct keel_hc_vm_create {
	struct keel_hc_head head;      /* out: vm = the new id */
	char name[KEEL_VM_NAME_BYTES]; /* terminated, unique */
	uint8_t uuid[16];
	uint64_t ram_bytes;      /* multiple of 2 MiB, firmware_bytes among them */
	uint64_t vault_bytes;    /* multiple of 2 MiB, zeroed; its first KEEL_VM_SHARED_BYTES are
	                            struct keel_vm_shared */
	uint32_t vcpus;          /* 1..KEEL_MAX_VCPUS */
	uint32_t flags;          /* KEEL_VM_* */
	uint32_t weight;         /* share of CPU time against others, 1..10000, 0 = 100 */
	uint32_t firmware_bytes; /* multiple of 2 MiB, at most KEEL_FIRMWARE_MAX; 0: none */
	int64_t wall_clock_s;    /* seconds since 1970 UTC now; 0: hyp's own idea */
	uint32_t away_policy;    /* KEEL_AWAY_* */
	uint32_t away_ms;        /* at least 1, but for KEEL_AWAY_WAIT */
	uint64_t reserved[7];
};
KEEL_ASSERT_OFFSET(struct keel_hc_vm_create, ram_bytes, 88);
KEEL_ASSERT_SIZE(struct keel_hc_vm_create, 192);

#define KEEL_VM_STATE_PAUSED  1u /* created, or paused */
#define KEEL_VM_STATE_RUNNING 2u
#define KEEL_VM_STATE_RESET   3u /* asked for a reset and waits for root */
#define KEEL_VM_STATE_DEAD    4u
struct keel_hc_vm_info { /* head.vm in; all else out; -KEEL_ENOENT: none */
	struct keel_hc_head head;
	char name[KEEL_VM_NAME_BYTES];
	uint8_t uuid[16];
	uint64_t ram_bytes;
	uint64_t vault_bytes;
	uint32_t vcpus;
	uint32_t flags;
	uint32_t weight;
	uint32_t state;         /* KEEL_VM_STATE_* */
	uint64_t created_tsc;   /* host TSC */
	uint64_t tsc_offset;    /* guest TSC = host TSC + offset */
	uint32_t exits_waiting; /* vCPUs parked on root */
	uint32_t resets;        /* so far */
	uint32_t away_policy;   /* KEEL_AWAY_* */
	uint32_t away_ms;
	uint32_t waiting_by_kind[4]; /* those of exits_waiting, by KEEL_EXIT_* - 1 */
	uint32_t away_exits;         /* how many began while root was away, so far */
	uint32_t firmware_bytes;     /* of ram_bytes */
	uint64_t reserved[4];
};
KEEL_ASSERT_OFFSET(struct keel_hc_vm_info, ram_bytes, 88);
KEEL_ASSERT_OFFSET(struct keel_hc_vm_info, waiting_by_kind, 152);
KEEL_ASSERT_SIZE(struct keel_hc_vm_info, 208);

#define KEEL_REGION_RAM    0u
#define KEEL_REGION_VAULT  1u
#define KEEL_MEMORY_CHUNKS 256u
struct keel_hc_vm_memory {
	struct keel_hc_head head;
	uint32_t region; /* KEEL_REGION_* */
	uint32_t first;  /* index of the first 2 MiB page asked for */
	uint32_t count;  /* in: at most KEEL_MEMORY_CHUNKS; out: how many are given */
	uint32_t reserved;
	uint64_t hpa[KEEL_MEMORY_CHUNKS];
};
KEEL_ASSERT_SIZE(struct keel_hc_vm_memory, 24 + 8 * 256);

struct keel_hc_vcpu {
	struct keel_hc_head head;
	uint32_t vcpu;
	uint32_t reserved;
	struct keel_vcpu_state state;
};
KEEL_ASSERT_SIZE(struct keel_hc_vcpu, 16 + 488);

#define KEEL_DOORBELL_PIO   0u
#define KEEL_DOORBELL_MMIO  1u
#define KEEL_DOORBELL_MATCH 1u /* flags: only writes of the given value */
struct keel_hc_doorbell {
	struct keel_hc_head head;
	uint32_t index; /* 0..KEEL_MAX_DOORBELLS-1 */
	uint32_t space; /* KEEL_DOORBELL_PIO or MMIO */
	uint64_t address;
	uint32_t size; /* 1, 2, 4, 8; 0: any */
	uint32_t flags;
	uint64_t value;
	uint64_t reserved;
};
KEEL_ASSERT_SIZE(struct keel_hc_doorbell, 48);

struct keel_hc_irq {
	struct keel_hc_head head;
	uint64_t address; /* MSI */
	uint32_t data;    /* MSI */
	uint32_t pin;     /* IOAPIC pin 0..23 */
	uint32_t level;   /* 1 high, 0 low */
	uint32_t source;  /* 1..3: which of root's sources drives the pin (they are ORed) */
};
KEEL_ASSERT_SIZE(struct keel_hc_irq, 32);

struct keel_hc_exit {
	struct keel_hc_head head;
	uint32_t vcpu;
	uint32_t sequence; /* of the slot; another value: -KEEL_EAGAIN */
	uint64_t data;     /* what a read gives */
};
KEEL_ASSERT_SIZE(struct keel_hc_exit, 24);

#define KEEL_CONSOLE_CHUNK 2048u
struct keel_hc_console {
	struct keel_hc_head head;
	uint64_t position; /* read: in/out, as platform_console_read; write: unused */
	uint32_t bytes;    /* in: wanted (<= KEEL_CONSOLE_CHUNK); out: done */
	uint32_t reserved;
	uint8_t data[KEEL_CONSOLE_CHUNK];
};
KEEL_ASSERT_SIZE(struct keel_hc_console, 24 + 2048);

/* Exits by kind, in our own names (abi/exits.h has the list). */
#define KEEL_EXIT_KINDS 32u
struct keel_hc_counters { /* head.vm = 0: root; else that VM. vcpu = KEEL_COUNTERS_SUM adds all up
	                   */
	struct keel_hc_head head;
	uint32_t vcpu;
	uint32_t reserved0;
	uint64_t run_ns; /* time in guest mode and in hyp on its behalf */
	uint64_t exits[KEEL_EXIT_KINDS];
	uint64_t interrupts; /* injected */
	uint64_t ipis;       /* sent */
	uint64_t halts;
	uint64_t doorbells;
	uint64_t root_exits;   /* went to root */
	uint64_t root_wait_ns; /* spent waiting there */
	uint64_t migrations;   /* between CPUs */
	uint64_t idle_ns;      /* root only: hyp's own idle time, all CPUs */
	uint64_t reserved[8];
};
#define KEEL_COUNTERS_SUM 0xffffffffu
KEEL_ASSERT_SIZE(struct keel_hc_counters, 24 + 256 + 128);

/*
 * The images of the next root (DESIGN §6). STAGE takes memory from the pool for them, and with both
 * sizes 0 gives it back; then every byte is brought by ROOT_DATA, in any order, and COMMIT judges
 * the kernel. What was staged before is given up by a new STAGE.
 */
#define KEEL_ROOT_CMDLINE_BYTES 2048u
#define KEEL_ROOT_LABEL_BYTES   64u
struct keel_hc_root_stage {
	struct keel_hc_head head;
	uint64_t kernel_bytes;
	uint64_t initrd_bytes;
	uint32_t ready_ms; /* given up if it has not reported ready so long after its start; 0: 180
	                      s */
	uint32_t reserved;
	char label[KEEL_ROOT_LABEL_BYTES];     /* for people, terminated */
	char cmdline[KEEL_ROOT_CMDLINE_BYTES]; /* terminated */
};
KEEL_ASSERT_SIZE(struct keel_hc_root_stage, 32 + 64 + 2048);

#define KEEL_ROOT_KERNEL 0u
#define KEEL_ROOT_INITRD 1u
#define KEEL_ROOT_PIECE  2048u
struct keel_hc_root_data {
	struct keel_hc_head head;
	uint64_t offset;
	uint32_t image; /* KEEL_ROOT_KERNEL or KEEL_ROOT_INITRD */
	uint32_t bytes; /* 1..KEEL_ROOT_PIECE */
	uint8_t data[KEEL_ROOT_PIECE];
};
KEEL_ASSERT_SIZE(struct keel_hc_root_data, 24 + 2048);

struct keel_hc_root_beat {
	struct keel_hc_head head;
	uint32_t timeout_ms; /* without another beat in this time hyp starts root again; 0: no watch
	                      */
	uint32_t reserved;
};
KEEL_ASSERT_SIZE(struct keel_hc_root_beat, 16);

#define KEEL_ROOT_HISTORY 8u
struct keel_root_past {     /* one restart */
	uint64_t tsc;       /* when it was asked for */
	uint64_t up_ms;     /* how long the root before it had run */
	uint32_t start;     /* number of the root that came next */
	uint32_t was_ready; /* the root before it had reported ready */
	char reason[48];
	char label[KEEL_ROOT_LABEL_BYTES]; /* of the root that came next */
};
KEEL_ASSERT_SIZE(struct keel_root_past, 136);

struct keel_hc_root_status { /* all out */
	struct keel_hc_head head;
	uint32_t start;   /* number of the root that runs now, from 1 */
	uint32_t ready;   /* it has reported ready */
	uint32_t is_good; /* the image it runs is the one that later ones fall back to */
	uint32_t staged;  /* another one is staged and whole */
	uint64_t started_tsc;
	uint64_t now_tsc;
	uint64_t tsc_hz;
	char label[KEEL_ROOT_LABEL_BYTES];
	char good_label[KEEL_ROOT_LABEL_BYTES];
	char staged_label[KEEL_ROOT_LABEL_BYTES];
	uint32_t history_count; /* newest first */
	uint32_t reserved;
	struct keel_root_past history[KEEL_ROOT_HISTORY];
};
KEEL_ASSERT_OFFSET(struct keel_hc_root_status, label, 48);
KEEL_ASSERT_SIZE(struct keel_hc_root_status, 248 + 8 * 136);
