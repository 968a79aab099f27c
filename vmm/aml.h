/* SPDX-License-Identifier: BSD-2-Clause */
/* Assembles ACPI machine language into a buffer, one small function a construct (ACPI 6.4 §20.2).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Too little room is remembered in `overflow`, never written past. */
struct aml {
	uint8_t *buffer;
	size_t used;
	size_t bytes;
	bool overflow;
};

void aml_put(struct aml *aml, const void *data, size_t bytes);
void aml_byte(struct aml *aml, unsigned value);
/* A path of one segment: four characters, the last ones '_' if shorter; a leading backslash is
 * kept. */
void aml_path(struct aml *aml, const char *name);

/* Things with a length: open returns a mark that close takes. They nest. */
size_t aml_open_scope(struct aml *aml, const char *name);
size_t aml_open_device(struct aml *aml, const char *name);
size_t aml_open_package(struct aml *aml, unsigned count);
void aml_close(struct aml *aml, size_t mark);

/* Name (name, …): followed by one object. */
void aml_name(struct aml *aml, const char *name);
void aml_integer(struct aml *aml, uint64_t value);
void aml_string(struct aml *aml, const char *text);
/* "PNP0A03" as the compressed integer (§19.3.4 EISAID). */
void aml_eisa_id(struct aml *aml, const char *id);

/* A resource template (§6.4) is a buffer of descriptors: open, descriptors, close. */
struct aml_resources {
	size_t mark;
	size_t size_at;
	size_t start;
};
struct aml_resources aml_open_resources(struct aml *aml);
void aml_close_resources(struct aml *aml, const struct aml_resources *resources);
void aml_resource_io(struct aml *aml, unsigned base, unsigned bytes);
void aml_resource_irq(struct aml *aml, unsigned irq);
void aml_resource_memory(struct aml *aml, uint32_t base, uint32_t bytes);
/* Windows of a bridge. */
void aml_resource_bus(struct aml *aml, unsigned first, unsigned last);
void aml_resource_io_window(struct aml *aml, unsigned first, unsigned last);
void aml_resource_memory32(struct aml *aml, uint32_t base, uint32_t bytes);
void aml_resource_memory64(struct aml *aml, uint64_t base, uint64_t bytes);
