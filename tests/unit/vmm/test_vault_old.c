/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches this program's machine and devices to the vault of a VM that ran under format 1: what
 * must go on working as long as a VM may have been started by it. */
/* sources: vmm/boot_elf.c lib/elf_host.c vmm/testdev.c vmm/firmware.c vmm/fw_cfg.c vmm/flash.c */
/* sources: vmm/machine.c vmm/hv.c vmm/definition.c vmm/boot.c vmm/boot_linux.c vmm/acpi.c */
/* sources: vmm/aml.c vmm/pm.c vmm/virtio_pci.c vmm/virtio_common.c vmm/msix.c vmm/pci.c */
/* sources: vmm/gmem.c vmm/vault.c vmm/crc32c.c vmm/log.c tests/unit/vmm/hv_fake.c */
/* sources: vmm/dev/virtio_blk.c vmm/dev/virtio_net.c vmm/dev/engine_glue.c engine/vring.c */
/* sources: engine/memtable.c engine/watch.c */
/* libs: -lcjson */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/blk.h"
#include "engine/net.h"
#include "hw/virtio.h"
#include "tests/unit/vmm/hv_fake.h"
#include "vmm/crc32c.h"
#include "vmm/machine.h"

/*
 * The file is the vault of a running VM from VAULT_HEADER_AT on, up to the end of its last section:
 * 2 CPUs, 256 MiB, a disk, a card, random numbers; its driver has all queues in use. It is never
 * made anew. A new format gets a file of its own beside it.
 */
#define FILE_NAME   "tests/unit/vmm/vault-1.bin"
#define RAM_BYTES   (256ull << 20)
#define VAULT_BYTES (2u << 20)
#define QUEUES_MAX  16u

static struct hv_fake *fake;
static struct machine machine;
static char error[512];
static struct engine_queue started[QUEUES_MAX];
static unsigned started_count;

/* ---- engines that write down what they are given --------------------------------------------- */

static uint64_t blk_offered = VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC) | VIRTIO_BIT(VIRTIO_F_EVENT_IDX);

int blk_open(struct blk **out, const struct blk_config *config, char *why, size_t why_bytes)
{
	(void)why, (void)why_bytes;
	assert_string_equal(config->path, "/srv/tiny-b.img");
	*out = NULL;
	return 0;
}

uint64_t blk_features(const struct blk *blk)
{
	(void)blk;
	return blk_offered;
}

void blk_config_space(const struct blk *blk, struct virtio_blk_config *out)
{
	(void)blk;
	memset(out, 0, sizeof(*out));
}

int blk_refresh(struct blk *blk)
{
	(void)blk;
	return 0;
}

const char *blk_backend_name(const struct blk *blk)
{
	(void)blk;
	return "none";
}

void blk_set_writeback(struct blk *blk, bool writeback)
{
	(void)blk, (void)writeback;
}

int blk_queue_start(struct blk *blk, const struct engine_queue *queue)
{
	(void)blk;
	assert_true(started_count < QUEUES_MAX);
	started[started_count++] = *queue;
	return 0;
}

int blk_queue_stop(struct blk *blk, unsigned index, unsigned timeout_ms)
{
	(void)blk, (void)index, (void)timeout_ms;
	return 0;
}

void blk_stats_read(const struct blk *blk, struct blk_stats *out)
{
	(void)blk;
	memset(out, 0, sizeof(*out));
}

int net_open(struct net **out, const struct net_config *config, char *why, size_t why_bytes)
{
	(void)config, (void)why, (void)why_bytes;
	*out = NULL;
	return 0;
}

uint64_t net_features(const struct net *net)
{
	(void)net;
	return blk_offered;
}

void net_config_space(const struct net *net, struct virtio_net_config *out)
{
	(void)net;
	memset(out, 0, sizeof(*out));
}

int net_queue_start(struct net *net, const struct engine_queue *queue)
{
	(void)net;
	return blk_queue_start(NULL, queue);
}

void net_stop(struct net *net)
{
	(void)net;
}

void net_stats_read(const struct net *net, struct net_stats *out)
{
	(void)net;
	memset(out, 0, sizeof(*out));
}

/* The real one would start a thread on rings that this test has not. */
static void rng_config_read(struct virtio_device *dev, unsigned offset, void *out, unsigned bytes)
{
	(void)dev, (void)offset;
	memset(out, 0, bytes);
}

static size_t rng_inflight(struct virtio_device *dev, unsigned queue, unsigned size)
{
	(void)dev, (void)queue;
	return vring_inflight_bytes(size);
}

static int rng_start(struct virtio_device *dev, const struct virtio_queue_setup *setup)
{
	struct engine_queue queue = {
	        .index = setup->index, .ring = {.size = setup->size, .inflight = setup->inflight}};

	(void)dev;
	return blk_queue_start(NULL, &queue);
}

static void rng_reset(struct virtio_device *dev)
{
	(void)dev;
}

static const struct virtio_device_ops rng_ops = {
        .config_read = rng_config_read,
        .inflight_bytes = rng_inflight,
        .queue_start = rng_start,
        .reset = rng_reset,
};
static struct virtio_device rng = {.ops = &rng_ops,
        .name = "rng0",
        .device_id = VIRTIO_ID_ENTROPY,
        .class_code = 0x00ff00,
        .queues = 1,
        .queue_size_max = 64};

struct virtio_device *virtio_rng_create(const struct device_env *env, char *why, size_t why_bytes)
{
	(void)env, (void)why, (void)why_bytes;
	return &rng;
}

/* A device process gives nothing back before it ends; each case here is one. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}

/* ---- the vault ------------------------------------------------------------------------------- */

static int set_up(void **state)
{
	FILE *file = fopen(FILE_NAME, "rb");
	uint8_t *at;

	(void)state;
	assert_non_null(file);
	fake = hv_fake_new(2, RAM_BYTES, VAULT_BYTES, NULL);
	at = fake->hv.vault;
	assert_true(fread(at + VAULT_HEADER_AT, 1, VAULT_BYTES - VAULT_HEADER_AT, file) > 10000);
	fclose(file);
	fake->state = KEEL_VM_STATE_RUNNING;
	started_count = 0;
	error[0] = '\0';
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	hv_fake_free(fake);
	return 0;
}

static int attach(void)
{
	return machine_attach(&machine, &fake->hv, error, sizeof(error));
}

static struct vault_entry *entry_of(enum vault_type type)
{
	struct vault_entry *entry = (void *)((uint8_t *)fake->hv.vault + VAULT_DIRECTORY_AT);

	while (entry->type != (uint32_t)type)
		entry++;
	return entry;
}

static void seal(struct vault_entry *entry)
{
	struct vault_entry copy = *entry;

	copy.state = 0;
	copy.checksum = 0;
	entry->checksum = crc32c(0, &copy, sizeof(copy));
}

static void test_goes_on(void **state)
{
	enum machine_next next = MACHINE_DEAD;
	unsigned disk = 0;

	(void)state;
	if (attach() != 0)
		fail_msg("%s", error);
	assert_string_equal(machine.definition.name, "tiny");
	assert_int_equal(machine.state.boots, 1);
	assert_int_equal(machine_start(&machine, false, &next, error, sizeof(error)), 0);
	assert_int_equal(next, MACHINE_GO_ON);
	assert_int_equal(fake->resets, 0);
	/* Two of the disk, two of the card, one for random numbers: as its driver had set them up.
	 */
	assert_int_equal(started_count, 5);
	for (unsigned i = 0; i < started_count; i++) {
		const struct inflight_region *log = started[i].ring.inflight;

		assert_int_equal(log->version, INFLIGHT_VERSION);
		assert_int_equal(log->desc_num, started[i].ring.size);
		disk += started[i].ring.used_gpa != 0 && started[i].ring.used_gpa < RAM_BYTES;
	}
	assert_int_equal(disk, 4);
	assert_true(fake->doorbell_adds >= 5);
}

/* What it keeps then is of the same format: the program that wrote the file could go on too. */
static void test_stays_as_it_is(void **state)
{
	enum machine_next next;
	struct vault_entry before[VAULT_MAX_SECTIONS];
	uint8_t *directory = (uint8_t *)fake->hv.vault + VAULT_DIRECTORY_AT;

	(void)state;
	memcpy(before, directory, sizeof(before));
	assert_int_equal(attach(), 0);
	assert_int_equal(machine_start(&machine, false, &next, error, sizeof(error)), 0);
	machine_press_power_button(&machine);
	assert_memory_equal(before, directory, sizeof(before));
}

static void test_unknown_section_is_carried_along(void **state)
{
	struct vault vault;
	struct vault_section *later;
	uint8_t want[1000];

	(void)state;
	assert_int_equal(
	        vault_attach(&vault, fake->hv.vault, VAULT_BYTES, error, sizeof(error)), 0);
	later = vault_make(&vault, (enum vault_type)99, 0, VAULT_LIVE, 3, sizeof(want));
	assert_non_null(later);
	memset(want, 0xab, sizeof(want));
	memcpy(vault_live(&vault, later), want, sizeof(want));
	test_goes_on(state);
	assert_int_equal(
	        vault_attach(&vault, fake->hv.vault, VAULT_BYTES, error, sizeof(error)), 0);
	assert_ptr_equal(vault_find(&vault, (enum vault_type)99, 0), later);
	assert_memory_equal(vault_live(&vault, later), want, sizeof(want));
}

/* A content that a later program wrote is refused by number, whichever it is, and nothing changes.
 */
static void test_later_content_is_refused(void **state)
{
	static uint8_t before[VAULT_BYTES];

	(void)state;
	for (unsigned type = VAULT_DEFINITION; type <= VAULT_INFLIGHT; type++) {
		struct vault_entry *entry = entry_of((enum vault_type)type);
		char words[64];

		entry->version = 2;
		seal(entry);
		memcpy(before, fake->hv.vault, VAULT_BYTES);
		assert_int_equal(attach(), -EINVAL);
		snprintf(words, sizeof(words),
		        "section %u.%u of the vault is of version 2, this program reads 1", type,
		        entry->instance);
		if (strstr(error, words) == NULL)
			fail_msg("'%s' does not say '%s'", error, words);
		assert_memory_equal(before, fake->hv.vault, VAULT_BYTES);
		entry->version = 1;
		seal(entry);
	}
	assert_int_equal(attach(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_goes_on, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_stays_as_it_is, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(
	                test_unknown_section_is_carried_along, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(test_later_content_is_refused, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
