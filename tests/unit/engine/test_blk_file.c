/* SPDX-License-Identifier: BSD-2-Clause */
/* The storage under a disk: who may open it together, 4096-byte sectors, full and failing storage.
 */
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

#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "tests/unit/engine/blk_load.h"

#define OK    VIRTIO_BLK_S_OK
#define IOERR VIRTIO_BLK_S_IOERR
#define IN    VIRTIO_BLK_T_IN
#define OUT   VIRTIO_BLK_T_OUT

static char error[512];

static struct blk *open_as(const char *path, bool read_only, uint64_t lock_id, int want)
{
	struct blk_config c = {
	        .path = path, .read_only = read_only, .queue_count = 1, .lock_id = lock_id};
	struct blk *blk;

	error[0] = 0;
	assert_int_equal(blk_open(&blk, &c, error, sizeof(error)), want);
	if (want) {
		assert_null(blk);
		assert_non_null(strstr(error, path));
		assert_null(strchr(error, '\n'));
	}
	return blk;
}

/* ---- locks (C-58) ---------------------------------------------------------------------------- */

static void test_locks(void **state)
{
	struct rig r;
	char hard[300], soft[300];
	struct blk *a, *b;

	(void)state;
	rig_file(&r, "/var/tmp", 64);
	snprintf(hard, sizeof(hard), "%s-hard", r.path);
	snprintf(soft, sizeof(soft), "%s-soft", r.path);
	assert_int_equal(link(r.path, hard), 0);
	assert_int_equal(symlink(r.path, soft), 0);
	a = open_as(r.path, false, 0, 0);
	open_as(r.path, false, 0, -EAGAIN);
	assert_non_null(strstr(error, "in use by another VM"));
	open_as(r.path, true, 0, -EAGAIN);
	open_as(hard, false, 0, -EAGAIN);
	open_as(soft, false, 0, -EAGAIN);
	open_as(soft, true, 7, -EAGAIN);
	blk_close(a);
	/* Free at once. Readers share, a writer does not join them. */
	a = open_as(r.path, true, 1, 0);
	b = open_as(hard, true, 2, 0);
	open_as(r.path, false, 0, -EAGAIN);
	/* The same reader twice: its predecessor is not gone yet. */
	open_as(r.path, true, 1, -EAGAIN);
	blk_close(a);
	a = open_as(r.path, true, 1, 0);
	blk_close(a);
	blk_close(b);
	a = open_as(r.path, false, 0, 0);
	blk_close(a);
	unlink(hard);
	unlink(soft);
	unlink(r.path);
}

/* A predecessor that dies while one waits. */
static void test_lock_wait(void **state)
{
	struct blk_config c = {.queue_count = 1, .lock_wait_ms = RIG_WAIT_MS};
	int ready[2], go[2], status;
	struct blk *blk;
	struct rig r;
	pid_t child;
	char byte;

	(void)state;
	rig_file(&r, "/var/tmp", 64);
	c.path = r.path;
	assert_int_equal(pipe(ready) | pipe(go), 0);
	child = fork();
	if (!child) {
		struct blk_config now = c;

		now.lock_wait_ms = 0;
		if (blk_open(&blk, &now, error, sizeof(error)) || write(ready[1], "r", 1) != 1 ||
		        read(go[0], &byte, 1) != 1)
			_exit(1);
		_exit(0); /* without closing the disk */
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	open_as(r.path, false, 0, -EAGAIN);
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(blk_open(&blk, &c, error, sizeof(error)), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	blk_close(blk);
	unlink(r.path);
}

/* QEMU's tools and keelOS see each other's locks. */
static void test_locks_qemu(void **state)
{
	char write[600], read_only[600];
	struct blk *a;
	struct rig r;

	(void)state;
	if (access("/usr/bin/qemu-io", X_OK))
		skip();
	rig_file(&r, "/var/tmp", 64);
	snprintf(
	        write, sizeof(write), "qemu-io -f raw -c 'write 0 512' %s >/dev/null 2>&1", r.path);
	snprintf(read_only, sizeof(read_only),
	        "qemu-io -r -f raw -c 'read 0 512' %s >/dev/null 2>&1", r.path);
	a = open_as(r.path, false, 0, 0);
	assert_int_not_equal(system(write), 0);
	assert_int_not_equal(system(read_only), 0);
	blk_close(a);
	a = open_as(r.path, true, 0, 0);
	assert_int_not_equal(system(write), 0);
	assert_int_equal(system(read_only), 0);
	blk_close(a);
	assert_int_equal(system(write), 0);
	unlink(r.path);
}

static void test_refusals(void **state)
{
	char fifo[] = "/var/tmp/keel-test-fifo-XXXXXX";
	struct blk_config c = {.path = "/x", .queue_count = 0};
	struct blk *blk;

	(void)state;
	open_as("/nonexistent/disk", false, 0, -ENOENT);
	assert_non_null(strstr(error, "No such file"));
	open_as("/var/tmp", false, 0, -EMEDIUMTYPE);
	assert_non_null(strstr(error, "neither a regular file nor a block device"));
	open_as("/dev/null", false, 0, -EMEDIUMTYPE);
	assert_int_not_equal(mkstemp(fifo), -1);
	unlink(fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	open_as(fifo, false, 0, -EMEDIUMTYPE);
	unlink(fifo);
	assert_int_equal(blk_open(&blk, &c, error, sizeof(error)), -EINVAL);
	c.queue_count = 1;
	c.block_bytes = 1024;
	assert_int_equal(blk_open(&blk, &c, error, sizeof(error)), -EINVAL);
	c.block_bytes = 0;
	c.serial = "123456789012345678901";
	assert_int_equal(blk_open(&blk, &c, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "serial"));
}

/* ---- block devices --------------------------------------------------------------------------- */

/* A loop device on the rig's file, gone with its last user. -1 where one cannot be made. */
static int loop_make(struct rig *r, char *device, size_t device_size, uint32_t block_size)
{
	struct loop_config config = {.block_size = block_size};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int backing = open(r->path, O_RDWR | O_CLOEXEC), loop = -1;

	for (unsigned tries = 0; control >= 0 && tries < 8 && loop < 0; tries++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);

		if (number < 0)
			break;
		snprintf(device, device_size, "/dev/loop%d", number);
		loop = open(device, O_RDWR | O_CLOEXEC);
		config.fd = (unsigned)backing;
		config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
		if (loop >= 0 && ioctl(loop, LOOP_CONFIGURE, &config)) {
			close(loop);
			loop = -1;
			if (errno != EBUSY)
				break;
		}
	}
	close(backing);
	if (control >= 0)
		close(control);
	return loop;
}

struct loop_rig {
	struct rig r;
	char file[256];
	int loop;
};

static bool loop_start(struct loop_rig *l, uint32_t block_size)
{
	struct blk_config c;

	memset(l, 0, sizeof(*l));
	rig_file(&l->r, "/var/tmp", 8192);
	snprintf(l->file, sizeof(l->file), "%s", l->r.path);
	l->loop = loop_make(&l->r, l->r.path, sizeof(l->r.path), block_size);
	if (l->loop < 0) {
		unlink(l->file);
		print_message("    no loop device here: %s\n", strerror(errno));
		return false;
	}
	c = rig_config(&l->r);
	assert_int_equal(rig_start(&l->r, &c, 128, RIG_FEATURES), 0);
	return true;
}

static void loop_end(struct loop_rig *l)
{
	rig_stop(&l->r);
	close(l->loop);
	unlink(l->file);
}

static void assert_sector(const uint8_t *at, uint32_t number)
{
	uint32_t word;

	for (unsigned k = 0; k < 512; k += 4) {
		memcpy(&word, at + k, 4);
		assert_int_equal(word, number);
	}
}

/* Direct I/O where sectors have 4096 bytes (C-23). */
static void test_4k_sectors(void **state)
{
	struct virtio_blk_config config;
	struct blk_stats s;
	struct loop_rig l;

	(void)state;
	if (!loop_start(&l, 4096))
		skip();
	blk_config_space(l.r.blk, &config);
	assert_int_equal(config.blk_size, 4096);
	/* (a) An aligned range, a buffer that is not: straight if the device can, or bounced. */
	assert_int_equal(rig_rw(&l.r, IN, 16, 512, 8192), OK);
	for (unsigned i = 0; i < 16; i++)
		assert_sector(rig_data(&l.r) + 512 + i * 512, 16 + i);
	memset(rig_data(&l.r) + 3, 0x42, 200000);
	assert_int_equal(rig_rw(&l.r, OUT, 800, 3, 196608), OK);
	blk_stats_read(l.r.blk, &s);
	assert_int_equal(s.bounced, 3);
	assert_int_equal(rig_rw(&l.r, IN, 792, 0, 212992), OK);
	assert_sector(rig_data(&l.r) + 7 * 512, 799);
	for (unsigned i = 0; i < 196608; i++)
		assert_int_equal(rig_data(&l.r)[4096 + i], 0x42);
	assert_sector(rig_data(&l.r) + 4096 + 196608, 1184);
	/* (b), (c) Single 512-byte sectors: right data, neighbours kept. */
	assert_int_equal(rig_rw(&l.r, IN, 1, 0, 512), OK);
	assert_sector(rig_data(&l.r), 1);
	memset(rig_data(&l.r), 0x99, 512);
	assert_int_equal(rig_rw(&l.r, OUT, 1, 0, 512), OK);
	assert_int_equal(rig_rw(&l.r, IN, 0, 4096, 4096), OK);
	assert_sector(rig_data(&l.r) + 4096, 0);
	assert_int_equal(rig_data(&l.r)[4096 + 512], 0x99);
	assert_int_equal(rig_data(&l.r)[4096 + 1023], 0x99);
	assert_sector(rig_data(&l.r) + 4096 + 1024, 2);
	/* And the two ways see each other's writes. */
	for (unsigned i = 0; i < 50; i++) {
		memset(rig_data(&l.r), (int)i, 4096);
		assert_int_equal(rig_rw(&l.r, OUT, 0, 0, 4096), OK);
		assert_int_equal(rig_rw(&l.r, IN, 5, 8192, 512), OK);
		assert_int_equal(rig_data(&l.r)[8192], i);
		memset(rig_data(&l.r), (int)i + 100, 512);
		assert_int_equal(rig_rw(&l.r, OUT, 5, 0, 512), OK);
		assert_int_equal(rig_rw(&l.r, IN, 0, 8192, 4096), OK);
		assert_int_equal(rig_data(&l.r)[8192 + 5 * 512], i + 100);
		assert_int_equal(rig_data(&l.r)[8192 + 4 * 512], i);
	}
	loop_end(&l);
}

static void test_device_zeroes(void **state)
{
	struct virtio_blk_range range = {1001, 1403, 0};
	struct guest_buf buf;
	struct loop_rig l;

	(void)state;
	if (!loop_start(&l, 4096))
		skip();
	for (uint32_t unmap = 0; unmap < 2; unmap++) {
		range.sector += 2000 * unmap;
		range.flags = unmap;
		memcpy(rig_data(&l.r), &range, 16);
		buf = (struct guest_buf){rig_gpa(&l.r, 0), 16, false};
		assert_int_equal(
		        rig_do(&l.r, VIRTIO_BLK_T_WRITE_ZEROES, 0, &buf, 1, false, NULL), OK);
		assert_int_equal(rig_rw(&l.r, IN, range.sector - 1, 0, 1405 * 512), OK);
		assert_sector(rig_data(&l.r), (uint32_t)range.sector - 1);
		for (unsigned i = 512; i < 1404 * 512; i++)
			assert_int_equal(rig_data(&l.r)[i], 0);
		assert_sector(rig_data(&l.r) + 1404 * 512, (uint32_t)range.sector + 1403);
	}
	loop_end(&l);
}

/* A device that grows: the new size counts, and the old file is not cut (C-25). */
static void test_device_grows(void **state)
{
	struct virtio_blk_config config;
	struct loop_rig l;

	(void)state;
	if (!loop_start(&l, 512))
		skip();
	assert_int_equal(rig_rw(&l.r, IN, 8192, 0, 512), IOERR);
	assert_int_equal(truncate(l.file, 16384 * 512), 0);
	assert_int_equal(ioctl(l.loop, LOOP_SET_CAPACITY, 0), 0);
	assert_true(blk_refresh(l.r.blk));
	blk_config_space(l.r.blk, &config);
	assert_int_equal(config.capacity, 16384);
	assert_int_equal(rig_rw(&l.r, OUT, 16383, 0, 512), OK);
	loop_end(&l);
}

/* A device that fails: its backing file is cut, reads behind the end are the device's own errors.
 */
static void test_device_fails(void **state)
{
	uint8_t sector[512];
	struct loop_rig l;

	(void)state;
	if (!loop_start(&l, 512))
		skip();
	assert_int_equal(truncate(l.file, 4096 * 512), 0);
	/* Linux 6.1's loop device gives zeroes instead. */
	if (pread(l.loop, sector, 512, 6000 * 512) == 512) {
		loop_end(&l);
		skip();
	}
	assert_int_equal(rig_rw(&l.r, IN, 6000, 0, 4096), IOERR);
	assert_true(atomic_load(&l.r.logged) > 0);
	assert_non_null(strstr(l.r.last_log, "read at 3072000 failed"));
	assert_int_equal(rig_rw(&l.r, IN, 8, 0, 4096), OK);
	assert_sector(rig_data(&l.r), 8);
	loop_end(&l);
}

/* The same device by another name: the node is another inode, so the lock does not see it. */
static void test_device_by_another_name(void **state)
{
	char other[] = "/var/tmp/keel-test-node-XXXXXX";
	struct loop_rig l;
	struct stat st;

	(void)state;
	if (!loop_start(&l, 512))
		skip();
	assert_int_not_equal(mkstemp(other), -1);
	unlink(other);
	assert_int_equal(stat(l.r.path, &st), 0);
	if (!mknod(other, S_IFBLK | 0600, st.st_rdev)) {
		open_as(other, false, 0, -EBUSY);
		assert_non_null(strstr(error, "claimed"));
	}
	unlink(other);
	loop_end(&l);
}

/* ---- full storage ---------------------------------------------------------------------------- */

static void test_no_space(void **state)
{
	char folder[] = "/var/tmp/keel-test-full-XXXXXX";
	struct blk_config c;
	struct rig r = {0};

	(void)state;
	assert_non_null(mkdtemp(folder));
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	        mount("none", folder, "tmpfs", 0, "size=1m")) {
		print_message("    no mount of one's own here: %s\n", strerror(errno));
		rmdir(folder);
		skip();
	}
	rig_file(&r, folder, 8);
	assert_int_equal(truncate(r.path, 8 << 20), 0);
	c = rig_config(&r);
	assert_int_equal(rig_start(&r, &c, 128, RIG_FEATURES), 0);
	assert_int_equal(rig_rw(&r, OUT, 64, 0, 512 << 10), OK);
	assert_int_equal(rig_rw(&r, OUT, 4096, 0, 2 << 20), IOERR);
	assert_non_null(strstr(r.last_log, "No space left"));
	/* What fits goes on working. */
	assert_int_equal(rig_rw(&r, OUT, 64, 0, 512 << 10), OK);
	assert_int_equal(rig_rw(&r, IN, 0, 0, 4096), OK);
	assert_sector(rig_data(&r) + 512, 1);
	rig_stop(&r);
	umount(folder);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_locks),
	        cmocka_unit_test(test_lock_wait),
	        cmocka_unit_test(test_locks_qemu),
	        cmocka_unit_test(test_refusals),
	        cmocka_unit_test(test_4k_sectors),
	        cmocka_unit_test(test_device_zeroes),
	        cmocka_unit_test(test_device_grows),
	        cmocka_unit_test(test_device_fails),
	        cmocka_unit_test(test_device_by_another_name),
	        cmocka_unit_test(test_no_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
