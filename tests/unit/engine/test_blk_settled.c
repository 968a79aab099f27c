/* SPDX-License-Identifier: BSD-2-Clause */
/* Which files need more than the write itself for their data to survive this kernel's crash. */
/* sources: engine/blk_file.c engine/blk_settled.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/blk_file.h"

#define BYTES (1u << 20)

static char path[] = "/var/tmp/keel-settled-XXXXXX";
static int made = -1;

static bool is_ext4(void)
{
	struct statfs fs;

	return statfs("/var/tmp", &fs) == 0 && fs.f_type == EXT4_SUPER_MAGIC;
}

static bool settled(void)
{
	struct blk_config config = {.path = path, .queue_count = 1};
	struct blk_file file;
	char error[256];
	bool is;

	assert_int_equal(blk_file_open(&file, &config, error, sizeof(error)), 0);
	is = blk_file_is_settled(&file);
	blk_file_close(&file);
	return is;
}

static void write_all(void)
{
	static char bytes[BYTES];

	memset(bytes, 7, sizeof(bytes));
	assert_int_equal(pwrite(made, bytes, BYTES, 0), BYTES);
	assert_int_equal(fsync(made), 0);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(path + strlen(path) - 6, "XXXXXX");
	made = mkstemp(path);
	return made < 0 || ftruncate(made, BYTES) != 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(made);
	return unlink(path);
}

static void a_file_with_holes_is_not_settled(void **state)
{
	(void)state;
	assert_false(settled());
}

static void a_file_written_whole_is_settled_where_writes_are_in_place(void **state)
{
	(void)state;
	write_all();
	assert_int_equal(settled(), is_ext4());
}

static void allocated_is_not_written(void **state)
{
	(void)state;
	if (fallocate(made, 0, 0, BYTES) != 0)
		skip();
	assert_false(settled());
}

static void one_punched_block_unsettles_a_file(void **state)
{
	(void)state;
	write_all();
	if (fallocate(made, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, BYTES / 2, 4096) != 0)
		skip();
	assert_false(settled());
}

static void a_hole_at_the_end_unsettles_a_file(void **state)
{
	(void)state;
	write_all();
	assert_int_equal(ftruncate(made, BYTES + 4096), 0);
	assert_false(settled());
}

static void the_page_cache_is_never_settled(void **state)
{
	struct blk_config config = {.path = path, .queue_count = 1, .cached = true};
	struct blk_file file;
	char error[256];

	(void)state;
	write_all();
	assert_int_equal(blk_file_open(&file, &config, error, sizeof(error)), 0);
	assert_false(blk_file_is_settled(&file));
	blk_file_close(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(
	                a_file_with_holes_is_not_settled, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(
	                a_file_written_whole_is_settled_where_writes_are_in_place, set_up,
	                tear_down),
	        cmocka_unit_test_setup_teardown(allocated_is_not_written, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(
	                one_punched_block_unsettles_a_file, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(
	                a_hole_at_the_end_unsettles_a_file, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(the_page_cache_is_never_settled, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
