/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM's definition as keeld writes it into the vault and the device process reads it: JSON text
 * and the checked struct. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/shared.h"

/*
 * {"name","uuid","cpus","memory_bytes","kernel","initrd","cmdline","firmware",
 *  "firmware_vars",
 *  "disks":[{"path","readonly","serial","iops","bandwidth","backend","fixed_buffers","iopoll"}],
 *  "nets":[{"tap","mac"}],"rng","testdev","on_reboot","on_poweroff"}
 * Needed: name, uuid, cpus, memory_bytes, and either kernel or firmware. An unknown key is an
 * error. Paths are absolute.
 */
#define DEFINITION_MAX_BYTES  32768u
#define DEFINITION_PATH_BYTES 1024u
#define DEFINITION_MAX_DISKS  16u
#define DEFINITION_MAX_NETS   8u

enum definition_policy { /* libvirt's words */
	DEFINITION_RESTART,
	DEFINITION_DESTROY,
	DEFINITION_PRESERVE,
};

enum definition_backend { /* how the kernel is asked for the disk's data */
	DEFINITION_MEASURED,
	DEFINITION_IO_URING,
	DEFINITION_WORKERS,
};

#define DEFINITION_IOPS_MAX      1000000000u
#define DEFINITION_BANDWIDTH_MIN 4096u
#define DEFINITION_BANDWIDTH_MAX (1ull << 40)

struct definition_disk {
	char path[DEFINITION_PATH_BYTES];
	char serial[21]; /* at most 20 bytes, may be empty */
	bool readonly;
	uint64_t iops;      /* requests a second at most; 0: no limit */
	uint64_t bandwidth; /* bytes a second at most; 0: no limit */
	enum definition_backend backend;
	bool iopoll;        /* the device's answers are looked for */
	bool fixed_buffers; /* the VM's memory is registered with root's kernel */
};

struct definition_net {
	char tap[16]; /* IFNAMSIZ */
	uint8_t mac[6];
};

struct definition {
	char name[KEEL_VM_NAME_BYTES];
	uint8_t uuid[16];
	unsigned cpus;
	uint64_t memory_bytes; /* multiple of 2 MiB */
	char kernel[DEFINITION_PATH_BYTES];
	char initrd[DEFINITION_PATH_BYTES]; /* empty: none */
	char cmdline[2048];
	char firmware[DEFINITION_PATH_BYTES];      /* empty: a kernel is loaded */
	char firmware_vars[DEFINITION_PATH_BYTES]; /* empty: none are kept */
	unsigned disk_count;
	struct definition_disk disks[DEFINITION_MAX_DISKS];
	unsigned net_count;
	struct definition_net nets[DEFINITION_MAX_NETS];
	bool rng;
	bool testdev;
	enum definition_policy on_reboot;   /* restart (default) or destroy */
	enum definition_policy on_poweroff; /* destroy (default), restart or preserve */
};

/* Parses and checks. 0, or -EINVAL with one line in `error` that names the key and what is wrong.
 * Opens no file. */
int definition_parse(const char *json, struct definition *out, char *error, size_t error_bytes);
