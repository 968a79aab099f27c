/* SPDX-License-Identifier: BSD-2-Clause */
/* The debug oracle: silent where all is well, a panic for each way in which a page can be in two
 * hands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/core/oracle_on.c"

#define PAGES 16u
#define BASE  (1ull << 30)

static struct boot_range range = {.start = BASE, .size = PAGES * LARGE_BYTES};
static uint8_t owners[PAGES];
static bool shown[PAGES];  /* to root */
static int64_t mapped[6];  /* page of the pool at each 2 MiB of the VM's start; -1: none */
static uint32_t frames[3]; /* of the VM: two of RAM, one of vault */
static struct vm vm;
static jmp_buf away;
static unsigned lines;

struct partition root_partition;

void panic(const char *format, ...)
{
	(void)format;
	longjmp(away, 1);
}
void log_line(const char *format, ...)
{
	(void)format;
	lines++;
}
const struct boot_range *pool_ranges(unsigned *count)
{
	*count = 1;
	return &range;
}
uint8_t pool_owner(hpa_t hpa)
{
	uint64_t page = (hpa.value - BASE) / LARGE_BYTES;

	return hpa.value >= BASE && page < PAGES ? owners[page] : POOL_FREE;
}
struct vm *vm_get_next(uint32_t id)
{
	return id <= vm.id ? &vm : NULL;
}
void vm_put(struct vm *v)
{
	assert_ptr_equal(v, &vm);
}
bool cpu_nested_lookup(const struct cpu_nested *n, gpa_t gpa, hpa_t *hpa, unsigned *flags)
{
	uint64_t page = gpa.value / LARGE_BYTES;

	*flags = CPU_NESTED_RWX;
	if (n == &root_partition.nested) {
		*hpa = HPA(gpa.value);
		return gpa.value < BASE || gpa.value >= BASE + range.size ||
		       shown[(gpa.value - BASE) / LARGE_BYTES];
	}
	if (page >= 6 || mapped[page] < 0)
		return false;
	*hpa = HPA(BASE + (uint64_t)mapped[page] * LARGE_BYTES);
	return true;
}

/* VM 3 has pages 4, 5 and 9; page 7 is hyp's for it, 12 an image of root's. */
static int set_up(void **state)
{
	(void)state;
	memset(owners, POOL_FREE, sizeof(owners));
	memset(shown, 0, sizeof(shown));
	memset(mapped, 0xff, sizeof(mapped));
	owners[4] = owners[5] = owners[9] = POOL_VM(3);
	owners[7] = POOL_HYP_FOR(3);
	owners[12] = POOL_ROOT_IMAGE(0);
	shown[4] = shown[5] = shown[9] = true;
	mapped[0] = 4;
	mapped[1] = 5;
	frames[0] = (uint32_t)(BASE / LARGE_BYTES) + 4;
	frames[1] = frames[0] + 1;
	frames[2] = frames[0] + 5;
	vm = (struct vm){.id = 3,
	        .ram_bytes = 2 * LARGE_BYTES,
	        .vault_bytes = LARGE_BYTES,
	        .frames = frames,
	        .ram_frames = 2,
	        .vault_frames = 1};
	return 0;
}

static bool is_content(void)
{
	if (setjmp(away) != 0)
		return false;
	oracle_check();
	return true;
}

static void test_all_is_well(void **state)
{
	(void)state;
	assert_true(is_content());
	assert_true(lines > 0);
	vm.id = 0; /* no VM: its pages are free */
	owners[4] = owners[5] = owners[9] = POOL_FREE;
	shown[4] = shown[5] = shown[9] = false;
	assert_true(is_content());
}

static void test_another_owner(void **state)
{
	(void)state;
	owners[5] = POOL_VM(2);
	assert_false(is_content());
	owners[5] = POOL_FREE;
	shown[5] = false;
	assert_false(is_content());
}

static void test_a_page_twice(void **state)
{
	(void)state;
	frames[1] = frames[0];
	mapped[1] = 4;
	assert_false(is_content());
	set_up(NULL);
	owners[10] = POOL_VM(3); /* or one that nobody lists */
	assert_false(is_content());
}

static void test_nested_tables(void **state)
{
	(void)state;
	mapped[1] = 9; /* the vault */
	assert_false(is_content());
	mapped[1] = -1;
	assert_false(is_content());
	mapped[1] = 5;
	mapped[2] = 6; /* beyond its RAM */
	assert_false(is_content());
	mapped[2] = -1;
	assert_true(is_content());
}

static void test_what_root_reaches(void **state)
{
	static const unsigned pages[] = {0, 7, 12}; /* free, hyp's, an image */

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		shown[pages[i]] = true;
		assert_false(is_content());
		shown[pages[i]] = false;
		assert_true(is_content());
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_all_is_well, set_up),
	        cmocka_unit_test_setup(test_another_owner, set_up),
	        cmocka_unit_test_setup(test_a_page_twice, set_up),
	        cmocka_unit_test_setup(test_nested_tables, set_up),
	        cmocka_unit_test_setup(test_what_root_reaches, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
