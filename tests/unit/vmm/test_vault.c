/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows that the vault is readable and right after every single store, and refuses what is damaged
 * or too new. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

#include "vmm/crc32c.c"
#include "vmm/vault.c"

#define REGION_BYTES (512u * 1024u)
#define TRAP_FLAG    0x100

static uint8_t *region; /* what the code under test writes */
static uint8_t *copy_of_region;

/*
 * Runs a function with the region read-only: each store faults, is let through, and the instruction
 * after it is trapped. So `look` sees a copy of the region as a successor would find it if the
 * writer were killed right there (a memcpy of many stores is seen after each).
 */
static void (*look_at)(void);
static unsigned stores;
static bool on;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	ucontext_t *user = context;
	uint8_t *at = info->si_addr;

	(void)signal;
	if (!on || at < region || at >= region + REGION_BYTES)
		abort();
	mprotect(region, REGION_BYTES, PROT_READ | PROT_WRITE);
	user->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int signal, siginfo_t *info, void *context)
{
	ucontext_t *user = context;

	(void)signal;
	(void)info;
	user->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	stores++;
	memcpy(copy_of_region, region, REGION_BYTES);
	look_at();
	if (on)
		mprotect(region, REGION_BYTES, PROT_READ);
}

static void run_watched(void (*body)(void), void (*look)(void))
{
	struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGTRAP, &step, NULL);
	look_at = look;
	stores = 0;
	on = true;
	mprotect(region, REGION_BYTES, PROT_READ);
	body();
	on = false;
	mprotect(region, REGION_BYTES, PROT_READ | PROT_WRITE);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGTRAP, SIG_DFL);
	assert_true(stores > 10);
}

static int set_up(void **state)
{
	(void)state;
	region = mmap(
	        NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	copy_of_region = malloc(REGION_BYTES);
	return region == MAP_FAILED || copy_of_region == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	munmap(region, REGION_BYTES);
	free(copy_of_region);
	return 0;
}

static const char definition[] = "{\"name\":\"one\"}";

static void format(void)
{
	char error[200] = "";

	assert_int_equal(vault_format(region, REGION_BYTES, definition, error, sizeof(error)), 0);
	assert_string_equal(error, "");
}

static struct vault attach(uint8_t *at)
{
	char error[200] = "";
	struct vault vault = {0};

	assert_int_equal(vault_attach(&vault, at, REGION_BYTES, error, sizeof(error)), 0);
	return vault;
}

static void look_while_formatting(void)
{
	char error[200] = "", text[100] = "";
	struct vault vault;

	/* Either no vault yet, or a whole one. */
	if (vault_attach(&vault, copy_of_region, REGION_BYTES, error, sizeof(error)) != 0) {
		assert_non_null(strstr(error, "never formatted"));
		/* And formatting again succeeds, over what was left. */
		assert_int_equal(vault_format(copy_of_region, REGION_BYTES, definition, error,
		                         sizeof(error)),
		        0);
		vault = attach(copy_of_region);
	}
	struct vault_section *section = vault_find(&vault, VAULT_DEFINITION, 0);

	assert_non_null(section);
	assert_int_equal(vault_read(&vault, section, text, sizeof(text)), strlen(definition));
	assert_memory_equal(text, definition, strlen(definition));
}

static void test_format_killed_at_every_store(void **state)
{
	char error[200];

	(void)state;
	memset(region, 0, REGION_BYTES);
	run_watched(format, look_while_formatting);
	assert_int_equal(
	        vault_format(region, REGION_BYTES, definition, error, sizeof(error)), -EEXIST);
}

static struct vault shared_vault;
static struct vault_section *record;
static uint8_t old_value[300], new_value[260];

static void write_new(void)
{
	vault_write(&shared_vault, record, new_value, sizeof(new_value));
}

static void look_while_writing(void)
{
	struct vault vault = attach(copy_of_region);
	uint8_t got[512];
	int bytes = vault_read(&vault, vault_find(&vault, VAULT_MACHINE, 7), got, sizeof(got));

	if (bytes == (int)sizeof(old_value))
		assert_memory_equal(got, old_value, sizeof(old_value));
	else if (bytes == (int)sizeof(new_value))
		assert_memory_equal(got, new_value, sizeof(new_value));
	else
		fail_msg("neither old nor new: %d", bytes);
	/* The successor can write at once, also twice, and be killed again at the end. */
	vault_write(&vault, vault_find(&vault, VAULT_MACHINE, 7), "third", 5);
	assert_int_equal(
	        vault_read(&vault, vault_find(&vault, VAULT_MACHINE, 7), got, sizeof(got)), 5);
}

static void test_write_killed_at_every_store(void **state)
{
	uint8_t got[512];

	(void)state;
	memset(region, 0, REGION_BYTES);
	format();
	shared_vault = attach(region);
	record = vault_make(&shared_vault, VAULT_MACHINE, 7, VAULT_RECORD, 1, 300);
	assert_non_null(record);
	assert_int_equal(vault_read(&shared_vault, record, got, sizeof(got)), -ENOENT);
	for (unsigned round = 0; round < 3; round++) {
		memset(old_value, 0x10 + (int)round, sizeof(old_value));
		memset(new_value, 0x80 + (int)round, sizeof(new_value));
		vault_write(&shared_vault, record, old_value, sizeof(old_value));
		run_watched(write_new, look_while_writing);
		assert_int_equal(
		        vault_read(&shared_vault, record, got, sizeof(got)), sizeof(new_value));
		assert_memory_equal(got, new_value, sizeof(new_value));
	}
}

static void look_while_writing_first(void)
{
	struct vault vault = attach(copy_of_region);
	uint8_t got[512];
	int bytes = vault_read(&vault, vault_find(&vault, VAULT_MACHINE, 8), got, sizeof(got));

	assert_true(bytes == -ENOENT || bytes == (int)sizeof(new_value));
}

static void test_first_write_killed_at_every_store(void **state)
{
	(void)state;
	memset(region, 0, REGION_BYTES);
	format();
	shared_vault = attach(region);
	record = vault_make(&shared_vault, VAULT_MACHINE, 8, VAULT_RECORD, 1, 300);
	run_watched(write_new, look_while_writing_first);
}

static void make_two(void)
{
	assert_non_null(vault_make(&shared_vault, VAULT_INFLIGHT, 5, VAULT_LIVE, 1, 200));
	assert_non_null(vault_make(&shared_vault, VAULT_PCI, 8, VAULT_RECORD, 1, 256));
}

static void look_while_making(void)
{
	struct vault vault = attach(copy_of_region);
	struct vault_section *live;
	uint8_t got[16], zero[200] = {0};

	/* What was there is untouched; making them again succeeds and gives zeroed space. */
	assert_int_equal(
	        vault_read(&vault, vault_find(&vault, VAULT_MACHINE, 1), got, sizeof(got)), 4);
	assert_memory_equal(got, "kept", 4);
	live = vault_make(&vault, VAULT_INFLIGHT, 5, VAULT_LIVE, 1, 200);
	assert_non_null(live);
	assert_memory_equal(vault_live(&vault, live), zero, 200);
	assert_non_null(vault_make(&vault, VAULT_PCI, 8, VAULT_RECORD, 1, 256));
	assert_int_equal(
	        vault_read(&vault, vault_find(&vault, VAULT_PCI, 8), got, sizeof(got)), -ENOENT);
}

static void test_make_killed_at_every_store(void **state)
{
	(void)state;
	memset(region, 0, REGION_BYTES);
	format();
	shared_vault = attach(region);
	record = vault_make(&shared_vault, VAULT_MACHINE, 1, VAULT_RECORD, 1, 16);
	vault_write(&shared_vault, record, "kept", 4);
	/* Rubbish in the space to come, as a killed predecessor leaves it. */
	memset(region + REGION_BYTES / 2, 0x5a, REGION_BYTES / 2);
	run_watched(make_two, look_while_making);
}

static void test_damage_is_found(void **state)
{
	char error[200];
	uint8_t got[16];
	struct vault vault;

	(void)state;
	memset(region, 0, REGION_BYTES);
	format();
	vault = attach(region);
	record = vault_make(&vault, VAULT_MACHINE, 0, VAULT_RECORD, 1, 16);
	vault_write(&vault, record, "first", 5);
	vault_write(&vault, record, "second", 6);
	/* The newer copy damaged: the older one counts. Both: an error, not a guess. */
	struct vault_copy *newer = find_current(&vault, &record->entry);

	((uint8_t *)(newer + 1))[2] ^= 4;
	assert_int_equal(vault_read(&vault, record, got, sizeof(got)), 5);
	assert_memory_equal(got, "first", 5);
	struct vault_copy *older = find_current(&vault, &record->entry);

	older->bytes = 0xffffffff;
	assert_int_equal(vault_read(&vault, record, got, sizeof(got)), -EIO);

	/* Any bit of header or of a used entry. */
	memcpy(copy_of_region, region, REGION_BYTES);
	for (size_t bit = 0; bit < (sizeof(struct vault_header) + sizeof(struct vault_entry)) * 8;
	        bit++) {
		size_t at = bit / 8 < sizeof(struct vault_header)
		                    ? VAULT_HEADER_AT + bit / 8
		                    : VAULT_DIRECTORY_AT + bit / 8 - sizeof(struct vault_header);

		/* An entry's first bit cleared makes it free: what follows is then not reached;
		 * seen as the missing definition. */
		if (at == VAULT_DIRECTORY_AT && bit % 8 == 0)
			continue;
		copy_of_region[at] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(
		        vault_attach(&vault, copy_of_region, REGION_BYTES, error, sizeof(error)),
		        -EINVAL);
		copy_of_region[at] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(
	        vault_attach(&vault, copy_of_region, REGION_BYTES / 2, error, sizeof(error)),
	        -EINVAL);
	assert_int_equal(vault_attach(&vault, copy_of_region, 4096, error, sizeof(error)), -EINVAL);
}

static void test_other_version_is_refused_by_number(void **state)
{
	char error[200];
	struct vault vault;
	struct vault_header *header;

	(void)state;
	memset(region, 0, REGION_BYTES);
	format();
	header = (struct vault_header *)(region + VAULT_HEADER_AT);
	header->version = 9;
	header->checksum = header_checksum(*header);
	assert_int_equal(vault_attach(&vault, region, REGION_BYTES, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "version 9"));
	assert_non_null(strstr(error, "reads 1"));
	assert_null(strchr(error, '\n'));
}

static void test_unknown_sections_are_carried_along(void **state)
{
	struct vault vault;
	struct vault_section *later, *after;

	(void)state;
	memset(region, 0, REGION_BYTES);
	format();
	vault = attach(region);
	/* A later version made a section of a type and a kind that we do not know. */
	later = vault_make(&vault, (enum vault_type)77, 3, VAULT_LIVE, 5, 1000);
	later->entry.kind = 9;
	later->entry.bytes = 40;
	later->entry.checksum = entry_checksum(later->entry);
	memset(vault.base + later->entry.offset, 0xab, later->entry.span);

	vault = attach(region);
	after = vault_make(&vault, VAULT_PCI, 0, VAULT_RECORD, 1, 256);
	assert_non_null(after);
	assert_true(after->entry.offset >= later->entry.offset + later->entry.span);
	for (unsigned i = 0; i < 20; i++)
		vault_write(&vault, after, new_value, 256);
	for (size_t i = 0; i < later->entry.span; i++)
		assert_int_equal(vault.base[later->entry.offset + i], 0xab);
	vault = attach(region);
	assert_ptr_equal(vault_find(&vault, (enum vault_type)77, 3), later);
}

static void test_make_refuses_what_does_not_fit(void **state)
{
	struct vault vault;
	unsigned made = 0;

	(void)state;
	memset(region, 0, REGION_BYTES);
	format();
	vault = attach(region);
	assert_null(vault_make(&vault, VAULT_INFLIGHT, 0, VAULT_LIVE, 1, REGION_BYTES));
	assert_null(vault_make(&vault, VAULT_INFLIGHT, 0, VAULT_LIVE, 1, SIZE_MAX));
	assert_null(vault_make(&vault, VAULT_INFLIGHT, 0, VAULT_RECORD, 1, SIZE_MAX / 2));
	record = vault_make(&vault, VAULT_MACHINE, 0, VAULT_RECORD, 1, 100);
	assert_ptr_equal(vault_make(&vault, VAULT_MACHINE, 0, VAULT_RECORD, 1, 100), record);
	assert_null(vault_make(&vault, VAULT_MACHINE, 0, VAULT_LIVE, 1, 100));
	assert_null(vault_make(&vault, VAULT_MACHINE, 0, VAULT_RECORD, 2, 100));
	assert_null(vault_make(&vault, VAULT_MACHINE, 0, VAULT_RECORD, 1, 101));
	while (vault_make(&vault, VAULT_PCI, 1000 + made, VAULT_RECORD, 1, 64) != NULL)
		made++;
	assert_int_equal(made, VAULT_MAX_SECTIONS - 2);
	attach(region);
}

static void test_crc32c_known_values(void **state)
{
	uint8_t zeros[32] = {0};

	(void)state;
	/* RFC 3720 B.4, and the usual check value. */
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aa);
	assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
	assert_int_equal(~add_by_table(~0u, (const uint8_t *)"123456789", 9), 0xe3069283);
	for (size_t bytes = 0; bytes < sizeof(definition); bytes++)
		assert_int_equal(crc32c(7, definition, bytes),
		        ~add_by_table(~7u, (const uint8_t *)definition, bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_crc32c_known_values),
	        cmocka_unit_test(test_format_killed_at_every_store),
	        cmocka_unit_test(test_write_killed_at_every_store),
	        cmocka_unit_test(test_first_write_killed_at_every_store),
	        cmocka_unit_test(test_make_killed_at_every_store),
	        cmocka_unit_test(test_damage_is_found),
	        cmocka_unit_test(test_other_version_is_refused_by_number),
	        cmocka_unit_test(test_unknown_sections_are_carried_along),
	        cmocka_unit_test(test_make_refuses_what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
