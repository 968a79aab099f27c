/* SPDX-License-Identifier: BSD-2-Clause */
/* Storage that hangs: stopping gives up after its time and can be tried again; a successor does not
 * get the disk while a dead predecessor's request is still in the kernel (C-50). */
/* sources: engine/blk.c engine/blk_file.c engine/blk_settled.c engine/blk_req.c */
/* sources: engine/blk_io.c engine/blk_queue.c engine/blk_ring.c */
/* sources: engine/blk_held.c engine/blk_throttle.c engine/blk_poll.c */
/* sources: engine/blk_workers.c engine/blk_probe.c */
/* sources: engine/watch.c engine/vring.c engine/memtable.c engine/iov.c */
/* libs: -luring */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/engine/blk_rig.h"

static char image[] = "/var/tmp/keel-test-image-XXXXXX";
static char folder[] = "/var/tmp/keel-test-mount-XXXXXX";
static int folder_fd = -1;

/* A file system of one's own that can be frozen: writes to it wait until it is thawed. */
static int mount_own(void)
{
	char command[700];
	int fd = mkstemp(image);

	if (fd < 0 || ftruncate(fd, 32 << 20) || !mkdtemp(folder))
		return -1;
	close(fd);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	snprintf(command, sizeof(command),
	        "PATH=$PATH:/sbin:/usr/sbin; mkfs.ext4 -q -F %s && mount -o loop %s %s", image,
	        image, folder);
	if (system(command))
		return -1;
	folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return folder_fd < 0 ? -1 : 0;
}

static void unmount_own(void)
{
	if (folder_fd >= 0) {
		/* A case that failed may have left it frozen. */
		ioctl(folder_fd, FITHAW, 0);
		close(folder_fd);
		umount(folder);
	}
	rmdir(folder);
	unlink(image);
}

static void freeze(void)
{
	assert_int_equal(ioctl(folder_fd, FIFREEZE, 0), 0);
}

static void thaw(void)
{
	assert_int_equal(ioctl(folder_fd, FITHAW, 0), 0);
}

/* Begins a write and does not wait for it. */
static int begin_write(struct rig *r)
{
	struct guest_buf bufs[3] = {{guest_gpa(r->head_at), 16, false},
	        {rig_gpa(r, 0), 4096, false}, {guest_gpa(r->status_at), 1, true}};
	int head;

	rig_head(r, VIRTIO_BLK_T_OUT, 8);
	head = guest_add(&r->ring, bufs, 3);
	rig_kick(r);
	return head;
}

static void await_in_flight(struct rig *r)
{
	struct blk_stats s;

	do {
		sched_yield();
		blk_stats_read(r->blk, &s);
	} while (!s.in_flight);
}

/* Whether the task's state is D (proc(5)): it sleeps uninterruptibly. */
static bool is_asleep_in_kernel(const char *task)
{
	char path[64], stat[512] = "";
	const char *end;
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", task);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, stat, sizeof(stat) - 1);
		close(fd);
	}
	stat[n < 0 ? 0 : n] = 0;
	end = strrchr(stat, ')');
	return end && !strncmp(end, ") D", 3);
}

/* Waits until a task of this process does so for 20 looks in a row, as the one that writes to a
 * frozen file system. What is counted as in flight may not be in the kernel yet. */
static void await_asleep_in_kernel(void)
{
	unsigned looks = 0;

	while (looks < 20) {
		DIR *d = opendir("/proc/self/task");
		struct dirent *e;
		bool found = false;

		while (d && (e = readdir(d)))
			found = is_asleep_in_kernel(e->d_name) || found;
		if (d)
			closedir(d);
		looks = found ? looks + 1 : 0;
		usleep(1000);
	}
}

static void test_stop_gives_up(void **state)
{
	struct rig r = {0};
	struct blk_config c;
	uint32_t len;
	int head;

	(void)state;
	rig_file(&r, folder, 1024);
	c = rig_config(&r);
	assert_int_equal(rig_start(&r, &c, 64, RIG_FEATURES), 0);
	freeze();
	head = begin_write(&r);
	await_in_flight(&r);
	assert_int_equal(blk_queue_stop(r.blk, 0, 100), -ETIMEDOUT);
	assert_int_equal(blk_queue_stop(r.blk, 0, 0), -ETIMEDOUT);
	assert_int_equal(*rig_status(&r), 0xee);
	thaw();
	assert_int_equal(blk_queue_stop(r.blk, 0, RIG_WAIT_MS), 0);
	/* Drained, not dropped. */
	assert_int_equal(rig_wait(&r, &len), head);
	assert_int_equal(*rig_status(&r), VIRTIO_BLK_S_OK);
	rig_stop(&r);
	unlink(r.path);
}

static void hang_and_wait(struct rig *r, int ready)
{
	struct blk_config c = rig_config(r);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (rig_start(r, &c, 64, RIG_FEATURES))
		_exit(1);
	begin_write(r);
	await_asleep_in_kernel();
	if (write(ready, "r", 1) != 1)
		_exit(2);
	for (;;)
		pause();
}

static void test_successor_waits(void **state)
{
	struct blk_config c;
	struct rig r = {0};
	struct blk *blk;
	char error[512], byte;
	int ready[2], status;
	pid_t child;

	(void)state;
	rig_file(&r, folder, 1024);
	c = rig_config(&r);
	assert_int_equal(pipe(ready), 0);
	freeze();
	child = fork();
	if (!child)
		hang_and_wait(&r, ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	kill(child, SIGKILL);
	c.lock_wait_ms = 300;
	/* Dead, but its write is not over. */
	assert_int_equal(blk_open(&blk, &c, error, sizeof(error)), -EAGAIN);
	thaw();
	c.lock_wait_ms = RIG_WAIT_MS;
	assert_int_equal(blk_open(&blk, &c, error, sizeof(error)), 0);
	blk_close(blk);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	unlink(r.path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_stop_gives_up),
	        cmocka_unit_test(test_successor_waits),
	};
	int rc = 77;

	if (mount_own())
		printf("skipped: no file system of one's own to freeze here\n");
	else
		rc = cmocka_run_group_tests(tests, NULL, NULL);
	unmount_own();
	return rc;
}
