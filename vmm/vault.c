/* SPDX-License-Identifier: BSD-2-Clause */
/* The vault's format: directory, records in two copies, and the order of stores that keeps them
 * right (vault.h has the design). */
#include "vmm/vault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/store_hook.h"
#include "vmm/crc32c.h"

#define VAULT_ALIGN 64u

/* A store, or several in any order, that a successor may find done or not done. */
#define STORE(place, statement)                                                                    \
	do {                                                                                       \
		STORE_HOOK(false, place);                                                          \
		statement;                                                                         \
		STORE_HOOK(true, place);                                                           \
	} while (0)

struct vault_section {
	struct vault_entry entry;
};

/* What this program reads and writes, by type. A change of a record's layout makes its number one
 * more, and a reader of the one before goes here beside it. */
static const uint32_t content_versions[] = {
        [VAULT_DEFINITION] = 1,
        [VAULT_MACHINE] = 1,
        [VAULT_PCI] = 1,
        [VAULT_MSIX] = 1,
        [VAULT_VIRTIO] = 1,
        [VAULT_PM] = 1,
        [VAULT_INFLIGHT] = 1,
        [VAULT_TESTDEV] = 1,
        [VAULT_FW_CFG] = 1,
        [VAULT_FLASH] = 1,
};

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + VAULT_ALIGN - 1) & ~(uint64_t)(VAULT_ALIGN - 1);
}

__attribute__((format(printf, 4, 5))) static int refuse(
        int code, char *error, size_t error_bytes, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, error_bytes, format, args);
	va_end(args);
	return code;
}

/* All stores before it stay before all stores after it, for a successor that reads what a killed
 * process left. */
static void store_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static struct vault_entry *directory(const struct vault *vault)
{
	return (struct vault_entry *)(void *)(vault->base + VAULT_DIRECTORY_AT);
}

static uint32_t header_checksum(struct vault_header header)
{
	header.checksum = 0;
	return crc32c(0, &header, sizeof(header));
}

static uint32_t entry_checksum(struct vault_entry entry)
{
	entry.state = 0;
	entry.checksum = 0;
	return crc32c(0, &entry, sizeof(entry));
}

static uint32_t copy_checksum(uint64_t sequence, uint32_t bytes, const void *payload)
{
	uint32_t crc = crc32c(0, &sequence, sizeof(sequence));

	crc = crc32c(crc, &bytes, sizeof(bytes));
	return crc32c(crc, payload, bytes);
}

int vault_format(
        void *region, size_t region_bytes, const char *definition, char *error, size_t error_bytes)
{
	struct vault vault = {region, region_bytes};
	size_t length = strlen(definition);
	struct vault_section *section;

	if (region_bytes < VAULT_SECTIONS_AT)
		return refuse(-EINVAL, error, error_bytes, "vault region of %zu bytes is too small",
		        region_bytes);

	struct vault_header *header = (struct vault_header *)(void *)(vault.base + VAULT_HEADER_AT);

	if (__atomic_load_n(&header->magic, __ATOMIC_ACQUIRE) == VAULT_MAGIC)
		return refuse(-EEXIST, error, error_bytes, "this VM has a vault already");
	/* What an earlier attempt left when it was killed. */
	STORE("directory",
	        memset(directory(&vault), 0, VAULT_MAX_SECTIONS * sizeof(struct vault_entry)));
	store_fence();
	section = vault_make(&vault, VAULT_DEFINITION, 0, VAULT_RECORD, 1, length);
	if (section == NULL)
		return refuse(-ENOSPC, error, error_bytes,
		        "no room in the vault for a definition of %zu bytes", length);
	vault_write(&vault, section, definition, length);

	struct vault_header fresh = {.magic = VAULT_MAGIC,
	        .version = VAULT_VERSION,
	        .header_bytes = sizeof(fresh),
	        .region_bytes = region_bytes,
	        .directory_entries = VAULT_MAX_SECTIONS};

	fresh.checksum = header_checksum(fresh);
	STORE("header", memcpy((uint8_t *)header + sizeof(fresh.magic),
	                        (uint8_t *)&fresh + sizeof(fresh.magic),
	                        sizeof(fresh) - sizeof(fresh.magic)));
	store_fence();
	STORE("header.magic", __atomic_store_n(&header->magic, VAULT_MAGIC, __ATOMIC_RELEASE));
	return 0;
}

static int check_header(
        const struct vault_header *header, size_t region_bytes, char *error, size_t error_bytes)
{
	if (header->magic != VAULT_MAGIC)
		return refuse(
		        -EINVAL, error, error_bytes, "no vault here: the VM was never formatted");
	/* Before the checksum: another version may compute it over more. */
	if (header->version != VAULT_VERSION)
		return refuse(-EINVAL, error, error_bytes,
		        "the vault is of version %u, this program reads %u: use the keelvm that "
		        "wrote it",
		        header->version, VAULT_VERSION);
	if (header->checksum != header_checksum(*header) ||
	        header->header_bytes != sizeof(*header) || header->region_bytes != region_bytes ||
	        header->directory_entries != VAULT_MAX_SECTIONS)
		return refuse(-EINVAL, error, error_bytes, "the vault's header is damaged");
	return 0;
}

static bool entry_is_sound(const struct vault_entry *entry, uint64_t lowest, size_t region_bytes)
{
	uint64_t needed;

	if (entry->state != VAULT_ENTRY_USED || entry->checksum != entry_checksum(*entry))
		return false;
	if (entry->offset % VAULT_ALIGN != 0 || entry->span % VAULT_ALIGN != 0)
		return false;
	if (entry->offset < lowest || entry->offset > region_bytes ||
	        entry->span > region_bytes - entry->offset || entry->bytes > entry->span)
		return false;
	switch (entry->kind) {
	case VAULT_RECORD: needed = 2 * (sizeof(struct vault_copy) + round_up(entry->bytes)); break;
	case VAULT_LIVE: needed = round_up(entry->bytes); break;
	default: return true; /* of a later version: carried along */
	}
	return needed <= entry->span;
}

/* Types of a later version are carried along; what we know in a version that we do not is no guess.
 */
static bool content_is_known(const struct vault_entry *entry)
{
	return entry->type >= sizeof(content_versions) / sizeof(content_versions[0]) ||
	       content_versions[entry->type] == 0 ||
	       content_versions[entry->type] == entry->version;
}

int vault_attach(
        struct vault *vault, void *region, size_t region_bytes, char *error, size_t error_bytes)
{
	struct vault found = {region, region_bytes};
	uint64_t lowest = VAULT_SECTIONS_AT;
	struct vault_header header;
	int rc;

	if (region_bytes < VAULT_SECTIONS_AT)
		return refuse(-EINVAL, error, error_bytes, "vault region of %zu bytes is too small",
		        region_bytes);
	memcpy(&header, found.base + VAULT_HEADER_AT, sizeof(header));
	rc = check_header(&header, region_bytes, error, error_bytes);
	if (rc != 0)
		return rc;
	for (unsigned i = 0; i < VAULT_MAX_SECTIONS; i++) {
		const struct vault_entry *entry = &directory(&found)[i];

		if (entry->state == VAULT_ENTRY_FREE)
			break;
		if (!entry_is_sound(entry, lowest, region_bytes))
			return refuse(-EINVAL, error, error_bytes,
			        "entry %u of the vault's directory is damaged", i);
		if (!content_is_known(entry))
			return refuse(-EINVAL, error, error_bytes,
			        "section %u.%u of the vault is of version %u, this program reads "
			        "%u: use the keelvm that wrote it",
			        entry->type, entry->instance, entry->version,
			        content_versions[entry->type]);
		lowest = entry->offset + entry->span;
	}
	*vault = found;
	return 0;
}

struct vault_section *vault_find(const struct vault *vault, enum vault_type type, uint32_t instance)
{
	for (unsigned i = 0; i < VAULT_MAX_SECTIONS; i++) {
		struct vault_entry *entry = &directory(vault)[i];

		if (entry->state == VAULT_ENTRY_FREE)
			break;
		if (entry->type == (uint32_t)type && entry->instance == instance)
			return (struct vault_section *)(void *)entry;
	}
	return NULL;
}

/* The first free entry, and where the space after the last section begins. NULL: the directory is
 * full. */
static struct vault_entry *find_free(const struct vault *vault, uint64_t *offset)
{
	*offset = VAULT_SECTIONS_AT;
	for (unsigned i = 0; i < VAULT_MAX_SECTIONS; i++) {
		struct vault_entry *entry = &directory(vault)[i];

		if (entry->state == VAULT_ENTRY_FREE)
			return entry;
		*offset = entry->offset + entry->span;
	}
	return NULL;
}

struct vault_section *vault_make(const struct vault *vault, enum vault_type type, uint32_t instance,
        enum vault_kind kind, uint32_t version, size_t bytes)
{
	struct vault_section *section = vault_find(vault, type, instance);
	uint64_t span = kind == VAULT_RECORD ? 2 * (sizeof(struct vault_copy) + round_up(bytes))
	                                     : round_up(bytes);
	struct vault_entry *entry;
	uint64_t offset;

	if (section != NULL)
		return section->entry.kind == (uint32_t)kind && section->entry.bytes >= bytes &&
		                       section->entry.version == version
		               ? section
		               : NULL;
	entry = find_free(vault, &offset);
	if (entry == NULL || bytes > vault->bytes || span > vault->bytes - offset)
		return NULL;
	/* The space may hold what a killed predecessor began: it had no entry yet, so it is
	 * nobody's. */
	STORE("section", memset(vault->base + offset, 0, span));
	*entry = (struct vault_entry){.state = VAULT_ENTRY_FREE,
	        .type = (uint32_t)type,
	        .instance = instance,
	        .kind = (uint32_t)kind,
	        .offset = offset,
	        .span = span,
	        .bytes = bytes,
	        .version = version};
	STORE("entry.checksum", entry->checksum = entry_checksum(*entry));
	store_fence();
	STORE("entry.state", __atomic_store_n(&entry->state, VAULT_ENTRY_USED, __ATOMIC_RELEASE));
	return (struct vault_section *)(void *)entry;
}

uint32_t vault_section_version(const struct vault_section *section)
{
	return section->entry.version;
}

size_t vault_section_bytes(const struct vault_section *section)
{
	return section->entry.bytes;
}

static struct vault_copy *find_copy(
        const struct vault *vault, const struct vault_entry *entry, unsigned index)
{
	uint64_t step = sizeof(struct vault_copy) + round_up(entry->bytes);

	return (struct vault_copy *)(void *)(vault->base + entry->offset + index * step);
}

static bool copy_is_valid(const struct vault_entry *entry, const struct vault_copy *copy)
{
	return copy->sequence != 0 && copy->bytes <= entry->bytes &&
	       copy->checksum == copy_checksum(copy->sequence, copy->bytes, copy + 1);
}

/* The valid copy with the highest sequence, or NULL. */
static struct vault_copy *find_current(const struct vault *vault, const struct vault_entry *entry)
{
	struct vault_copy *best = NULL;

	for (unsigned i = 0; i < 2; i++) {
		struct vault_copy *copy = find_copy(vault, entry, i);

		if (copy_is_valid(entry, copy) && (best == NULL || copy->sequence > best->sequence))
			best = copy;
	}
	return best;
}

int vault_read(
        const struct vault *vault, const struct vault_section *section, void *out, size_t max)
{
	const struct vault_entry *entry = &section->entry;
	const struct vault_copy *copy = find_current(vault, entry);
	size_t bytes;

	/* A first write that was killed half-way leaves sequence 0, as if it had not begun. */
	if (copy == NULL)
		return (find_copy(vault, entry, 0)->sequence |
		               find_copy(vault, entry, 1)->sequence) == 0
		               ? -ENOENT
		               : -EIO;
	bytes = copy->bytes < max ? copy->bytes : max;
	memcpy(out, copy + 1, bytes);
	return (int)copy->bytes;
}

void vault_write(
        const struct vault *vault, struct vault_section *section, const void *in, size_t bytes)
{
	const struct vault_entry *entry = &section->entry;
	struct vault_copy *first = find_copy(vault, entry, 0);
	struct vault_copy *second = find_copy(vault, entry, 1);
	/* A copy whose sequence is not 0 was written whole; so the checksums need not be looked at
	 * again. */
	bool second_is_newer = second->sequence > first->sequence;
	struct vault_copy *other = second_is_newer || first->sequence == 0 ? first : second;
	uint64_t sequence = (second_is_newer ? second : first)->sequence + 1;

	STORE("sequence 0", __atomic_store_n(&other->sequence, 0, __ATOMIC_RELAXED));
	store_fence();
	STORE("payload", memcpy(other + 1, in, bytes));
	STORE("bytes", other->bytes = (uint32_t)bytes);
	STORE("checksum", other->checksum = copy_checksum(sequence, (uint32_t)bytes, in));
	store_fence();
	STORE("sequence", __atomic_store_n(&other->sequence, sequence, __ATOMIC_RELEASE));
}

int vault_record(const struct vault *vault, enum vault_type type, uint32_t instance, void *state,
        size_t bytes, struct vault_section **section)
{
	int rc;

	*section = vault_make(vault, type, instance, VAULT_RECORD, 1, bytes);
	if (*section == NULL)
		return -ENOSPC;
	rc = vault_read(vault, *section, state, bytes);
	if (rc == -ENOENT) {
		vault_write(vault, *section, state, bytes);
		return 0;
	}
	if (rc < 0)
		return rc;
	return rc == (int)bytes ? 0 : -EIO;
}

void *vault_live(const struct vault *vault, const struct vault_section *section)
{
	return vault->base + section->entry.offset;
}
