/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's start: folders, the VMs that hyp has already, the ones that are to run. */
#include "keeld/keeld.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/paths.h"
#include "keeld/log.h"

#define MS 1000000ull

static void read_seed(struct settings *settings)
{
	FILE *in = fopen(PATHS_MACHINE_ID, "re");

	/* A root without one gives all its VMs of a name the same identity as another such root. */
	if (in == NULL || fgets(settings->seed, sizeof(settings->seed), in) == NULL)
		snprintf(settings->seed, sizeof(settings->seed), "keel");
	if (in != NULL)
		fclose(in);
	settings->seed[strcspn(settings->seed, "\n")] = '\0';
}

void settings_init(struct settings *settings, const char *prefix, const char *keelvm)
{
	*settings = (struct settings){
	        .connect_ns = 10 * MS,
	        .start_limit_ns = 120000 * MS,
	        .backoff_ns = 100 * MS,
	        .backoff_max_ns = 10000 * MS,
	        .stable_ns = 10000 * MS,
	        .press_again_ns = 5000 * MS,
	        .destroy_retry_ns = 100 * MS,
	        .destroy_tries = 30,
	};
	snprintf(settings->definitions, KEELD_PATH_BYTES, "%s%s", prefix, PATHS_DEFINITIONS);
	snprintf(settings->run, KEELD_PATH_BYTES, "%s%s", prefix, PATHS_RUN);
	snprintf(settings->state, KEELD_PATH_BYTES, "%s%s", prefix, PATHS_STATE);
	snprintf(settings->log, KEELD_PATH_BYTES, "%s%s", prefix, PATHS_LOG);
	snprintf(settings->keelvm, KEELD_PATH_BYTES, "%s", keelvm);
	read_seed(settings);
}

bool settings_path(
        char out[KEELD_PATH_BYTES], const char *folder, const char *name, const char *suffix)
{
	int bytes = snprintf(out, KEELD_PATH_BYTES, "%s/%s%s", folder, name, suffix);

	return bytes > 0 && bytes < (int)KEELD_PATH_BYTES;
}

/* mkdir -p */
static int make_folder(const char *path, mode_t mode)
{
	char part[KEELD_PATH_BYTES];

	for (size_t i = 1; i < sizeof(part); i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, path[i] == '\0' ? mode : 0755) != 0 && errno != EEXIST)
			return -errno;
		if (path[i] == '\0')
			return 0;
	}
	return -ENAMETOOLONG;
}

int settings_make_folders(const struct settings *settings, char *error, size_t error_bytes)
{
	char run_vm[KEELD_PATH_BYTES];
	const char *folders[] = {
	        settings->definitions, settings->run, settings->state, settings->log, run_vm};

	if (!settings_path(run_vm, settings->run, "vm", ""))
		return -ENAMETOOLONG;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		int rc = make_folder(folders[i], 0755);

		if (rc != 0) {
			snprintf(error, error_bytes, "%s: %s", folders[i], strerror(-rc));
			return rc;
		}
	}
	return 0;
}

static int is_definition(const struct dirent *entry)
{
	size_t bytes = strlen(entry->d_name);
	char name[KEEL_VM_NAME_BYTES];

	if (bytes <= 5 || bytes - 5 >= sizeof(name) ||
	        strcmp(entry->d_name + bytes - 5, ".conf") != 0)
		return 0;
	memcpy(name, entry->d_name, bytes - 5);
	name[bytes - 5] = '\0';
	return vmfile_is_name(name);
}

void keeld_each_definition(struct keeld *keeld,
        void (*visit)(void *ctx, const char *name, const char *path), void *ctx)
{
	const char *folder = keeld->settings.definitions;
	struct dirent **entries;
	int count = scandir(folder, &entries, is_definition, alphasort);

	for (int i = 0; i < count; i++) {
		char *name = entries[i]->d_name;
		char path[KEELD_PATH_BYTES];

		if (settings_path(path, folder, name, "")) {
			name[strlen(name) - 5] = '\0';
			visit(ctx, name, path);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

static int adopt_all(struct keeld *keeld)
{
	struct keel_hc_vm_info info = {.head = {.vm = 1}};
	int rc;

	while ((rc = keeld->hyp->vm_info(keeld->hyp, &info)) == 0) {
		uint32_t id = info.head.vm;
		struct vm *vm;

		info.name[sizeof(info.name) - 1] = '\0';
		vm = vmfile_is_name(info.name) ? vm_get(keeld, info.name) : NULL;
		if (vm == NULL)
			log_line("hyp's VM %u has no name to call it by; left alone", id);
		else if (vm->id == 0 && vm->state == VM_OFF)
			vm_adopt(vm, id);
		info = (struct keel_hc_vm_info){.head = {.vm = id + 1}};
	}
	return rc == -ENOENT ? 0 : rc;
}

/* A record of a VM that hyp does not have: hyp was started anew, or its daemon ended just before or
 * after making it. */
static int is_record(const struct dirent *entry)
{
	size_t bytes = strlen(entry->d_name);

	return is_definition(entry) ||
	       (bytes > 7 && strcmp(entry->d_name + bytes - 7, ".making") == 0);
}

static void drop_old_records(struct keeld *keeld)
{
	struct dirent **entries;
	int count = scandir(keeld->settings.state, &entries, is_record, alphasort);

	for (int i = 0; i < count; i++) {
		char *name = entries[i]->d_name;
		const struct vm *vm;

		*strrchr(name, '.') = '\0';
		vm = vm_find(keeld, name);
		if (vm == NULL || vm->id == 0)
			record_remove(&keeld->settings, name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

static void start_by_itself(void *ctx, const char *name, const char *path)
{
	static struct vmfile_error error;
	static struct vmfile file;
	struct keeld *keeld = ctx;
	struct vm *vm;

	if (!vmfile_load(path, &file, &error)) {
		log_line("%s", error.text);
		return;
	}
	if (!file.autostart)
		return;
	vm = vm_get(keeld, name);
	if (vm != NULL && vm->state == VM_OFF && !vm_start(vm, &error))
		log_line("%s", error.text);
}

int keeld_begin(struct keeld *keeld)
{
	int rc = adopt_all(keeld);

	if (rc != 0)
		return rc;
	drop_old_records(keeld);
	keeld_each_definition(keeld, start_by_itself, keeld);
	return 0;
}
