/* SPDX-License-Identifier: BSD-2-Clause */
/* A hyp, a network and a keelvm that do as they are told, for the daemon's tests. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "hw/linux_boot.h"
#include "keeld/keeld.h"
#include "keeld/vm_parts.h"

/*
 * The device process is a real one: this test program itself, started by the daemon as "keelvm". It
 * reads from the file DIR/fake what to do:
 *
 *   format=N   end with N, with a line on standard error unless N is 0
 *   serve=ok   take the right to the VM (a file lock), answer on the control socket
 *   serve=N    end with N, with a line on standard error
 *   serve=hang answer nothing
 *   button=N   end with N when the power button is pressed; button=no: do nothing
 *
 * hyp frees no VM whose right somebody holds.
 */
static char dir[64];

static void rig_write(const char *name, const char *text)
{
	char path[256];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static bool rig_exists(const char *format, const char *name)
{
	char path[512];
	struct stat info;
	size_t used = (size_t)snprintf(path, sizeof(path), "%s/", dir);

	snprintf(path + used, sizeof(path) - used, format, name);
	return lstat(path, &info) == 0;
}

/* ---- the fake keelvm: another process ---- */

static const char *fake_get(const char *key, char *text, const char *otherwise)
{
	size_t bytes = strlen(key);
	char path[256], *rest = NULL;
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "%s/fake", getenv("KEEL_FAKE_DIR"));
	fd = open(path, O_RDONLY);
	if (fd >= 0)
		got = read(fd, text, 255);
	text[got > 0 ? got : 0] = '\0';
	for (char *word = strtok_r(text, " \n", &rest); word != NULL;
	        word = strtok_r(NULL, " \n", &rest))
		if (strncmp(word, key, bytes) == 0 && word[bytes] == '=')
			return word + bytes + 1;
	return otherwise;
}

static int fake_listen(const char *run, const char *id)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[256], name[64] = "";
	FILE *in;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(path, sizeof(path), "%s/name.%s", getenv("KEEL_FAKE_DIR"), id);
	in = fopen(path, "r");
	if (in == NULL || fgets(name, sizeof(name), in) == NULL)
		_exit(90);
	fclose(in);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s.sock", run, name);
	unlink(address.sun_path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 4) != 0)
		_exit(91);
	return fd;
}

static void fake_answer(int client, const char *id)
{
	char line[256], out[256], text[256];
	ssize_t got;

	while ((got = read(client, line, sizeof(line) - 1)) > 0) {
		line[got] = '\0';
		if (strstr(line, "quit") != NULL)
			_exit(3);
		if (strstr(line, "powerbutton") != NULL) {
			const char *word = fake_get("button", text, "0");

			if (strcmp(word, "refuse") == 0)
				strcpy(out, "{\"error\":\"no button\",\"ok\":false}\n");
			else
				strcpy(out, "{\"ok\":true}\n");
			if (write(client, out, strlen(out)) < 0)
				return;
			if (word[0] >= '0' && word[0] <= '9')
				_exit(atoi(word));
			continue;
		}
		snprintf(out, sizeof(out), "{\"ok\":true,\"id\":%s,\"pid\":%d}\n", id, getpid());
		if (write(client, out, strlen(out)) < 0)
			return;
	}
}

static bool take_right(int fd)
{
	struct flock lock = {.l_type = F_WRLCK};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* argv: keelvm --vm ID (--format | --run-dir RUN [--restart]) */
static int fake_main(int argc, char **argv)
{
	const char *id = argv[2];
	char text[256], path[256];
	const char *word;
	int lock, listener;

	signal(SIGPIPE, SIG_IGN);
	alarm(60);
	snprintf(path, sizeof(path), "%s/right.%s", getenv("KEEL_FAKE_DIR"), id);
	lock = open(path, O_RDWR | O_CREAT, 0600);
	if (!take_right(lock)) {
		fprintf(stderr, "keelvm: VM %s: it has a device process already\n", id);
		return 1;
	}
	if (strcmp(argv[3], "--format") == 0) {
		char definition[4096];
		ssize_t got = read(STDIN_FILENO, definition, sizeof(definition));

		word = fake_get("format", text, "0");
		if (strcmp(word, "hang") == 0)
			pause();
		if (strcmp(word, "kill") == 0)
			raise(SIGKILL);
		if (atoi(word) != 0)
			fprintf(stderr, "noise\nkeelvm: cannot format\n");
		return got > 0 && definition[0] == '{' ? atoi(word) : 92;
	}
	if (argc == 6) {
		snprintf(path, sizeof(path), "%s/restarted", getenv("KEEL_FAKE_DIR"));
		close(open(path, O_CREAT | O_WRONLY, 0600));
	}
	word = fake_get("serve", text, "ok");
	if (strcmp(word, "hang") == 0)
		pause();
	if (strcmp(word, "kill") == 0)
		raise(SIGKILL);
	if (strcmp(word, "ok") != 0) {
		if (atoi(word) != 0)
			fprintf(stderr, "keelvm: cannot serve\n");
		return atoi(word);
	}
	listener = fake_listen(argv[4], id);
	for (;;)
		fake_answer(accept(listener, NULL, NULL), id);
}

/* ---- the fake hyp and network: in this process ---- */

static struct {
	struct hyp hyp;
	struct keel_hc_vm_info vms[8];
	unsigned created, destroyed;
	int info_error, create_error, destroy_error;
	uint64_t pool_free;
	char taps[16][16];
	unsigned tap_count;
	unsigned tap_fail_at; /* the n-th tap_add fails; 0: none */
	unsigned tap_adds;
	unsigned readies, beats;
	uint32_t beat_ms;
	int root_error;
} rig;

static int fake_root_ready(struct hyp *hyp)
{
	(void)hyp;
	rig.readies++;
	return rig.root_error;
}

static int fake_root_beat(struct hyp *hyp, uint32_t timeout_ms)
{
	(void)hyp;
	rig.beats++;
	rig.beat_ms = timeout_ms;
	return rig.root_error;
}

static int fake_info(struct hyp *hyp, struct keel_hc_info *info)
{
	(void)hyp;
	*info = (struct keel_hc_info){
	        .pool_bytes = 1ull << 30,
	        .pool_free_bytes = rig.pool_free,
	        .tsc_hz = 1000,
	        .now_tsc = 5000,
	};
	return rig.info_error;
}

static int fake_vm_info(struct hyp *hyp, struct keel_hc_vm_info *info)
{
	(void)hyp;
	for (uint32_t id = info->head.vm; id < 8; id++)
		if (rig.vms[id].head.vm != 0) {
			*info = rig.vms[id];
			return 0;
		}
	return -ENOENT;
}

static uint32_t rig_add_vm(const char *name)
{
	uint32_t id = 1;
	char file[32];

	while (rig.vms[id].head.vm != 0)
		id++;
	rig.vms[id] = (struct keel_hc_vm_info){
	        .head = {.vm = id}, .vcpus = 1, .ram_bytes = 64 << 20, .state = 2};
	strcpy(rig.vms[id].name, name);
	snprintf(file, sizeof(file), "name.%u", id);
	rig_write(file, name);
	return id;
}

static int fake_vm_create(struct hyp *hyp, struct keel_hc_vm_create *block)
{
	(void)hyp;
	if (rig.create_error != 0)
		return rig.create_error;
	for (unsigned i = 0; i < 8; i++)
		if (rig.vms[i].head.vm != 0 && strcmp(rig.vms[i].name, block->name) == 0)
			return -EEXIST;
	/* hyp refuses what is not so. */
	if (block->ram_bytes % (2 << 20) != 0 || block->vault_bytes % (2 << 20) != 0 ||
	        block->vault_bytes == 0 || block->vcpus == 0)
		return -EINVAL;
	block->head.vm = rig_add_vm(block->name);
	rig.created++;
	return 0;
}

/* Somebody has the right to serve it. Looks only: trying could keep another from taking it. */
static bool rig_is_served(uint32_t vm)
{
	struct flock lock = {.l_type = F_WRLCK};
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/right.%u", dir, vm);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(fcntl(fd, F_OFD_GETLK, &lock), 0);
	close(fd);
	return lock.l_type != F_UNLCK;
}

static int fake_vm_destroy(struct hyp *hyp, uint32_t vm)
{
	(void)hyp;
	assert_true(vm > 0 && vm < 8);
	if (rig.destroy_error != 0)
		return rig.destroy_error;
	if (rig.vms[vm].head.vm == 0)
		return -ENOENT;
	if (rig_is_served(vm))
		return -EBUSY;
	rig.vms[vm] = (struct keel_hc_vm_info){0};
	rig.destroyed++;
	return 0;
}

static int fake_tap_add(const char *tap, const char *bridge, char *error, size_t error_bytes)
{
	if (++rig.tap_adds == rig.tap_fail_at) {
		snprintf(error, error_bytes, "there is no bridge %s", bridge);
		return -ENODEV;
	}
	for (unsigned i = 0; i < rig.tap_count; i++)
		if (strcmp(rig.taps[i], tap) == 0)
			return 0;
	strcpy(rig.taps[rig.tap_count++], tap);
	return 0;
}

static void fake_tap_remove(const char *tap)
{
	for (unsigned i = 0; i < rig.tap_count; i++)
		if (strcmp(rig.taps[i], tap) == 0) {
			memmove(rig.taps[i], rig.taps[--rig.tap_count], sizeof(rig.taps[0]));
			return;
		}
	fail_msg("tap %s is not there", tap);
}

static int fake_find(const char *interface, char *error, size_t error_bytes)
{
	if (strcmp(interface, "mine") == 0)
		return 0;
	snprintf(error, error_bytes, "there is no tap %s", interface);
	return -ENODEV;
}

static const struct net fake_net = {
        .tap_add = fake_tap_add, .tap_remove = fake_tap_remove, .find = fake_find};

/* ---- the daemon under test ---- */

static struct keeld keeld;
static struct {
	unsigned count;
	bool failed;
	char error[VMFILE_ERROR_BYTES];
} done[4];

static void on_done(struct keeld *k, struct vm *vm, enum vm_wish wish, const char *error)
{
	(void)k;
	(void)vm;
	done[wish].count++;
	done[wish].failed = error != NULL;
	snprintf(done[wish].error, sizeof(done[wish].error), "%s", error != NULL ? error : "");
}

static char self[256];

/* A daemon that has not begun; what hyp has stays. */
static void rig_daemon(void)
{
	char error[256];

	memset(done, 0, sizeof(done));
	keeld = (struct keeld){.hyp = &rig.hyp, .net = &fake_net, .done = on_done};
	settings_init(&keeld.settings, dir, self);
	keeld.settings.connect_ns = 2000000;
	keeld.settings.backoff_ns = 4000000;
	keeld.settings.backoff_max_ns = 64000000;
	keeld.settings.destroy_retry_ns = 5000000;
	/* A process that was killed holds its locks until the machine finds time to end it. */
	keeld.settings.destroy_tries = 4000;
	assert_int_equal(loop_open(&keeld.loop), 0);
	assert_int_equal(settings_make_folders(&keeld.settings, error, sizeof(error)), 0);
}

/* It ends; device processes go on. */
static void rig_daemon_end(void)
{
	while (keeld.vms != NULL)
		vm_free(keeld.vms);
	loop_close(&keeld.loop);
}

static void rig_file(const char *name, const char *more)
{
	char path[128], text[1024];

	snprintf(path, sizeof(path), "etc/keel/vm/%s.conf", name);
	snprintf(text, sizeof(text), "name = %s\nmemory = 64M\nkernel = %s/bzImage\n%s", name, dir,
	        more);
	rig_write(path, text);
}

static void rig_kernel(void)
{
	uint8_t image[1024] = {0};
	struct linux_setup_header setup = {.boot_flag = LINUX_BOOT_FLAG,
	        .header = LINUX_HEADER_MAGIC,
	        .version = 0x20f,
	        .xloadflags = LINUX_XLF_KERNEL_64};
	char path[128];
	int fd;

	memcpy(image + LINUX_HEADER_OFFSET, &setup, sizeof(setup));
	snprintf(path, sizeof(path), "%s/bzImage", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, image, sizeof(image)), (ssize_t)sizeof(image));
	close(fd);
}

static int rig_set_up(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/keeld-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	setenv("KEEL_FAKE_DIR", dir, 1);
	memset(&rig, 0, sizeof(rig));
	rig.hyp = (struct hyp){
	        .info = fake_info,
	        .vm_info = fake_vm_info,
	        .vm_create = fake_vm_create,
	        .vm_destroy = fake_vm_destroy,
	        .root_ready = fake_root_ready,
	        .root_beat = fake_root_beat,
	        .fd = -1,
	};
	rig.pool_free = 1ull << 30;
	rig_daemon();
	rig_kernel();
	rig_write("fake", "");
	return 0;
}

static int rig_tear_down(void **state)
{
	char command[128];

	(void)state;
	/* What a failed case left. */
	for (struct vm *vm = keeld.vms; vm != NULL; vm = vm->next)
		process_signal(&vm->process, SIGKILL);
	rig_daemon_end();
	while (waitpid(-1, NULL, 0) > 0)
		;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

#define LIMIT_NS 20000000000ull

/* Runs the daemon until the condition holds. */
#define rig_until(condition)                                                                       \
	do {                                                                                       \
		uint64_t end_ns = loop_now_ns() + LIMIT_NS;                                        \
		while (!(condition)) {                                                             \
			if (loop_now_ns() > end_ns)                                                \
				fail_msg("never: %s", #condition);                                 \
			loop_step(&keeld.loop, 20);                                                \
		}                                                                                  \
	} while (0)

static bool folder_is_empty(const char *name)
{
	struct dirent *entry;
	char path[256];
	bool empty = true;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	folder = opendir(path);
	assert_non_null(folder);
	while ((entry = readdir(folder)) != NULL)
		if (entry->d_name[0] != '.') {
			print_message("left: %s/%s\n", name, entry->d_name);
			empty = false;
		}
	closedir(folder);
	return empty;
}

/* Of no VM anything is there but its file and its log. */
static void assert_nothing_left(void)
{
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(rig.vms[i].head.vm, 0);
	assert_int_equal(rig.tap_count, 0);
	assert_true(folder_is_empty("run/keel/vm"));
	assert_true(folder_is_empty("var/lib/keel/vm"));
	for (const struct vm *vm = keeld.vms; vm != NULL; vm = vm->next) {
		assert_int_equal(vm->state, VM_OFF);
		assert_int_equal(vm->process.pid, 0);
		assert_int_equal(
		        vm->retry.due_ns | vm->start_limit.due_ns | vm->stop_limit.due_ns, 0);
	}
	/* No child is left, running or dead. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void assert_has(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' has no '%s'", text, part);
	assert_null(strchr(text, '\n'));
}

/* main() of each test: the daemon starts this program as keelvm. */
#define RIG_MAIN(argc, argv)                                                                       \
	do {                                                                                       \
		if ((argc) > 3 && strcmp((argv)[1], "--vm") == 0)                                  \
			return fake_main(argc, argv);                                              \
		ssize_t got = readlink("/proc/self/exe", self, sizeof(self) - 1);                  \
		self[got > 0 ? got : 0] = '\0';                                                    \
		signal(SIGPIPE, SIG_IGN);                                                          \
	} while (0)
