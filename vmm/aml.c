/* SPDX-License-Identifier: BSD-2-Clause */
/* The encodings of AML that keelvm's tables need (ACPI 6.4 §20.2, §6.4). */
#include "vmm/aml.h"

#include <string.h>

/* PkgLength is always written in three bytes, so that nothing has to move when it becomes known
 * (§20.2.4). */
#define PKG_LENGTH_BYTES 3u

void aml_put(struct aml *aml, const void *data, size_t bytes)
{
	if (bytes > aml->bytes - aml->used) {
		aml->overflow = true;
		return;
	}
	memcpy(aml->buffer + aml->used, data, bytes);
	aml->used += bytes;
}

void aml_byte(struct aml *aml, unsigned value)
{
	uint8_t byte = (uint8_t)value;

	aml_put(aml, &byte, 1);
}

static void put_little(struct aml *aml, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		aml_byte(aml, (unsigned)(value >> (8 * i)) & 0xff);
}

void aml_path(struct aml *aml, const char *name)
{
	char segment[4] = {'_', '_', '_', '_'};

	if (*name == '\\') {
		aml_byte(aml, '\\');
		name++;
	}
	for (unsigned i = 0; i < sizeof(segment) && name[i] != '\0'; i++)
		segment[i] = name[i];
	aml_put(aml, segment, sizeof(segment));
}

static size_t open_length(struct aml *aml)
{
	size_t mark = aml->used;

	put_little(aml, 0, PKG_LENGTH_BYTES);
	return mark;
}

void aml_close(struct aml *aml, size_t mark)
{
	size_t length = aml->used - mark;

	if (aml->overflow)
		return;
	if (length >= 1u << 20) {
		aml->overflow = true;
		return;
	}
	aml->buffer[mark] = (uint8_t)((PKG_LENGTH_BYTES - 1) << 6 | (length & 0xf));
	aml->buffer[mark + 1] = (uint8_t)(length >> 4);
	aml->buffer[mark + 2] = (uint8_t)(length >> 12);
}

size_t aml_open_scope(struct aml *aml, const char *name)
{
	size_t mark;

	aml_byte(aml, 0x10);
	mark = open_length(aml);
	aml_path(aml, name);
	return mark;
}

size_t aml_open_device(struct aml *aml, const char *name)
{
	size_t mark;

	aml_byte(aml, 0x5b);
	aml_byte(aml, 0x82);
	mark = open_length(aml);
	aml_path(aml, name);
	return mark;
}

size_t aml_open_package(struct aml *aml, unsigned count)
{
	size_t mark;

	aml_byte(aml, 0x12);
	mark = open_length(aml);
	aml_byte(aml, count);
	return mark;
}

void aml_name(struct aml *aml, const char *name)
{
	aml_byte(aml, 0x08);
	aml_path(aml, name);
}

void aml_integer(struct aml *aml, uint64_t value)
{
	if (value <= 1) {
		aml_byte(aml, (unsigned)value);
	} else if (value <= 0xff) {
		aml_byte(aml, 0x0a);
		put_little(aml, value, 1);
	} else if (value <= 0xffff) {
		aml_byte(aml, 0x0b);
		put_little(aml, value, 2);
	} else if (value <= 0xffffffff) {
		aml_byte(aml, 0x0c);
		put_little(aml, value, 4);
	} else {
		aml_byte(aml, 0x0e);
		put_little(aml, value, 8);
	}
}

void aml_string(struct aml *aml, const char *text)
{
	aml_byte(aml, 0x0d);
	aml_put(aml, text, strlen(text) + 1);
}

static unsigned hex_digit(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'A' + 10);
}

void aml_eisa_id(struct aml *aml, const char *id)
{
	unsigned letters = (unsigned)(id[0] - 0x40) << 10 | (unsigned)(id[1] - 0x40) << 5 |
	                   (unsigned)(id[2] - 0x40);

	/* Big-endian in a DWord constant. */
	aml_byte(aml, 0x0c);
	aml_byte(aml, letters >> 8);
	aml_byte(aml, letters & 0xff);
	aml_byte(aml, hex_digit(id[3]) << 4 | hex_digit(id[4]));
	aml_byte(aml, hex_digit(id[5]) << 4 | hex_digit(id[6]));
}

struct aml_resources aml_open_resources(struct aml *aml)
{
	struct aml_resources resources;

	aml_byte(aml, 0x11);
	resources.mark = open_length(aml);
	aml_byte(aml, 0x0b); /* the buffer's size as a WordConst, filled in by close */
	resources.size_at = aml->used;
	put_little(aml, 0, 2);
	resources.start = aml->used;
	return resources;
}

void aml_close_resources(struct aml *aml, const struct aml_resources *resources)
{
	size_t size;

	aml_byte(aml, 0x79); /* end tag; checksum 0: not used (§6.4.2.9) */
	aml_byte(aml, 0);
	if (aml->overflow)
		return;
	size = aml->used - resources->start;
	aml->buffer[resources->size_at] = (uint8_t)size;
	aml->buffer[resources->size_at + 1] = (uint8_t)(size >> 8);
	aml_close(aml, resources->mark);
}

void aml_resource_io(struct aml *aml, unsigned base, unsigned bytes)
{
	aml_byte(aml, 0x47); /* §6.4.2.5 */
	aml_byte(aml, 1);    /* decodes 16 bits */
	put_little(aml, base, 2);
	put_little(aml, base, 2);
	aml_byte(aml, 1);
	aml_byte(aml, bytes);
}

void aml_resource_irq(struct aml *aml, unsigned irq)
{
	aml_byte(aml, 0x22); /* §6.4.2.1: edge, high */
	put_little(aml, 1u << irq, 2);
}

void aml_resource_memory(struct aml *aml, uint32_t base, uint32_t bytes)
{
	aml_byte(aml, 0x86); /* §6.4.3.4 */
	put_little(aml, 9, 2);
	aml_byte(aml, 1); /* writable */
	put_little(aml, base, 4);
	put_little(aml, bytes, 4);
}

/* An address space descriptor (§6.4.3.5) with fields of `width` bytes; minimum and maximum fixed,
 * produced for the bus. */
static void put_window(struct aml *aml, unsigned tag, unsigned type, unsigned flags, unsigned width,
        uint64_t first, uint64_t last)
{
	aml_byte(aml, tag);
	put_little(aml, 3 + 5 * width, 2);
	aml_byte(aml, type);
	aml_byte(aml, 0x0c); /* both ends fixed, positive decode, producer */
	aml_byte(aml, flags);
	put_little(aml, 0, width);
	put_little(aml, first, width);
	put_little(aml, last, width);
	put_little(aml, 0, width);
	put_little(aml, last - first + 1, width);
}

void aml_resource_bus(struct aml *aml, unsigned first, unsigned last)
{
	put_window(aml, 0x88, 2, 0, 2, first, last);
}

void aml_resource_io_window(struct aml *aml, unsigned first, unsigned last)
{
	put_window(aml, 0x88, 1, 3, 2, first, last); /* whole range */
}

void aml_resource_memory32(struct aml *aml, uint32_t base, uint32_t bytes)
{
	put_window(aml, 0x87, 0, 1, 4, base, (uint64_t)base + bytes - 1); /* writable, not cached */
}

void aml_resource_memory64(struct aml *aml, uint64_t base, uint64_t bytes)
{
	put_window(aml, 0x8a, 0, 1, 8, base, base + bytes - 1);
}
