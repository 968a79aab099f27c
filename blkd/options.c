/* SPDX-License-Identifier: BSD-2-Clause */
/* Options by the vhost-user specification's "Backend program conventions", and those of the engine.
 */
#include "blkd/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_WAIT_MS 10000u
#define WATCH_US_MAX 1000000ul

enum {
	OPT_SOCKET = 1,
	OPT_FD,
	OPT_FILE,
	OPT_READ_ONLY,
	OPT_CAPABILITIES,
	OPT_QUEUES,
	OPT_BLOCK_SIZE,
	OPT_SERIAL,
	OPT_CACHED,
	OPT_FIXED,
	OPT_IOPOLL,
	OPT_BACKEND,
	OPT_WORKERS,
	OPT_IOPS,
	OPT_BANDWIDTH,
	OPT_WATCH,
	OPT_LOCK_WAIT,
	OPT_HELP,
};

static const struct option table[] = {
        {"socket-path", required_argument, NULL, OPT_SOCKET},
        {"fd", required_argument, NULL, OPT_FD},
        {"blk-file", required_argument, NULL, OPT_FILE},
        {"read-only", no_argument, NULL, OPT_READ_ONLY},
        {"print-capabilities", no_argument, NULL, OPT_CAPABILITIES},
        {"queues", required_argument, NULL, OPT_QUEUES},
        {"block-size", required_argument, NULL, OPT_BLOCK_SIZE},
        {"serial", required_argument, NULL, OPT_SERIAL},
        {"cached", no_argument, NULL, OPT_CACHED},
        {"fixed-buffers", no_argument, NULL, OPT_FIXED},
        {"iopoll", no_argument, NULL, OPT_IOPOLL},
        {"backend", required_argument, NULL, OPT_BACKEND},
        {"workers", required_argument, NULL, OPT_WORKERS},
        {"iops", required_argument, NULL, OPT_IOPS},
        {"bandwidth", required_argument, NULL, OPT_BANDWIDTH},
        {"watch-us", required_argument, NULL, OPT_WATCH},
        {"lock-wait-ms", required_argument, NULL, OPT_LOCK_WAIT},
        {"help", no_argument, NULL, OPT_HELP},
        {NULL, 0, NULL, 0},
};

static void usage_print(FILE *out)
{
	fputs("usage: keel-blk --blk-file=PATH {--socket-path=PATH | --fd=NUMBER} [options]\n"
	      "  --read-only            no writes\n"
	      "  --queues=N             1 to 64 (1)\n"
	      "  --block-size=BYTES     512 or 4096 (what the device has; 512 for a file)\n"
	      "  --serial=TEXT          at most 20 bytes\n"
	      "  --cached               through the page cache\n"
	      "  --fixed-buffers        register guest memory with the kernel, which pins it\n"
	      "  --iopoll               look for answers where the device has poll queues\n"
	      "  --backend=WORD         io_uring, or workers (measured when the disk is opened)\n"
	      "  --workers=N            at most so many, 1 to 32 (32)\n"
	      "  --iops=N               at most so many requests a second\n"
	      "  --bandwidth=BYTES      at most so many bytes a second, 4096 or more\n"
	      "  --watch-us=N           how long to watch a ring after work (32; 0: never)\n"
	      "  --lock-wait-ms=N       how long to wait for a predecessor to be gone (10000)\n"
	      "  --print-capabilities   what this program is, as JSON\n",
	        out);
}

/* A whole number up to max; else false, told. */
static bool number_read(const char *name, const char *text, unsigned long max, unsigned long *out)
{
	char *end;

	errno = 0;
	*out = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || *out > max) {
		fprintf(stderr, "keel-blk: --%s: a number up to %lu is wanted, not '%s'\n", name,
		        max, text);
		return false;
	}
	return true;
}

/* An option with a number. */
static bool option_take_number(struct options *o, int which, const char *name, const char *text)
{
	static const unsigned long most[] = {[OPT_FD] = 1u << 20,
	        [OPT_QUEUES] = BLK_QUEUE_MAX,
	        [OPT_BLOCK_SIZE] = 4096,
	        [OPT_WORKERS] = BLK_WORKERS,
	        [OPT_IOPS] = 1000000000,
	        [OPT_BANDWIDTH] = 1ul << 40,
	        [OPT_WATCH] = WATCH_US_MAX,
	        [OPT_LOCK_WAIT] = 3600000};
	unsigned long n;

	if (!number_read(name, text, most[which], &n))
		return false;
	switch (which) {
	case OPT_FD: o->listen_fd = (int)n; break;
	case OPT_QUEUES: o->disk.queue_count = (unsigned)n; break;
	case OPT_BLOCK_SIZE: o->disk.block_bytes = (uint32_t)n; break;
	case OPT_WORKERS: o->disk.workers = (unsigned)n; break;
	case OPT_IOPS: o->disk.iops_max = n; break;
	case OPT_BANDWIDTH: o->disk.bandwidth_max = n; break;
	case OPT_WATCH: o->disk.watch_ns = (uint32_t)n * 1000; break;
	default: o->disk.lock_wait_ms = (uint32_t)n;
	}
	return true;
}

static enum options_result backend_take(struct options *o)
{
	if (!strcmp(optarg, "io_uring"))
		o->disk.backend = BLK_BACKEND_RING;
	else if (!strcmp(optarg, "workers"))
		o->disk.backend = BLK_BACKEND_WORKERS;
	else {
		fprintf(stderr, "keel-blk: --backend: io_uring or workers, not '%s'\n", optarg);
		return OPTIONS_WRONG;
	}
	return OPTIONS_RUN;
}

static enum options_result option_take(struct options *o, int which, const char *name)
{
	switch (which) {
	case OPT_SOCKET: o->socket_path = optarg; return OPTIONS_RUN;
	case OPT_FILE: o->disk.path = optarg; return OPTIONS_RUN;
	case OPT_READ_ONLY: o->disk.read_only = true; return OPTIONS_RUN;
	case OPT_SERIAL: o->disk.serial = optarg; return OPTIONS_RUN;
	case OPT_CACHED: o->disk.cached = true; return OPTIONS_RUN;
	case OPT_FIXED: o->disk.fixed_buffers = true; return OPTIONS_RUN;
	case OPT_IOPOLL: o->disk.iopoll = true; return OPTIONS_RUN;
	case OPT_BACKEND: return backend_take(o);
	case OPT_CAPABILITIES:
		puts("{\"type\": \"block\", \"features\": [\"read-only\", \"blk-file\"]}");
		return OPTIONS_DONE;
	case OPT_HELP: usage_print(stdout); return OPTIONS_DONE;
	case '?': return OPTIONS_WRONG;
	default: return option_take_number(o, which, name, optarg) ? OPTIONS_RUN : OPTIONS_WRONG;
	}
}

enum options_result options_read(struct options *o, int argc, char **argv)
{
	int which, at = 0;

	*o = (struct options){.listen_fd = -1,
	        .disk = {.queue_count = 1, .watch_ns = BLK_WATCH_NS, .lock_wait_ms = LOCK_WAIT_MS}};
	while ((which = getopt_long(argc, argv, "", table, &at)) != -1) {
		enum options_result result = option_take(o, which, table[at].name);

		if (result != OPTIONS_RUN)
			return result;
	}
	if (optind < argc || !o->disk.path || !o->socket_path == (o->listen_fd < 0)) {
		usage_print(stderr);
		return OPTIONS_WRONG;
	}
	return OPTIONS_RUN;
}
