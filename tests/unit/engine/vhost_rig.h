/* SPDX-License-Identifier: BSD-2-Clause */
/* keel-blk as a process of the test's own, with the benchmark's front end before it. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/ring/load.h"
#include "blkd/daemon.h"

#define RIG_CONNECT_MS 20000

struct vhost_rig {
	char folder[64];
	char disk[96], socket[96];
	pid_t child;
	bool is_memlock_full; /* the daemon may pin nothing */
};

static inline void vhost_rig_init(struct vhost_rig *r, off_t bytes)
{
	int fd;

	snprintf(r->folder, sizeof(r->folder), "/var/tmp/keel-vhost-XXXXXX");
	if (!mkdtemp(r->folder))
		abort();
	snprintf(r->disk, sizeof(r->disk), "%s/disk", r->folder);
	snprintf(r->socket, sizeof(r->socket), "%s/sock", r->folder);
	fd = open(r->disk, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, bytes))
		abort();
	close(fd);
	r->child = -1;
}

/* The sanitizers open files when a thread starts. */
static inline void no_sandbox(void)
{
}

static inline void memlock_refuse(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct caps[2];

	if (setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){65536, 65536}) ||
	        syscall(SYS_capget, &head, caps))
		abort();
	caps[0].effective &= ~(1u << CAP_IPC_LOCK);
	if (syscall(SYS_capset, &head, caps))
		abort();
}

/* Starts the daemon with one more option, or NULL. */
static inline void vhost_rig_spawn(struct vhost_rig *r, const char *option)
{
	r->child = fork();
	if (r->child < 0)
		abort();
	if (!r->child) {
		char disk[128], sock[128], queues[] = "--queues=2", name[] = "keel-blk";
		char *more = option ? strdup(option) : NULL;
		char *argv[] = {name, disk, sock, queues, more, NULL};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (r->is_memlock_full)
			memlock_refuse();
		snprintf(disk, sizeof(disk), "--blk-file=%s", r->disk);
		snprintf(sock, sizeof(sock), "--socket-path=%s", r->socket);
		_exit(daemon_main(more ? 5 : 4, argv, no_sandbox));
	}
}

/* Ends it by a signal; the wait status. */
static inline int vhost_rig_end(struct vhost_rig *r, int signal)
{
	int status = -1;

	kill(r->child, signal);
	if (waitpid(r->child, &status, 0) != r->child)
		abort();
	r->child = -1;
	return status;
}

static inline void vhost_rig_free(struct vhost_rig *r)
{
	unlink(r->disk);
	unlink(r->socket);
	rmdir(r->folder);
}
