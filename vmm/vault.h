/* SPDX-License-Identifier: BSD-2-Clause */
/* The vault: where a device process keeps everything that it must not lose, right at every
 * instruction. */
#pragma once

#include "abi/shared.h"
#include "abi/types.h"

/*
 * The vault region of a VM is memory that hyp keeps; the device process may be killed between any
 * two of its stores, so no store may be the one that makes it unreadable. (Power failure is no
 * concern: the VM dies too. Order among stores is.)
 *
 *   0       struct keel_vm_shared                                        hyp's and ours
 * (abi/shared.h) 64 KiB  struct vault_header: magic, version, size, checksum          written once,
 * by vault_format; the magic last 68 KiB  struct vault_entry[VAULT_MAX_SECTIONS]: the directory an
 * entry is written, then its state becomes USED 76 KiB  the sections, each 64-byte aligned, in the
 * order of their making
 *
 * A section is known by (type, instance) and is one of two kinds:
 *   RECORD  two copies, each with sequence, length and checksum. A write goes to the copy that is
 * not current: sequence := 0, payload, length and checksum, sequence := current + 1. A reader takes
 * the valid copy with the highest sequence. So a reader finds the old value or the new one whole,
 * wherever the writer was killed. LIVE    bytes that their user keeps right by itself (the
 * in-flight log); the vault gives the place and zeroes it when made. Sections are made once and
 * never move, shrink or go away. Types that this version does not know stay untouched.
 *
 * The version in the header changes only when an older reader could not make sense of the layout;
 * it is then refused with a line that says so. Each section's content has a version of its own,
 * and is refused likewise. tests/unit/vmm/vault-1.bin is the vault of a VM that ran under the first
 * version; a program that cannot attach to it any more fails its tests.
 */
#define VAULT_MAGIC        0x544c5541564c454bull /* "KELVAULT" read as bytes */
#define VAULT_VERSION      1u
#define VAULT_MAX_SECTIONS 128u
#define VAULT_HEADER_AT    ((size_t)KEEL_VM_SHARED_BYTES)
#define VAULT_DIRECTORY_AT (VAULT_HEADER_AT + 4096u)
#define VAULT_SECTIONS_AT  (VAULT_DIRECTORY_AT + VAULT_MAX_SECTIONS * 64u)

enum vault_type {
	VAULT_DEFINITION = 1, /* RECORD: the VM's definition, JSON text (vmm/definition.h) */
	VAULT_MACHINE,        /* RECORD: struct machine_state */
	VAULT_PCI,            /* RECORD: struct pci_state; instance: slot << 3 | function */
	VAULT_MSIX,           /* RECORD: struct msix_state; instance likewise */
	VAULT_VIRTIO,         /* RECORD: struct virtio_state; instance likewise */
	VAULT_PM,             /* RECORD: struct pm_state */
	VAULT_INFLIGHT,       /* LIVE: all queues of a function; instance likewise */
	VAULT_TESTDEV,        /* LIVE: struct testdev_state */
	VAULT_FW_CFG,         /* RECORD: struct fw_cfg_state */
	VAULT_FLASH,          /* RECORD: struct flash_state */
};

enum vault_kind {
	VAULT_RECORD = 1,
	VAULT_LIVE = 2,
};

struct vault_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes;
	uint64_t region_bytes;
	uint32_t directory_entries;
	uint32_t checksum; /* CRC-32C of this header with checksum 0 */
	uint64_t reserved[4];
};
KEEL_ASSERT_SIZE(struct vault_header, 64);

#define VAULT_ENTRY_FREE 0u
#define VAULT_ENTRY_USED 1u
struct vault_entry {
	uint32_t state; /* VAULT_ENTRY_*; stored last */
	uint32_t type;  /* enum vault_type */
	uint32_t instance;
	uint32_t kind;     /* enum vault_kind */
	uint64_t offset;   /* in the region */
	uint64_t span;     /* how much of the region it takes */
	uint64_t bytes;    /* of payload, at most */
	uint32_t version;  /* of the payload's content */
	uint32_t checksum; /* CRC-32C of this entry with state and checksum 0 */
	uint64_t reserved[2];
};
KEEL_ASSERT_SIZE(struct vault_entry, 64);

struct vault_copy {
	uint64_t sequence; /* 0: not valid; stored last */
	uint32_t bytes;
	uint32_t checksum; /* CRC-32C of sequence, bytes and payload */
	uint64_t reserved[6];
};
KEEL_ASSERT_SIZE(struct vault_copy, 64);

struct vault {
	uint8_t *base;
	size_t bytes;
};

/*
 * Makes a new vault in the zeroed region (its first KEEL_VM_SHARED_BYTES are left alone) with that
 * definition. A formatted region is refused with -EEXIST. On failure nothing is there and `error`
 * is one line. The caller checked the definition.
 */
int vault_format(
        void *region, size_t region_bytes, const char *definition, char *error, size_t error_bytes);
/* Checks header and directory. -EINVAL with one line in `error`: no vault, damaged, or of a version
 * that this program cannot read. */
int vault_attach(
        struct vault *vault, void *region, size_t region_bytes, char *error, size_t error_bytes);

struct vault_section; /* an entry of the directory, by address */

/* NULL if there is none. */
struct vault_section *vault_find(
        const struct vault *vault, enum vault_type type, uint32_t instance);
/* Finds it or makes it. NULL: no room, or it exists with another kind, fewer bytes or another
 * version. */
struct vault_section *vault_make(const struct vault *vault, enum vault_type type, uint32_t instance,
        enum vault_kind kind, uint32_t version, size_t bytes);
uint32_t vault_section_version(const struct vault_section *section);
size_t vault_section_bytes(const struct vault_section *section);
/* RECORD: copies the current value, at most max bytes. Returns its length; -ENOENT: never written;
 * -EIO: no copy is valid. */
int vault_read(
        const struct vault *vault, const struct vault_section *section, void *out, size_t max);
/* RECORD: replaces the value. Needs: bytes <= the section's. */
void vault_write(
        const struct vault *vault, struct vault_section *section, const void *in, size_t bytes);
/* RECORD of version 1 that is made with what *state has, or read whole into it. 0; -ENOSPC: as
 * vault_make; -EIO: damaged, or of another length. */
int vault_record(const struct vault *vault, enum vault_type type, uint32_t instance, void *state,
        size_t bytes, struct vault_section **section);
/* LIVE: its bytes, for as long as the region is mapped. */
void *vault_live(const struct vault *vault, const struct vault_section *section);
