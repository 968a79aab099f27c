/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM's file: its keys, their checks, and what the device process is given of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/shared.h"
#include "config/conf.h"
#include "vmm/definition.h"

/*
 * name = web                    cpus, memory, kernel, …: keel.conf(5) has them all
 * disk { path = /srv/web.img }
 * net { bridge = br0 }
 *
 * Everything wrong is told in one line, "FILE:LINE: what is wrong; what to do". The words are those
 * of vm-bhyve and libvirt where they have one.
 */
#define VMFILE_ERROR_BYTES 2048u

struct vmfile_error {
	char text[VMFILE_ERROR_BYTES];
};

struct vmfile_disk {
	unsigned line;
	char path[DEFINITION_PATH_BYTES];
	char serial[21];
	bool readonly;
	unsigned iops;      /* 0: no limit */
	uint64_t bandwidth; /* bytes a second; 0: no limit */
	enum definition_backend backend;
	bool fixed_buffers;
	bool iopoll;
};

struct vmfile_net {
	unsigned line;
	char bridge[16]; /* IFNAMSIZ; empty if `tap` is given */
	char tap[16];    /* the user's own; empty if `bridge` is given */
	uint8_t mac[6];
	bool has_mac;
};

/* What may be written for without_root, by KEEL_AWAY_*. */
#define VMFILE_WITHOUT_ROOT_COUNT 4u
#define VMFILE_WITHOUT_ROOT_S     60u /* unless the file says another time */
extern const char *const vmfile_without_root[VMFILE_WITHOUT_ROOT_COUNT];

struct vmfile {
	char file[DEFINITION_PATH_BYTES]; /* for messages */
	char name[KEEL_VM_NAME_BYTES];
	uint8_t uuid[16];
	bool has_uuid;
	unsigned cpus;
	uint64_t memory_bytes;
	char kernel[DEFINITION_PATH_BYTES];
	char initrd[DEFINITION_PATH_BYTES];
	char cmdline[2048];
	char firmware[DEFINITION_PATH_BYTES]; /* empty: kernel is not */
	char firmware_vars[DEFINITION_PATH_BYTES];
	unsigned disk_count;
	struct vmfile_disk disks[DEFINITION_MAX_DISKS];
	unsigned net_count;
	struct vmfile_net nets[DEFINITION_MAX_NETS];
	bool rng;
	bool testdev;
	bool autostart;
	bool pinned;
	unsigned weight;
	unsigned without_root;   /* KEEL_AWAY_* */
	unsigned without_root_s; /* after how long; 0 for KEEL_AWAY_WAIT */
	enum definition_policy on_reboot;
	enum definition_policy on_poweroff;
	struct { /* of the keys that a later check may find wrong */
		unsigned name, cpus, memory, kernel, initrd, firmware, firmware_vars, without_root;
	} line;
};

/* Reads text as the file of that name. False: *error says why, and *out is of no use. */
bool vmfile_parse(const char *file, const char *text, size_t bytes, struct vmfile *out,
        struct vmfile_error *error);
/* One byte more than a file may have, so that one that is too long is seen to be. */
#define VMFILE_TEXT_BYTES (CONF_MAX_BYTES + 1u)
/* A file's content, at most VMFILE_TEXT_BYTES of it. */
bool vmfile_read(const char *file, char *text, size_t *bytes, struct vmfile_error *error);
/* Both. */
bool vmfile_load(const char *file, struct vmfile *out, struct vmfile_error *error);
/* Can be a VM's name: it becomes a file's name and a word on command lines. */
bool vmfile_is_name(const char *text);

/* uuid and mac of a VM that names none: the same at each start on this machine, from `seed` (its
 * machine-id) and the name. Afterwards has_uuid and has_mac are set. */
void vmfile_fill_identity(struct vmfile *vm, const char *seed);

/*
 * The definition for the vault (vmm/definition.h), with these taps for its nets in order. To be
 * freed by cJSON_free; NULL: out of memory. Needs: vmfile_fill_identity.
 */
char *vmfile_to_definition(const struct vmfile *vm, const char (*taps)[16]);

struct cJSON;
/* All keys with their values, for people and scripts to read. */
struct cJSON *vmfile_to_json(const struct vmfile *vm);

/* "512M", "3G", "20480K": the largest unit that fits. Needs: at least 32 bytes. */
const char *vmfile_format_size(uint64_t bytes, char *out, size_t out_bytes);

/* Finds what would make a start fail before anything is made of it: kernel, initrd, disks. start:
 * now; else a disk that another VM has may be free by then. */
bool vmfile_check_files(const struct vmfile *vm, bool start, struct vmfile_error *error);
/* And what hyp cannot give. */
struct vmfile_room {
	uint64_t pool_bytes;
	uint64_t pool_free_bytes;
};
bool vmfile_check_room(
        const struct vmfile *vm, const struct vmfile_room *room, struct vmfile_error *error);
uint64_t vmfile_vault_bytes(const struct vmfile *vm);
/* What the files of the firmware take, in whole pages of hyp's; 0: none, or it cannot be read. */
uint32_t vmfile_firmware_bytes(const struct vmfile *vm);
