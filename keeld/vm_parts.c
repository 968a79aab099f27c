/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes and removes the things that a VM is put together from (vm_parts.h). */
#include "keeld/vm_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "keeld/log.h"

/* The file that vm_load_checked read last, for the record that is made of it next. */
static char loaded[VMFILE_TEXT_BYTES];
static size_t loaded_bytes;

__attribute__((format(printf, 4, 5))) static bool refuse(
        const struct vm *vm, unsigned line, struct vmfile_error *error, const char *format, ...)
{
	size_t room = sizeof(error->text);
	int head = line == 0 ? snprintf(error->text, room, "%s: ", vm->file.file)
	                     : snprintf(error->text, room, "%s:%u: ", vm->file.file, line);
	va_list args;

	va_start(args, format);
	vsnprintf(error->text + head, room - (size_t)head, format, args);
	va_end(args);
	return false;
}

static bool check_user_taps(struct vm *vm, struct vmfile_error *error)
{
	char why[256];

	for (unsigned i = 0; i < vm->file.net_count; i++) {
		const struct vmfile_net *net = &vm->file.nets[i];

		if (net->tap[0] != '\0' && vm->keeld->net->find(net->tap, why, sizeof(why)) != 0)
			return refuse(vm, net->line, error, "%s", why);
	}
	return true;
}

bool vm_load_checked(struct vm *vm, struct vmfile_error *error)
{
	struct keeld *keeld = vm->keeld;
	struct keel_hc_info info;
	char path[KEELD_PATH_BYTES];
	int rc;

	if (!settings_path(path, keeld->settings.definitions, vm->name, ".conf") ||
	        access(path, F_OK) != 0) {
		snprintf(error->text, sizeof(error->text),
		        "there is no VM %s; make one with 'keel vm create FILE'", vm->name);
		return false;
	}
	if (!vmfile_read(path, loaded, &loaded_bytes, error) ||
	        !vmfile_parse(path, loaded, loaded_bytes, &vm->file, error))
		return false;
	if (strcmp(vm->file.name, vm->name) != 0)
		return refuse(vm, vm->file.line.name, error,
		        "the VM is named %s, the file %s.conf; give both the same name",
		        vm->file.name, vm->name);
	vmfile_fill_identity(&vm->file, keeld->settings.seed);
	if (!vmfile_check_files(&vm->file, true, error) || !check_user_taps(vm, error))
		return false;
	rc = keeld->hyp->info(keeld->hyp, &info);
	if (rc != 0)
		return refuse(vm, 0, error, "hyp does not answer: %s", strerror(-rc));
	const struct vmfile_room room = {info.pool_bytes, info.pool_free_bytes};

	return vmfile_check_room(&vm->file, &room, error);
}

bool vm_make_record(struct vm *vm, struct vmfile_error *error)
{
	int rc = record_make(&vm->keeld->settings, vm->name, loaded, loaded_bytes);

	vm->known = rc == 0;
	if (rc == 0)
		return true;
	return refuse(vm, 0, error, "cannot write to %s: %s; is there room?",
	        vm->keeld->settings.state, strerror(-rc));
}

static const char *explain(int rc)
{
	switch (rc) {
	case -EEXIST: return "it has a VM of that name, which keeld did not make; end that first";
	case -ENOMEM: return "it has not enough memory left; stop another VM";
	case -ENOSPC: return "it has as many VMs as it can; stop another one";
	default: return strerror(-rc);
	}
}

bool vm_make_partition(struct vm *vm, struct vmfile_error *error)
{
	const struct vmfile *file = &vm->file;
	const uint32_t firmware_bytes = vmfile_firmware_bytes(file);
	struct keel_hc_vm_create block = {
	        .ram_bytes = file->memory_bytes + firmware_bytes,
	        .firmware_bytes = firmware_bytes,
	        .vault_bytes = vmfile_vault_bytes(file),
	        .vcpus = file->cpus,
	        .flags = file->pinned ? KEEL_VM_PINNED : 0,
	        .weight = file->weight,
	        .away_policy = file->without_root,
	        .away_ms = file->without_root_s * 1000,
	        .wall_clock_s = (int64_t)time(NULL),
	};
	int rc;

	if (file->firmware[0] != '\0' && firmware_bytes == 0)
		return refuse(vm, file->line.firmware, error, "firmware %s is not there any more",
		        file->firmware);
	memcpy(block.name, file->name, sizeof(block.name));
	memcpy(block.uuid, file->uuid, sizeof(block.uuid));
	rc = vm->keeld->hyp->vm_create(vm->keeld->hyp, &block);
	if (rc != 0)
		return refuse(
		        vm, file->line.name, error, "hyp cannot make the VM: %s", explain(rc));
	vm->id = block.head.vm;
	return true;
}

/* By hyp's number of the VM, which no other has while it lives. */
static void name_tap(const struct vm *vm, unsigned index, char tap[16])
{
	snprintf(tap, 16, "keel%u.%u", vm->id % 1000, index % 100);
}

static bool add_tap(struct vm *vm, unsigned index, char *why, size_t why_bytes)
{
	char tap[16];

	name_tap(vm, index, tap);
	return vm->file.nets[index].bridge[0] == '\0' ||
	       vm->keeld->net->tap_add(tap, vm->file.nets[index].bridge, why, why_bytes) == 0;
}

static void remove_taps(struct vm *vm, unsigned count)
{
	char tap[16];

	for (unsigned i = 0; i < count; i++) {
		name_tap(vm, i, tap);
		if (vm->file.nets[i].bridge[0] != '\0')
			vm->keeld->net->tap_remove(tap);
	}
}

bool vm_make_taps(struct vm *vm, struct vmfile_error *error)
{
	char why[256];

	for (unsigned i = 0; i < vm->file.net_count; i++)
		if (!add_tap(vm, i, why, sizeof(why))) {
			remove_taps(vm, i);
			return refuse(vm, vm->file.nets[i].line, error, "%s", why);
		}
	return true;
}

void vm_add_taps(struct vm *vm)
{
	char why[256];

	for (unsigned i = 0; vm->known && i < vm->file.net_count; i++)
		if (!add_tap(vm, i, why, sizeof(why)))
			log_line("%s: %s", vm->name, why);
}

void vm_remove_taps(struct vm *vm)
{
	remove_taps(vm, vm->known ? vm->file.net_count : 0);
}

bool vm_socket_path(const struct vm *vm, char path[KEELD_PATH_BYTES])
{
	int bytes = snprintf(
	        path, KEELD_PATH_BYTES, "%s/vm/%s.sock", vm->keeld->settings.run, vm->name);

	return bytes > 0 && bytes < (int)KEELD_PATH_BYTES;
}

void vm_forget_parts(struct vm *vm)
{
	char path[KEELD_PATH_BYTES];
	struct stat info;

	vm_remove_taps(vm);
	/* Of a device process that was killed. What is no socket is not ours (C-57). */
	if (vm_socket_path(vm, path) && lstat(path, &info) == 0 && S_ISSOCK(info.st_mode))
		unlink(path);
	record_remove(&vm->keeld->settings, vm->name);
}

/* A descriptor from which the definition can be read; or -errno. */
static int open_definition(const struct vm *vm)
{
	char taps[DEFINITION_MAX_NETS][16];
	size_t bytes;
	char *text;
	int fd, rc = 0;

	for (unsigned i = 0; i < vm->file.net_count; i++)
		if (vm->file.nets[i].tap[0] != '\0')
			memcpy(taps[i], vm->file.nets[i].tap, sizeof(taps[i]));
		else
			name_tap(vm, i, taps[i]);
	text = vmfile_to_definition(&vm->file, (const char(*)[16])taps);
	if (text == NULL)
		return -ENOMEM;
	bytes = strlen(text);
	fd = memfd_create("definition", MFD_CLOEXEC);
	if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes || lseek(fd, 0, SEEK_SET) != 0)
		rc = -errno;
	cJSON_free(text);
	if (rc != 0 && fd >= 0)
		close(fd);
	return rc != 0 ? rc : fd;
}

static int open_log(struct vm *vm)
{
	char path[KEELD_PATH_BYTES];
	struct stat info;
	int fd;

	if (!settings_path(path, vm->keeld->settings.log, vm->name, ".log"))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (fd < 0)
		return -errno;
	vm->log_bytes = fstat(fd, &info) == 0 ? info.st_size : 0;
	return fd;
}

static int spawn(struct vm *vm, bool format, int input, int output)
{
	char id[16], run[KEELD_PATH_BYTES + 8], keelvm[KEELD_PATH_BYTES];
	char vm_option[] = "--vm", run_option[] = "--run-dir", format_option[] = "--format",
	     restart_option[] = "--restart";
	char *argv[] = {keelvm, vm_option, id, run_option, run, NULL, NULL};

	memcpy(keelvm, vm->keeld->settings.keelvm, sizeof(keelvm));
	snprintf(id, sizeof(id), "%u", vm->id);
	snprintf(run, sizeof(run), "%s/vm", vm->keeld->settings.run);
	if (format)
		argv[3] = format_option, argv[4] = NULL;
	else if (vm->restart)
		argv[5] = restart_option;
	return process_start(&vm->process, argv, input, output);
}

int vm_spawn(struct vm *vm, bool format)
{
	int input = format ? open_definition(vm) : open("/dev/null", O_RDONLY | O_CLOEXEC);
	int output, rc;

	if (input < 0)
		return input == -1 ? -errno : input;
	output = open_log(vm);
	rc = output < 0 ? output : spawn(vm, format, input, output);
	if (output >= 0)
		close(output);
	close(input);
	return rc;
}

/* Its own words if it has said any ("keelvm: …"), else the last line. */
static const char *find_failure(char *text)
{
	const char *found = NULL, *last = NULL;
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line != NULL;
	        line = strtok_r(NULL, "\n", &rest)) {
		last = line;
		if (strncmp(line, "keelvm: ", 8) == 0)
			found = line + 8;
	}
	return found != NULL ? found : last;
}

void vm_read_failure(const struct vm *vm, char *out, size_t out_bytes)
{
	char path[KEELD_PATH_BYTES], text[4096];
	const char *found = NULL;
	ssize_t got = -1;
	int fd = -1;

	if (settings_path(path, vm->keeld->settings.log, vm->name, ".log"))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		off_t end = lseek(fd, 0, SEEK_END), from = vm->log_bytes;

		if (end - from > (off_t)sizeof(text) - 1)
			from = end - (off_t)sizeof(text) + 1;
		got = pread(fd, text, sizeof(text) - 1, from);
		close(fd);
	}
	if (got > 0) {
		text[got] = '\0';
		found = find_failure(text);
	}
	snprintf(out, out_bytes, "%s",
	        found != NULL ? found : "its device process ended without a word");
}
