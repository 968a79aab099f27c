/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM's file: what is right becomes these values, and each thing that is wrong has its line. */
/* sources: config/conf.c config/vmfile.c config/vmfile_json.c config/vmfile_check.c */
/* sources: lib/elf_host.c lib/cmdline.c vmm/definition.c */
/* libs: -lcjson */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "abi/hypercall.h"
#include "config/vmfile.h"
#include "hw/linux_boot.h"
#include "tests/unit/vmm/elf_image.h"

#define HEAD "name = a\nmemory = 512M\nkernel = /k\n"

static struct vmfile vm;
static struct vmfile_error error;

static bool parse(const char *text)
{
	error.text[0] = '\0';
	return vmfile_parse("f", text, strlen(text), &vm, &error);
}

static void test_all_keys(void **state)
{
	(void)state;
	assert_true(parse("# a VM\n"
	                  "name = web-1.x_y\n"
	                  "uuid = \"123e4567-e89b-12d3-a456-426614174000\"\n"
	                  "cpus: 2; memory 1536M\n"
	                  "kernel = /boot/vmlinuz; initrd = \"/boot/init rd.img\"\n"
	                  "cmdline = \"root=/dev/vda console=ttyS0,115200 x=\\\"a b\\\"\"\n"
	                  "disk { path = /srv/a.img, serial = one }\n"
	                  "disk {\n path = /srv/b.img /* the second */\n readonly = yes\n}\n"
	                  "net { bridge = br0; mac = 52:54:00:12:34:56 }\n"
	                  "net [ { tap = tap7 } ]\n"
	                  "rng = off\ntestdev = yes\nautostart = true\non_reboot = destroy\n"
	                  "on_poweroff = preserve\nweight = 250\npinned = on\n"
	                  "without_root = reset\nwithout_root_after = 90\n"));
	assert_string_equal(vm.name, "web-1.x_y");
	assert_true(vm.has_uuid);
	assert_int_equal(vm.uuid[0], 0x12);
	assert_int_equal(vm.uuid[15], 0x00);
	assert_int_equal(vm.cpus, 2);
	assert_int_equal(vm.memory_bytes, 1536ull << 20);
	assert_string_equal(vm.kernel, "/boot/vmlinuz");
	assert_string_equal(vm.initrd, "/boot/init rd.img");
	assert_string_equal(vm.cmdline, "root=/dev/vda console=ttyS0,115200 x=\"a b\"");
	assert_int_equal(vm.disk_count, 2);
	assert_string_equal(vm.disks[0].path, "/srv/a.img");
	assert_string_equal(vm.disks[0].serial, "one");
	assert_false(vm.disks[0].readonly);
	assert_int_equal(vm.disks[1].line, 8);
	assert_true(vm.disks[1].readonly);
	assert_int_equal(vm.net_count, 2);
	assert_string_equal(vm.nets[0].bridge, "br0");
	assert_int_equal(vm.nets[0].mac[5], 0x56);
	assert_string_equal(vm.nets[1].tap, "tap7");
	assert_false(vm.rng);
	assert_true(vm.testdev);
	assert_true(vm.autostart);
	assert_int_equal(vm.on_reboot, DEFINITION_DESTROY);
	assert_int_equal(vm.on_poweroff, DEFINITION_PRESERVE);
	assert_int_equal(vm.weight, 250);
	assert_int_equal(vm.without_root, KEEL_AWAY_RESET);
	assert_int_equal(vm.without_root_s, 90);
	assert_true(vm.pinned);
}

static void test_defaults(void **state)
{
	(void)state;
	assert_true(parse(HEAD));
	assert_int_equal(vm.cpus, 1);
	assert_int_equal(vm.weight, 100);
	assert_int_equal(vm.without_root, KEEL_AWAY_WAIT);
	assert_int_equal(vm.without_root_s, 0);
	assert_true(vm.rng);
	assert_false(vm.autostart || vm.pinned || vm.has_uuid);
	assert_int_equal(vm.on_reboot, DEFINITION_RESTART);
	assert_int_equal(vm.on_poweroff, DEFINITION_DESTROY);
	/* As JSON writers put it. */
	assert_true(parse("{\"name\": \"a\", \"memory\": \"1G\",\n\"kernel\": \"/k\"}\n"));
	assert_int_equal(vm.memory_bytes, 1ull << 30);
	assert_true(parse("name=a\r\nmemory=512M\r\nkernel=/k"));
	assert_string_equal(vm.kernel, "/k");
	assert_true(parse(HEAD "/* one /* within */ another */ cmdline = 'a \\ b' # end"));
	assert_string_equal(vm.cmdline, "a \\ b");
}

struct wrong {
	const char *text;
	const char *error; /* a part of it, with the line */
};

static const struct wrong wrongs[] = {
        {HEAD "colour = red\n", "f:4: unknown key 'colour'; the keys here are name, uuid, cpus"},
        {HEAD "disk { path = /d\n size = 5 }\n",
                "f:5: unknown key 'size'; the keys here are path, readonly, serial, iops, "
                "bandwidth, backend, fixed_buffers, iopoll"},
        {HEAD "cpus =\n", "f:4: 'cpus' has no value; write cpus = VALUE"},
        {HEAD "cpus\n", "f:4: 'cpus' has no value"},
        {HEAD "cpus = two\n", "f:4: 'cpus' must be a whole number from 1 to 64, without quotes"},
        {HEAD "cpus = \"2\"\n", "f:4: 'cpus' must be a whole number"},
        {HEAD "cpus = 65\n", "f:4: 'cpus' must be a whole number"},
        {HEAD "cpus = 0\n", "f:4: 'cpus' must be a whole number"},
        {HEAD "cpus = -1\n", "f:4: 'cpus' must be a whole number"},
        {HEAD "cpus = 4294967297\n", "f:4: 'cpus' must be a whole number"},
        {HEAD "cpus = 1.5\n", "f:4: 'cpus' must be a whole number"},
        {HEAD "\ncpus = 1\ncpus = 2\n", "f:6: 'cpus' was given on line 5 already; remove one"},
        {HEAD "cpus { a = b }\n", "f:4: 'cpus' must be a whole number"},
        {HEAD "cmdline { a = b }\n", "f:4: 'cmdline' is no section; write cmdline = "},
        {HEAD "testdev = 1\n", "f:4: 'testdev' must be yes or no"},
        {HEAD "rng = 1\n", "f:4: 'rng' must be yes or no"},
        {HEAD "rng = \"yes\"\n", "f:4: 'rng' must be yes or no, without quotes"},
        {HEAD "disk = /d\n", "f:4: 'disk' is a section; write disk { path ="},
        {HEAD "disk { readonly = yes }\n", "f:4: this disk has no 'path'; add for example: path"},
        {HEAD "disk { path = d.img }\n", "f:4: 'path' is 'd.img'; give an absolute path"},
        {HEAD "disk { path = /d; serial = 123456789012345678901 }\n",
                "f:4: 'serial' is longer than 20 bytes; shorten it"},
        {HEAD "disk { path = /d; iops = 0 }\n",
                "f:4: 'iops' must be a whole number from 1 to 1000000000, without quotes"},
        {HEAD "disk { path = /d; bandwidth = 1K }\n",
                "f:4: 'bandwidth' must be bytes a second from 4K to 1T; write for example 100M"},
        {HEAD "disk { path = /d; bandwidth = fast }\n",
                "f:4: 'bandwidth' must be bytes a second from 4K to 1T; write for example 100M"},
        {HEAD "disk { path = /d; backend = threads }\n",
                "f:4: 'backend' must be io_uring or workers; or remove it, and keelOS measures"},
        {HEAD "disk { path = \"\" }\n", "f:4: 'path' is empty; give it a value"},
        {HEAD "net { mac = 52:54:00:12:34:56 }\n",
                "f:4: this net has neither 'bridge' nor 'tap'; give one of them"},
        {HEAD "net { tap = t; bridge = b }\n", "f:4: this net has both 'bridge' and 'tap'; remove"},
        {HEAD "net { bridge = br0; mac = 53:54:00:12:34:56 }\n", "f:4: 'mac' is a group's address"},
        {HEAD "net { bridge = br0; mac = 52:54:00:12:34 }\n", "f:4: 'mac' must look like"},
        {HEAD "net { bridge = abcdefghijklmnop }\n", "f:4: 'bridge' is longer than 15 bytes"},
        {HEAD "net { bridge = a/b }\n", "f:4: 'a/b' cannot be the name of a network interface"},
        {HEAD "on_reboot = preserve\n", "f:4: 'on_reboot' must be restart or destroy"},
        {HEAD "on_poweroff = ignore\n", "f:4: 'on_poweroff' must be restart, destroy or preserve"},
        {HEAD "without_root = sleep\n", "f:4: 'without_root' must be wait, pause, reset or stop"},
        {HEAD "without_root = stop\nwithout_root_after = 0\n",
                "f:5: 'without_root_after' must be a whole number from 1 to 86400"},
        {HEAD "without_root_after = 5\n", "f:4: 'without_root_after' needs a 'without_root' of"},
        {HEAD "weight = 10001\n", "f:4: 'weight' must be a whole number from 1 to 10000"},
        {HEAD "uuid = 1234\n", "f:4: 'uuid' must look like"},
        {"name = a\nkernel = /k\n", "f:1: the VM has no 'memory'; add for example: memory = 512M"},
        {"memory = 1G\nkernel = /k\n", "f:1: the VM has no 'name'"},
        {"name = a\nmemory = 1G\n", "f:1: the VM has neither 'kernel' nor 'firmware'"},
        {HEAD "firmware = /f\n", "f:4: 'firmware' starts what is on the disk; remove it"},
        {"name = a\nmemory = 1G\nfirmware = /f\ninitrd = /i\n", "f:3: 'firmware' starts what"},
        {HEAD "firmware_vars = /v\n", "f:4: 'firmware_vars' are for a firmware; add 'firmware'"},
        {"name = a\nmemory = 1G\nfirmware = f\n", "f:3: 'firmware' is 'f'; give an absolute"},
        {"", "f:1: the VM has no 'name'"},
        {"name = 9\n", "f:1: '9' is no name for a VM; begin with a letter"},
        {"name = \"a/b\"\n", "f:1: 'a/b' is no name for a VM"},
        {"name = ../../etc/x\n", "f:1: '../../etc/x' is no name for a VM"},
        {"name = a\nmemory = 512\n", "f:2: 'memory' must be from 32M to 64T; write the unit"},
        {"name = a\nmemory = 33M\n", "f:2: 'memory' must be a multiple of 2M; round it up"},
        {"name = a\nmemory = lots\n", "f:2: 'memory' must be a size; write for example 512M"},
        {"name = a\nmemory = 100T\n", "f:2: 'memory' must be from 32M to 64T"},
        {"name = a\nmemory = 99999999999999999999G\n", "f:2: 'memory' must be a size"},
        {"\n\nname = \"a\n", "f:3: the quotes are not closed on this line; add \""},
        {"name = \"a\\q\"\n", "f:1: no such escape in quotes"},
        {"name = \"a\" b\n", "f:1: something follows the value of 'name'"},
        {"name = a\ndisk {\n path = /d\n", "f:2: '{' is not closed; add '}'"},
        {"name = a\ndisk [ { path = /d }\n", "f:2: '[' is not closed; add ']'"},
        {"name = a\n}\n", "f:2: '}' without a '{'; remove it"},
        {"name = a\n/* no end\n", "f:2: this comment does not end"},
        {"name = a\n.include \"x\"\n", "f:2: macros such as .include are not supported"},
        {"name = a\n= b\n", "f:2: expected a key here"},
        {HEAD "cmdline = console=ttyS0,115200n8\n", "f:4: '115200n8' has no value"},
        {HEAD "cmdline = a=\"b c\"\n", "f:4: '\"' inside a value without quotes; put the value of"},
        {"a{a{a{a{a{a{a{a{a{}}}}}}}}}\n", "f:1: sections more than 8 deep"},
        {"{ name = a } x\n", "f:1: something follows the closing '}'"},
};

static void test_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		if (parse(wrongs[i].text))
			fail_msg("taken: %s", wrongs[i].text);
		if (strstr(error.text, wrongs[i].error) != error.text)
			fail_msg("%s\n  gives  %s\n  wanted %s", wrongs[i].text, error.text,
			        wrongs[i].error);
		assert_null(strchr(error.text, '\n'));
	}
}

static void test_too_many(void **state)
{
	char text[4096] = HEAD;

	(void)state;
	for (unsigned i = 0; i <= DEFINITION_MAX_DISKS; i++)
		strcat(text, "disk { path = /d }\n");
	assert_false(parse(text));
	assert_string_equal(error.text, "f:20: more than 16 of 'disk'; remove one");
}

static void test_no_text(void **state)
{
	static char big[CONF_MAX_BYTES + 1];

	(void)state;
	assert_false(vmfile_parse("f", "name = a\nx\0y", 12, &vm, &error));
	assert_string_equal(error.text, "f:2: a zero byte; this is no text file");
	memset(big, ' ', sizeof(big));
	assert_false(vmfile_parse("f", big, sizeof(big), &vm, &error));
	assert_non_null(strstr(error.text, "f:1: the file is longer than 65536 bytes"));
	assert_false(vmfile_load("/nonexistent/x", &vm, &error));
	assert_string_equal(
	        error.text, "/nonexistent/x: No such file or directory; give a VM's file");
	assert_false(vmfile_load("/", &vm, &error));
}

/* No prefix of a right file, nor it with one byte changed, does anything but parse or be refused.
 */
static void test_damaged(void **state)
{
	static const char good[] = HEAD
	        "disk { path = /d; serial = 'x' }\nnet [ { tap = \"t\\\"\" } ] # c\n/* d */";
	char text[sizeof(good)];

	(void)state;
	for (size_t i = 0; i < sizeof(good); i++) {
		vmfile_parse("f", good, i, &vm, &error);
		for (unsigned byte = 0; byte < 256; byte++) {
			memcpy(text, good, sizeof(good));
			text[i] = (char)byte;
			vmfile_parse("f", text, sizeof(good) - 1, &vm, &error);
		}
	}
}

/* What goes into the vault is what the device process takes. */
static void test_definition(void **state)
{
	static struct definition definition;
	const char taps[2][16] = {"keel3.0", "mine"};
	uint8_t uuid[16], mac[6];
	char why[256], *text;

	(void)state;
	assert_true(parse(HEAD
	        "disk { path = /d; serial = s; iops = 200; bandwidth = 10M; "
	        "backend = workers }\n"
	        "disk { path = /e; backend = io_uring; fixed_buffers = yes; iopoll = yes }\nnet { "
	        "bridge = br0 }\n"
	        "net { tap = mine; mac = 52:54:00:00:00:01 }\ncpus = 3\n"));
	vmfile_fill_identity(&vm, "seed");
	memcpy(uuid, vm.uuid, sizeof(uuid));
	memcpy(mac, vm.nets[0].mac, sizeof(mac));
	text = vmfile_to_definition(&vm, taps);
	if (definition_parse(text, &definition, why, sizeof(why)) != 0)
		fail_msg("%s: %s", why, text);
	cJSON_free(text);
	assert_string_equal(definition.name, "a");
	assert_int_equal(definition.cpus, 3);
	assert_int_equal(definition.memory_bytes, 512 << 20);
	assert_int_equal(definition.disk_count, 2);
	assert_string_equal(definition.disks[0].serial, "s");
	assert_int_equal(definition.disks[0].iops, 200);
	assert_int_equal(definition.disks[0].bandwidth, 10 << 20);
	assert_int_equal(definition.disks[0].backend, DEFINITION_WORKERS);
	assert_false(definition.disks[0].fixed_buffers);
	assert_true(definition.disks[1].fixed_buffers);
	assert_true(definition.disks[1].iopoll);
	assert_false(definition.disks[0].iopoll);
	assert_int_equal(definition.disks[1].iops, 0);
	assert_int_equal(definition.disks[1].bandwidth, 0);
	assert_int_equal(definition.disks[1].backend, DEFINITION_IO_URING);
	assert_int_equal(definition.net_count, 2);
	assert_string_equal(definition.nets[0].tap, "keel3.0");
	assert_string_equal(definition.nets[1].tap, "mine");
	assert_memory_equal(definition.nets[0].mac, mac, 6);
	assert_int_equal(definition.nets[1].mac[5], 1);
	assert_memory_equal(definition.uuid, uuid, 16);
	assert_true(definition.rng);
	/* The same again at the next start; another for another VM, another machine, another net.
	 */
	assert_true(parse(HEAD "net { bridge = br0 }\nnet { bridge = br0 }\n"));
	vmfile_fill_identity(&vm, "seed");
	assert_memory_equal(vm.uuid, uuid, 16);
	assert_memory_equal(vm.nets[0].mac, mac, 6);
	assert_memory_not_equal(vm.nets[1].mac, mac, 6);
	assert_int_equal(vm.nets[1].mac[0], 2);
	vm.has_uuid = false;
	vmfile_fill_identity(&vm, "other");
	assert_memory_not_equal(vm.uuid, uuid, 16);
}

/* ---- files ---- */

static char folder[64];

static const char *make_file(const char *name, const void *data, size_t bytes, off_t size)
{
	static char path[8][128];
	static unsigned next;
	char *out = path[next++ % 8];
	int fd;

	snprintf(out, sizeof(path[0]), "%s/%s", folder, name);
	fd = open(out, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
	return out;
}

static const char *make_kernel(const char *name, uint16_t version, uint16_t xloadflags)
{
	uint8_t image[1024] = {0};
	struct linux_setup_header setup = {
	        .boot_flag = LINUX_BOOT_FLAG,
	        .header = LINUX_HEADER_MAGIC,
	        .version = version,
	        .xloadflags = xloadflags,
	};

	memcpy(image + LINUX_HEADER_OFFSET, &setup, sizeof(setup));
	return make_file(name, image, sizeof(image), sizeof(image));
}

static const char *make_elf(const char *name, bool multiboot, uint32_t pvh)
{
	struct elf_recipe recipe = elf_recipe();
	uint8_t image[ELF_IMAGE_MAX];
	size_t bytes;

	recipe.multiboot = multiboot;
	recipe.pvh = pvh;
	bytes = elf_make(&recipe, image);
	return make_file(name, (const char *)image, bytes, bytes);
}

static bool check(const char *kernel, const char *more)
{
	char text[2048];

	snprintf(text, sizeof(text), "name = a\nmemory = 512M\nkernel = %s\n%s", kernel, more);
	assert_true(parse(text));
	return vmfile_check_files(&vm, true, &error);
}

static void assert_error(const char *part)
{
	if (strstr(error.text, part) == NULL)
		fail_msg("%s\n  has no %s", error.text, part);
	assert_null(strchr(error.text, '\n'));
}

/* Of these sizes; the pages of hyp that they take together. */
static bool check_firmware(unsigned code_kib, unsigned vars_kib)
{
	const char *code = make_file("code.fd", "", 0, (off_t)code_kib << 10);
	const char *vars = make_file("vars.fd", "", 0, (off_t)vars_kib << 10);
	char text[512];

	if (code_kib == 0)
		unlink(code);
	if (vars_kib == 0)
		unlink(vars);
	snprintf(text, sizeof(text), "name = a\nmemory = 512M\nfirmware = %s\nfirmware_vars = %s\n",
	        code, vars);
	return parse(text) && vmfile_check_files(&vm, true, &error);
}

static void test_firmware(void **state)
{
	(void)state;
	assert_true(check_firmware(3568, 528));
	assert_int_equal(vmfile_firmware_bytes(&vm), 4u << 20);
	assert_true(check_firmware(64, 4));
	assert_int_equal(vmfile_firmware_bytes(&vm), 2u << 20);
	assert_false(check_firmware(0, 528));
	assert_error("f:3: firmware");
	assert_error("No such file or directory; give the path of one, as /usr/share/ovmf/OVMF.fd");
	assert_false(check_firmware(60, 528));
	assert_error("is no file of 64 KiB to 16 MiB");
	assert_false(check_firmware(3568, 0));
	assert_error("f:4: firmware_vars");
	assert_error("copy the file that belongs to the firmware there");
	assert_false(check_firmware(3568, 6));
	assert_error("is no file of whole pages");
	assert_false(check_firmware(64, 20480));
	assert_error("or larger than 16 MiB with the firmware");
	assert_false(check_firmware(16384, 4));
	assert_error("or larger than 16 MiB with the firmware");
}

static void test_kernel(void **state)
{
	const char *good = make_kernel("good", 0x20f, LINUX_XLF_KERNEL_64);

	(void)state;
	assert_true(check(good, ""));
	assert_false(check("/nonexistent/k", ""));
	assert_error("f:3: kernel /nonexistent/k: No such file or directory; give the path");
	assert_false(check(make_file("elf", "\177ELF", 4, 4096), ""));
	assert_error("is an ELF file of another machine; give the path of a kernel");
	assert_false(check("/proc/self/exe", ""));
	assert_error("is an ELF file with neither a Multiboot 1 header nor a PVH note");
	assert_true(check(make_elf("multiboot", true, 0), ""));
	assert_true(check(make_elf("pvh", false, 0x100000), ""));
	assert_false(check(make_file("short", "x", 1, 1), ""));
	assert_error("is no bzImage (it is too short)");
	assert_false(check(make_kernel("old", 0x20a, LINUX_XLF_KERNEL_64), ""));
	assert_error("f:3: kernel");
	assert_false(check(make_kernel("32", 0x20f, 0), ""));
	assert_error("has no 64-bit entry");
	assert_false(check(folder, ""));
	assert_error("is no bzImage");
	assert_false(check(make_file("text", "#!/bin/sh", 9, 4096), ""));
	assert_error("is no bzImage, nor an ELF kernel; give the path of one");
	assert_false(check(good, "initrd = /nonexistent/i\n"));
	assert_error("f:4: initrd /nonexistent/i: No such file or directory");
	assert_false(check(good, "initrd = /tmp\n"));
	assert_error("f:4: initrd /tmp is no file");
}

static bool check_disk(const char *path, const char *more)
{
	char text[512];

	snprintf(text, sizeof(text), "disk { path = %s%s }\n", path, more);
	return check(make_kernel("good", 0x20f, LINUX_XLF_KERNEL_64), text);
}

/* A lock as engine/blk_file.c and QEMU take it; -1 released it. */
static int lock(const char *path, short type, off_t start, off_t count)
{
	struct flock range = {
	        .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = count};
	int fd = open(path, O_RDWR);

	assert_int_equal(fcntl(fd, F_OFD_SETLK, &range), 0);
	return fd;
}

static void test_disks(void **state)
{
	const char *disk = make_file("disk", "", 0, 1 << 20);
	char again[512], fifo[128];
	int fd;

	(void)state;
	assert_true(check_disk(disk, ""));
	assert_true(check_disk(disk, "; readonly = yes"));
	assert_false(check_disk("/nonexistent/d", ""));
	assert_error("f:4: disk /nonexistent/d: No such file or directory; create it");
	assert_false(check_disk(folder, "; readonly = yes"));
	assert_error("is neither a file nor a block device");
	assert_false(check_disk("/dev/null", ""));
	assert_error("is neither a file nor a block device");
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	mkfifo(fifo, 0600);
	assert_false(check_disk(fifo, "; readonly = yes"));
	assert_error("is neither a file nor a block device");
	assert_false(check_disk(make_file("empty", "", 0, 0), ""));
	assert_error("has 0 bytes, less than a sector");
	/* A writer excludes all; readers exclude a writer only. */
	fd = lock(disk, F_WRLCK, 100, 200);
	assert_false(check_disk(disk, ""));
	assert_error("f:4: disk");
	assert_error("is in use: another process has it locked; stop the VM that has it");
	assert_true(vmfile_check_files(&vm, false, &error));
	assert_false(check_disk(disk, "; readonly = yes"));
	assert_error("is in use");
	close(fd);
	fd = lock(disk, F_RDLCK, 200, 100);
	assert_false(check_disk(disk, ""));
	assert_true(check_disk(disk, "; readonly = yes"));
	close(fd);
	fd = lock(disk, F_WRLCK, 300, 1);
	assert_false(check_disk(disk, ""));
	close(fd);
	assert_true(check_disk(disk, ""));
	/* The same image twice, also by another path. */
	snprintf(again, sizeof(again), " }\ndisk { path = %s/../%s", folder, disk + 5);
	assert_false(check_disk(disk, again));
	assert_error("f:5: disk");
	assert_error("is the disk of line 4 again");
	snprintf(again, sizeof(again), "; readonly = on }\ndisk { readonly = on; path = %s", disk);
	assert_true(check_disk(disk, again));
}

static void test_room(void **state)
{
	struct vmfile_room room = {1536ull << 20, (512ull << 20) + (2 << 20)};

	(void)state;
	assert_true(parse(HEAD));
	assert_int_equal(vmfile_vault_bytes(&vm), 2 << 20);
	assert_true(vmfile_check_room(&vm, &room, &error));
	room.pool_free_bytes -= 1;
	assert_false(vmfile_check_room(&vm, &room, &error));
	assert_string_equal(error.text,
	        "f:2: the VM needs 514 MiB of the pool, which has 513 of 1536 MiB free; give it "
	        "less memory, stop another VM, or start hyp with a larger pool=");
}

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/keel-vmfile-XXXXXX");
	return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_all_keys),
	        cmocka_unit_test(test_defaults),
	        cmocka_unit_test(test_wrong),
	        cmocka_unit_test(test_too_many),
	        cmocka_unit_test(test_no_text),
	        cmocka_unit_test(test_damaged),
	        cmocka_unit_test(test_definition),
	        cmocka_unit_test(test_kernel),
	        cmocka_unit_test(test_firmware),
	        cmocka_unit_test(test_disks),
	        cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
