/* SPDX-License-Identifier: BSD-2-Clause */
/* keel root stage, keel root cancel: brings the next root's kernel and initramfs to hyp, or takes
 * them back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/ioctl.h"
#include "cli/device.h"
#include "cli/verb.h"

/* Linux's setup header (Documentation/arch/x86/boot.rst): where the version string's place is told.
 */
#define HEADER_MAGIC_AT   0x202
#define HEADER_VERSION_AT 0x20e
#define VERSION_BASE      0x200

struct stage_file {
	const char *path;
	int fd;
	uint64_t bytes;
};

static bool open_file(struct stage_file *file)
{
	struct stat st;

	file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0 || fstat(file->fd, &st) != 0) {
		complain(0, "%s: %s", file->path, strerror(errno));
		return false;
	}
	if (!S_ISREG(st.st_mode) || st.st_size == 0) {
		complain(0, "%s: not a file with something in it", file->path);
		return false;
	}
	file->bytes = (uint64_t)st.st_size;
	return true;
}

/* The kernel's own version text, up to its first blank; the path if it has none. */
static void read_label(const struct stage_file *kernel, char *label, size_t size)
{
	unsigned char header[4], at[2];
	char text[64] = "";
	off_t place;

	snprintf(label, size, "%.*s", (int)size - 1, kernel->path);
	if (pread(kernel->fd, header, 4, HEADER_MAGIC_AT) != 4 || memcmp(header, "HdrS", 4) != 0 ||
	        pread(kernel->fd, at, 2, HEADER_VERSION_AT) != 2)
		return;
	place = (off_t)(at[0] | (at[1] << 8));
	if (place == 0 || pread(kernel->fd, text, sizeof(text) - 1, place + VERSION_BASE) <= 0)
		return;
	text[strcspn(text, " ")] = '\0';
	if (text[0] != '\0')
		snprintf(label, size, "%s", text);
}

/* This root's own command line: what the next one needs most likely too. */
static bool read_cmdline(char *out, size_t size)
{
	FILE *in = fopen("/proc/cmdline", "re");
	bool ok = in != NULL && fgets(out, (int)size, in) != NULL;

	if (in != NULL)
		fclose(in);
	if (ok)
		out[strcspn(out, "\n")] = '\0';
	return ok;
}

static int send_file(int keel, const struct stage_file *file, uint32_t image)
{
	struct keel_hc_root_data data = {.image = image};

	for (uint64_t at = 0; at < file->bytes; at += data.bytes) {
		ssize_t got = pread(file->fd, data.data, KEEL_ROOT_PIECE, (off_t)at);

		if (got <= 0)
			return complain(EXIT_REFUSED, "%s: %s", file->path,
			        got < 0 ? strerror(errno) : "it became shorter while it was read");
		data.offset = at;
		data.bytes = (uint32_t)got;
		if (ioctl(keel, KEEL_IOC_ROOT_DATA, &data) != 0)
			return complain(EXIT_REFUSED, "hyp does not take %s: %s", file->path,
			        strerror(errno));
	}
	return EXIT_OK;
}

static int stage_refused(const struct keel_hc_root_stage *stage)
{
	switch (errno) {
	case EBUSY:
		return complain(EXIT_REFUSED, "this root is on trial itself: wait until it is "
		                              "ready ('keel root status')");
	case ENOMEM:
		return complain(EXIT_REFUSED,
		        "the pool has no %llu MiB in one piece for the images: stop a VM, or boot "
		        "with less pool in use",
		        (unsigned long long)(stage->kernel_bytes + stage->initrd_bytes) >> 20);
	default: return complain(EXIT_REFUSED, "hyp refuses the images: %s", strerror(errno));
	}
}

static int send_all(int keel, struct keel_hc_root_stage *stage, const struct stage_file files[2])
{
	struct keel_hc_vm commit = {0};
	int rc;

	if (ioctl(keel, KEEL_IOC_ROOT_STAGE, stage) != 0)
		return stage_refused(stage);
	rc = send_file(keel, &files[0], KEEL_ROOT_KERNEL);
	if (rc == EXIT_OK && files[1].bytes != 0)
		rc = send_file(keel, &files[1], KEEL_ROOT_INITRD);
	if (rc == EXIT_OK && ioctl(keel, KEEL_IOC_ROOT_COMMIT, &commit) != 0)
		rc = complain(EXIT_REFUSED,
		        "%s: no kernel that can be started ('keel log' says why)", files[0].path);
	if (rc == EXIT_OK)
		return rc;
	memset(stage, 0, sizeof(*stage));
	ioctl(keel, KEEL_IOC_ROOT_STAGE, stage);
	return rc;
}

static int run_stage(const struct verb *verb, int argc, char **argv)
{
	static struct keel_hc_root_stage stage;
	const char *words[2], *cmdline = NULL;
	unsigned ready_s = 180;
	const struct option_rule rules[] = {
	        {.name = "--cmdline", .kind = OPTION_TEXT, .value = &cmdline},
	        {.name = "--ready-within",
	                .kind = OPTION_SECONDS,
	                .value = &ready_s,
	                .low = 1,
	                .high = 86400},
	};
	struct stage_file files[2] = {{.fd = -1}, {.fd = -1}};
	int rc = options_read(verb, argc, argv, rules, 2, words, 1, 2), keel;

	if (rc != OPTIONS_GO_ON)
		return rc;
	files[0].path = words[0];
	files[1].path = words[1];
	if (!open_file(&files[0]) || (words[1] != NULL && !open_file(&files[1])))
		return EXIT_REFUSED;
	read_label(&files[0], stage.label, sizeof(stage.label));
	if (cmdline == NULL ? !read_cmdline(stage.cmdline, sizeof(stage.cmdline))
	                    : strlen(cmdline) >= sizeof(stage.cmdline))
		return complain(EXIT_REFUSED,
		        "the next root's command line is longer than %zu bytes",
		        sizeof(stage.cmdline) - 1);
	if (cmdline != NULL)
		snprintf(stage.cmdline, sizeof(stage.cmdline), "%s", cmdline);
	stage.kernel_bytes = files[0].bytes;
	stage.initrd_bytes = files[1].bytes;
	stage.ready_ms = ready_s * 1000;
	keel = device_open(&rc);
	if (keel < 0)
		return rc;
	rc = send_all(keel, &stage, files);
	if (rc == EXIT_OK)
		printf("%s is staged: the next reboot of root starts it\n", stage.label);
	return rc;
}

static int run_cancel(const struct verb *verb, int argc, char **argv)
{
	static struct keel_hc_root_stage nothing;
	int rc = options_read(verb, argc, argv, NULL, 0, NULL, 0, 0), keel;

	if (rc != OPTIONS_GO_ON)
		return rc;
	keel = device_open(&rc);
	if (keel < 0)
		return rc;
	return ioctl(keel, KEEL_IOC_ROOT_STAGE, &nothing) == 0 ? EXIT_OK : stage_refused(&nothing);
}

const struct verb verb_root_stage = {
        .group = "root",
        .name = "stage",
        .words = "KERNEL [INITRD] [--cmdline TEXT] [--ready-within S]",
        .summary = "Give hyp the kernel and initramfs of the next root",
        .help = "The next reboot of root, on purpose or by a crash, starts them while the VMs run "
                "on. If that root\n"
                "does not report ready within S seconds (180), or ends before, hyp goes back to "
                "the last good one.\n"
                "Without --cmdline the next root gets this one's command line.\n",
        .run = run_stage,
};

const struct verb verb_root_cancel = {
        .group = "root",
        .name = "cancel",
        .words = "",
        .summary = "Give up what was staged",
        .help = "",
        .run = run_cancel,
};
