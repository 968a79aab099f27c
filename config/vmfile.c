/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a VM's file by tables of keys: an unknown one, a second one, a wrong type or a missing one
 * is an error with its line. */
#include "config/vmfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/hypercall.h"
#include "config/conf.h"
#include "lib/cmdline.h"

#define COUNT(array) ((unsigned)(sizeof(array) / sizeof((array)[0])))

struct reader {
	struct vmfile *vm;
	struct vmfile_error *error;
};

__attribute__((format(printf, 3, 4))) static bool refuse(
        const struct reader *reader, unsigned line, const char *format, ...)
{
	char *text = reader->error->text;
	int head = snprintf(text, VMFILE_ERROR_BYTES, "%s:%u: ", reader->vm->file, line);
	va_list args;

	va_start(args, format);
	vsnprintf(text + head, VMFILE_ERROR_BYTES - (size_t)head, format, args);
	va_end(args);
	return false;
}

struct key {
	const char *name;
	bool (*read)(const struct reader *reader, const struct conf_node *node, void *out);
	const char *needed; /* an example, if the key must be there; else NULL */
	bool repeats;
};

static const struct key *find_key(const struct key *keys, unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static bool refuse_key(const struct reader *reader, const struct conf_node *node,
        const struct key *keys, unsigned count)
{
	char known[256] = "";
	size_t used = 0;

	for (unsigned i = 0; i < count; i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
		        i == 0 ? "" : ", ", keys[i].name);
	return refuse(
	        reader, node->line, "unknown key '%.40s'; the keys here are %s", node->key, known);
}

static bool read_keys(const struct reader *reader, const struct conf_node *section,
        const char *what, const struct key *keys, unsigned count, void *out)
{
	unsigned seen[32] = {0}; /* the line, 0: not there */

	for (const struct conf_node *node = section->first; node != NULL; node = node->next) {
		const struct key *key = find_key(keys, count, node->key);

		if (key == NULL)
			return refuse_key(reader, node, keys, count);
		if (seen[key - keys] != 0 && !key->repeats)
			return refuse(reader, node->line,
			        "'%s' was given on line %u already; remove one of them", key->name,
			        seen[key - keys]);
		seen[key - keys] = node->line;
		if (!key->read(reader, node, out))
			return false;
	}
	for (unsigned i = 0; i < count; i++)
		if (keys[i].needed != NULL && seen[i] == 0)
			return refuse(reader, section->line, "%s has no '%s'; add for example: %s",
			        what, keys[i].name, keys[i].needed);
	return true;
}

static bool read_text(const struct reader *reader, const struct conf_node *node, char *out,
        size_t out_bytes, const char *example)
{
	if (node->kind == CONF_SECTION)
		return refuse(reader, node->line, "'%s' is no section; write %s = %s", node->key,
		        node->key, example);
	if (node->text[0] == '\0')
		return refuse(reader, node->line,
		        "'%s' is empty; give it a value or remove the line", node->key);
	if (strlen(node->text) >= out_bytes)
		return refuse(reader, node->line, "'%s' is longer than %zu bytes; shorten it",
		        node->key, out_bytes - 1);
	strcpy(out, node->text);
	return true;
}

static bool read_path(const struct reader *reader, const struct conf_node *node, char *out)
{
	if (!read_text(reader, node, out, DEFINITION_PATH_BYTES, "/PATH"))
		return false;
	if (out[0] == '/')
		return true;
	return refuse(reader, node->line,
	        "'%s' is '%.100s'; give an absolute path, since keeld does not run in your folder",
	        node->key, out);
}

static bool read_number(const struct reader *reader, const struct conf_node *node, unsigned low,
        unsigned high, unsigned *out)
{
	unsigned long value = 0;
	char *end = NULL;

	if (node->kind == CONF_WORD && isdigit((unsigned char)node->text[0])) {
		errno = 0;
		value = strtoul(node->text, &end, 10);
	}
	if (end == NULL || *end != '\0' || errno != 0 || value < low || value > high)
		return refuse(reader, node->line,
		        "'%s' must be a whole number from %u to %u, without quotes", node->key, low,
		        high);
	*out = (unsigned)value;
	return true;
}

static bool read_bool(const struct reader *reader, const struct conf_node *node, bool *out)
{
	static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {
	                                                                "false", "no", "off"};

	for (unsigned i = 0; node->kind == CONF_WORD && i < COUNT(yes); i++) {
		*out = strcmp(node->text, yes[i]) == 0;
		if (*out || strcmp(node->text, no[i]) == 0)
			return true;
	}
	return refuse(reader, node->line, "'%s' must be yes or no, without quotes", node->key);
}

bool vmfile_is_name(const char *text)
{
	const char *at = text;

	if (!isalpha((unsigned char)text[0]) || strlen(text) >= KEEL_VM_NAME_BYTES)
		return false;
	while (isalnum((unsigned char)*at) || (*at != '\0' && strchr("-_.", *at) != NULL))
		at++;
	return *at == '\0';
}

static bool key_name(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile *vm = out;

	vm->line.name = node->line;
	if (!read_text(reader, node, vm->name, sizeof(vm->name), "NAME"))
		return false;
	if (vmfile_is_name(vm->name))
		return true;
	return refuse(reader, node->line,
	        "'%s' is no name for a VM; begin with a letter and use only letters, digits, '-', "
	        "'_' and '.'",
	        vm->name);
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Pairs of hex digits where `pattern` has x, and in between what it has. */
static bool read_hex(const char *text, const char *pattern, uint8_t *out)
{
	for (; *pattern != '\0'; pattern++) {
		if (*pattern != 'x') {
			if (*text++ != *pattern)
				return false;
			continue;
		}
		int high = hex_value(text[0]);
		int low = high < 0 ? -1 : hex_value(text[1]);

		if (low < 0)
			return false;
		*out++ = (uint8_t)(high << 4 | low);
		text += 2;
	}
	return *text == '\0';
}

static bool key_uuid(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile *vm = out;

	vm->has_uuid = node->text != NULL && read_hex(node->text, "xxxx-xx-xx-xx-xxxxxx", vm->uuid);
	if (vm->has_uuid)
		return true;
	return refuse(reader, node->line,
	        "'uuid' must look like 123e4567-e89b-12d3-a456-426614174000; or remove it, and "
	        "keelOS makes one");
}

static bool key_cpus(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile *vm = out;

	vm->line.cpus = node->line;
	return read_number(reader, node, 1, KEEL_MAX_VCPUS, &vm->cpus);
}

static bool key_memory(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile *vm = out;

	vm->line.memory = node->line;
	if (node->text == NULL || !cmdline_parse_size(node->text, &vm->memory_bytes))
		return refuse(reader, node->line,
		        "'memory' must be a size; write for example 512M or 2G");
	if (vm->memory_bytes < 32u << 20 || vm->memory_bytes > 1ull << 46)
		return refuse(reader, node->line, "'memory' must be from 32M to 64T%s",
		        vm->memory_bytes < 65536 ? "; write the unit, for example 512M" : "");
	if (vm->memory_bytes % (2u << 20) != 0)
		return refuse(reader, node->line, "'memory' must be a multiple of 2M; round it up");
	return true;
}

static bool key_kernel(const struct reader *reader, const struct conf_node *node, void *out)
{
	((struct vmfile *)out)->line.kernel = node->line;
	return read_path(reader, node, ((struct vmfile *)out)->kernel);
}

static bool key_initrd(const struct reader *reader, const struct conf_node *node, void *out)
{
	((struct vmfile *)out)->line.initrd = node->line;
	return read_path(reader, node, ((struct vmfile *)out)->initrd);
}

static bool key_firmware(const struct reader *reader, const struct conf_node *node, void *out)
{
	((struct vmfile *)out)->line.firmware = node->line;
	return read_path(reader, node, ((struct vmfile *)out)->firmware);
}

static bool key_firmware_vars(const struct reader *reader, const struct conf_node *node, void *out)
{
	((struct vmfile *)out)->line.firmware_vars = node->line;
	return read_path(reader, node, ((struct vmfile *)out)->firmware_vars);
}

static bool key_cmdline(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile *vm = out;

	return read_text(reader, node, vm->cmdline, sizeof(vm->cmdline), "\"TEXT\"");
}

static bool key_path(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_path(reader, node, ((struct vmfile_disk *)out)->path);
}

static bool key_readonly(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_bool(reader, node, &((struct vmfile_disk *)out)->readonly);
}

static bool key_serial(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile_disk *disk = out;

	return read_text(reader, node, disk->serial, sizeof(disk->serial), "TEXT");
}

static bool key_iops(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_number(
	        reader, node, 1, DEFINITION_IOPS_MAX, &((struct vmfile_disk *)out)->iops);
}

static bool key_bandwidth(const struct reader *reader, const struct conf_node *node, void *out)
{
	uint64_t *bandwidth = &((struct vmfile_disk *)out)->bandwidth;

	if (node->text == NULL || !cmdline_parse_size(node->text, bandwidth) ||
	        *bandwidth < DEFINITION_BANDWIDTH_MIN || *bandwidth > DEFINITION_BANDWIDTH_MAX)
		return refuse(reader, node->line,
		        "'bandwidth' must be bytes a second from 4K to 1T; write for example 100M");
	return true;
}

static bool key_backend(const struct reader *reader, const struct conf_node *node, void *out)
{
	enum definition_backend *backend = &((struct vmfile_disk *)out)->backend;

	if (node->text != NULL && strcmp(node->text, "io_uring") == 0)
		*backend = DEFINITION_IO_URING;
	else if (node->text != NULL && strcmp(node->text, "workers") == 0)
		*backend = DEFINITION_WORKERS;
	else
		return refuse(reader, node->line,
		        "'backend' must be io_uring or workers; or remove it, and keelOS measures");
	return true;
}

static bool key_fixed_buffers(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_bool(reader, node, &((struct vmfile_disk *)out)->fixed_buffers);
}

static bool key_iopoll(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_bool(reader, node, &((struct vmfile_disk *)out)->iopoll);
}

/* What the kernel takes as an interface's name (dev_valid_name). */
static bool read_interface(
        const struct reader *reader, const struct conf_node *node, char *out, size_t out_bytes)
{
	if (!read_text(reader, node, out, out_bytes, "NAME"))
		return false;
	if (strcmp(out, ".") != 0 && strcmp(out, "..") != 0 && strpbrk(out, "/:% \t") == NULL)
		return true;
	return refuse(reader, node->line,
	        "'%s' cannot be the name of a network interface; 'ip link' lists yours", out);
}

static bool key_bridge(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile_net *net = out;

	return read_interface(reader, node, net->bridge, sizeof(net->bridge));
}

static bool key_tap(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile_net *net = out;

	return read_interface(reader, node, net->tap, sizeof(net->tap));
}

static bool key_mac(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile_net *net = out;

	net->has_mac = node->text != NULL && read_hex(node->text, "x:x:x:x:x:x", net->mac);
	if (!net->has_mac)
		return refuse(reader, node->line,
		        "'mac' must look like 52:54:00:12:34:56; or remove it, and keelOS makes "
		        "one");
	if (net->mac[0] & 1)
		return refuse(
		        reader, node->line, "'mac' is a group's address; make its first byte even");
	return true;
}

static const struct key disk_keys[] = {
        {"path", key_path, "path = /srv/disk.img", false},
        {"readonly", key_readonly, NULL, false},
        {"serial", key_serial, NULL, false},
        {"iops", key_iops, NULL, false},
        {"bandwidth", key_bandwidth, NULL, false},
        {"backend", key_backend, NULL, false},
        {"fixed_buffers", key_fixed_buffers, NULL, false},
        {"iopoll", key_iopoll, NULL, false},
};

static const struct key net_keys[] = {
        {"bridge", key_bridge, NULL, false},
        {"tap", key_tap, NULL, false},
        {"mac", key_mac, NULL, false},
};

static bool check_section(const struct reader *reader, const struct conf_node *node, unsigned count,
        unsigned max, const char *example)
{
	if (node->kind != CONF_SECTION)
		return refuse(
		        reader, node->line, "'%s' is a section; write %s", node->key, example);
	if (count == max)
		return refuse(
		        reader, node->line, "more than %u of '%s'; remove one", max, node->key);
	return true;
}

static bool key_disk(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile *vm = out;
	struct vmfile_disk *disk;

	if (!check_section(reader, node, vm->disk_count, DEFINITION_MAX_DISKS,
	            "disk { path = /srv/disk.img }"))
		return false;
	disk = &vm->disks[vm->disk_count++];
	disk->line = node->line;
	return read_keys(reader, node, "this disk", disk_keys, COUNT(disk_keys), disk);
}

static bool key_net(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile *vm = out;
	struct vmfile_net *net;

	if (!check_section(
	            reader, node, vm->net_count, DEFINITION_MAX_NETS, "net { bridge = br0 }"))
		return false;
	net = &vm->nets[vm->net_count++];
	net->line = node->line;
	if (!read_keys(reader, node, "this net", net_keys, COUNT(net_keys), net))
		return false;
	if ((net->bridge[0] != '\0') != (net->tap[0] != '\0'))
		return true;
	return refuse(reader, node->line,
	        net->tap[0] != '\0' ? "this net has both 'bridge' and 'tap'; remove one of them"
	                            : "this net has neither 'bridge' nor 'tap'; give one of them");
}

static bool key_rng(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_bool(reader, node, &((struct vmfile *)out)->rng);
}

static bool key_testdev(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_bool(reader, node, &((struct vmfile *)out)->testdev);
}

static bool key_autostart(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_bool(reader, node, &((struct vmfile *)out)->autostart);
}

static bool key_pinned(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_bool(reader, node, &((struct vmfile *)out)->pinned);
}

static bool key_weight(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_number(reader, node, 1, 10000, &((struct vmfile *)out)->weight);
}

static const char *const policies[] = {
        [DEFINITION_RESTART] = "restart",
        [DEFINITION_DESTROY] = "destroy",
        [DEFINITION_PRESERVE] = "preserve",
};

static bool read_policy(const struct reader *reader, const struct conf_node *node, unsigned count,
        enum definition_policy *out)
{
	for (unsigned i = 0; node->text != NULL && i < count; i++)
		if (strcmp(node->text, policies[i]) == 0) {
			*out = (enum definition_policy)i;
			return true;
		}
	return refuse(reader, node->line, "'%s' must be restart%s", node->key,
	        count == 2 ? " or destroy" : ", destroy or preserve");
}

static bool key_on_reboot(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_policy(reader, node, 2, &((struct vmfile *)out)->on_reboot);
}

static bool key_on_poweroff(const struct reader *reader, const struct conf_node *node, void *out)
{
	return read_policy(reader, node, 3, &((struct vmfile *)out)->on_poweroff);
}

const char *const vmfile_without_root[VMFILE_WITHOUT_ROOT_COUNT] = {
        [KEEL_AWAY_WAIT] = "wait",
        [KEEL_AWAY_PAUSE] = "pause",
        [KEEL_AWAY_RESET] = "reset",
        [KEEL_AWAY_STOP] = "stop",
};

static bool key_without_root(const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile *vm = out;

	for (unsigned i = 0; node->text != NULL && i < VMFILE_WITHOUT_ROOT_COUNT; i++)
		if (strcmp(node->text, vmfile_without_root[i]) == 0) {
			vm->without_root = i;
			return true;
		}
	return refuse(reader, node->line, "'%s' must be wait, pause, reset or stop", node->key);
}

static bool key_without_root_after(
        const struct reader *reader, const struct conf_node *node, void *out)
{
	struct vmfile *vm = out;

	vm->line.without_root = node->line;
	return read_number(reader, node, 1, 86400, &vm->without_root_s);
}

/* The time alone would be taken for a policy by whoever reads the file. */
static bool settle_without_root(const struct reader *reader, struct vmfile *vm)
{
	if (vm->without_root == KEEL_AWAY_WAIT && vm->without_root_s != 0)
		return refuse(reader, vm->line.without_root,
		        "'without_root_after' needs a 'without_root' of pause, reset or stop");
	if (vm->without_root != KEEL_AWAY_WAIT && vm->without_root_s == 0)
		vm->without_root_s = VMFILE_WITHOUT_ROOT_S;
	return true;
}

static const struct key vm_keys[] = {
        {"name", key_name, "name = web", false},
        {"uuid", key_uuid, NULL, false},
        {"cpus", key_cpus, NULL, false},
        {"memory", key_memory, "memory = 512M", false},
        {"kernel", key_kernel, NULL, false},
        {"initrd", key_initrd, NULL, false},
        {"cmdline", key_cmdline, NULL, false},
        {"firmware", key_firmware, NULL, false},
        {"firmware_vars", key_firmware_vars, NULL, false},
        {"disk", key_disk, NULL, true},
        {"net", key_net, NULL, true},
        {"rng", key_rng, NULL, false},
        {"testdev", key_testdev, NULL, false},
        {"autostart", key_autostart, NULL, false},
        {"on_reboot", key_on_reboot, NULL, false},
        {"on_poweroff", key_on_poweroff, NULL, false},
        {"weight", key_weight, NULL, false},
        {"pinned", key_pinned, NULL, false},
        {"without_root", key_without_root, NULL, false},
        {"without_root_after", key_without_root_after, NULL, false},
};
_Static_assert(COUNT(vm_keys) <= 32, "read_keys counts in 32 places");

/* The one starts by itself what the other is told. */
static bool settle_start(const struct reader *reader, const struct vmfile *vm)
{
	if (vm->kernel[0] == '\0' && vm->firmware[0] == '\0')
		return refuse(reader, 1,
		        "the VM has neither 'kernel' nor 'firmware'; add for example: kernel = "
		        "/boot/vmlinuz, or: firmware = /usr/share/ovmf/OVMF.fd");
	if (vm->firmware[0] == '\0' && vm->firmware_vars[0] != '\0')
		return refuse(reader, vm->line.firmware_vars,
		        "'firmware_vars' are for a firmware; add 'firmware', or remove it");
	if (vm->firmware[0] != '\0' &&
	        (vm->kernel[0] != '\0' || vm->initrd[0] != '\0' || vm->cmdline[0] != '\0'))
		return refuse(reader, vm->line.firmware,
		        "'firmware' starts what is on the disk; remove it, or 'kernel', 'initrd' "
		        "and 'cmdline'");
	return true;
}

bool vmfile_parse(const char *file, const char *text, size_t bytes, struct vmfile *out,
        struct vmfile_error *error)
{
	const struct reader reader = {.vm = out, .error = error};
	struct conf_error wrong;
	struct conf_node *root;
	bool good;

	*out = (struct vmfile){
	        .cpus = 1,
	        .rng = true,
	        .weight = 100,
	        .on_reboot = DEFINITION_RESTART,
	        .on_poweroff = DEFINITION_DESTROY,
	};
	snprintf(out->file, sizeof(out->file), "%s", file);
	root = conf_parse(text, bytes, &wrong);
	if (root == NULL)
		return refuse(&reader, wrong.line, "%s", wrong.text);
	good = read_keys(&reader, root, "the VM", vm_keys, COUNT(vm_keys), out);
	conf_free(root);
	return good && settle_start(&reader, out) && settle_without_root(&reader, out);
}

bool vmfile_read(const char *file, char *text, size_t *bytes, struct vmfile_error *error)
{
	FILE *in = fopen(file, "re");
	int code = errno;

	if (in != NULL) {
		errno = 0;
		*bytes = fread(text, 1, VMFILE_TEXT_BYTES, in);
		code = ferror(in) ? errno : 0;
		fclose(in);
		if (code == 0)
			return true;
	}
	snprintf(error->text, sizeof(error->text), "%.1024s: %s; give a VM's file", file,
	        strerror(code));
	return false;
}

bool vmfile_load(const char *file, struct vmfile *out, struct vmfile_error *error)
{
	static char text[VMFILE_TEXT_BYTES];
	size_t bytes = 0;

	return vmfile_read(file, text, &bytes, error) &&
	       vmfile_parse(file, text, bytes, out, error);
}
