/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon: the one struct that its parts share, and the paths and times that it works with. */
#pragma once

#include "keeld/hyp.h"
#include "keeld/loop.h"
#include "keeld/net.h"
#include "keeld/vm.h"

#define KEELD_PATH_BYTES 512u

struct settings {
	char definitions[KEELD_PATH_BYTES]; /* config/paths.h, under the prefix */
	char run[KEELD_PATH_BYTES];
	char state[KEELD_PATH_BYTES];
	char log[KEELD_PATH_BYTES];
	char keelvm[KEELD_PATH_BYTES];
	char seed[64];           /* this machine's identity */
	uint64_t connect_ns;     /* between tries to reach a new device process */
	uint64_t start_limit_ns; /* for its first answer */
	uint64_t backoff_ns;     /* before the second start; doubled each time */
	uint64_t backoff_max_ns;
	uint64_t stable_ns;      /* served so long: failures are forgotten */
	uint64_t press_again_ns; /* between two presses of the power button */
	uint64_t destroy_retry_ns;
	unsigned destroy_tries;
};

struct keeld {
	struct loop loop;
	struct hyp *hyp;
	const struct net *net;
	struct settings settings;
	struct vm *vms;
	/* What a client waited for: came, or (error not NULL) did not. */
	void (*done)(struct keeld *keeld, struct vm *vm, enum vm_wish wish, const char *error);
};

/* prefix: "" or a folder under which all paths lie (for tests). */
void settings_init(struct settings *settings, const char *prefix, const char *keelvm);
/* Makes the folders. 0 or -errno with one line in `error`. */
int settings_make_folders(const struct settings *settings, char *error, size_t error_bytes);
/* "FOLDER/NAME SUFFIX"; false: too long. */
bool settings_path(
        char out[KEELD_PATH_BYTES], const char *folder, const char *name, const char *suffix);

/*
 * At the start: takes over all VMs that hyp has, removes what a predecessor had half made, then
 * starts those with autostart. -errno: hyp does not answer.
 */
int keeld_begin(struct keeld *keeld);
/* Calls visit for each NAME.conf among the definitions, in the order of the names. */
void keeld_each_definition(struct keeld *keeld,
        void (*visit)(void *ctx, const char *name, const char *path), void *ctx);

/* record.c: what a VM was made of. All are done or not at all; 0 or -errno. */
int record_make(const struct settings *settings, const char *name, const char *text, size_t bytes);
int record_commit(const struct settings *settings, const char *name);
void record_remove(const struct settings *settings, const char *name);
bool record_is_making(const struct settings *settings, const char *name);
/* False: none, or it cannot be read. */
bool record_load(const struct settings *settings, const char *name, struct vmfile *out);

/* Writes a file so that a reader finds all of it or none, and it replaces nothing unless `replace`.
 * 0 or -errno (-EEXIST). */
int record_write_file(const char *path, const char *text, size_t bytes, bool replace);
