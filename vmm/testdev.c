/* SPDX-License-Identifier: BSD-2-Clause */
/* The test device's ports and its memory, all kept in the vault. */
#include "vmm/testdev.h"

#include <string.h>

/* A PC's line 0 ends at the IOAPIC's pin 2 (the MADT says so). */
static void drive(struct testdev *dev, unsigned line)
{
	dev->hv->ops->pin_set(dev->hv, line == 0 ? 2 : line, dev->state->lines >> line & 1);
}

int testdev_attach(struct testdev *dev, struct hv *hv, const struct vault *vault)
{
	struct vault_section *section = vault_make(
	        vault, VAULT_TESTDEV, 0, VAULT_LIVE, 1, sizeof(struct testdev_state));

	*dev = (struct testdev){.hv = hv};
	if (section == NULL)
		return -ENOSPC;
	dev->state = vault_live(vault, section);
	for (unsigned line = 0; line < TESTDEV_LINES; line++)
		if (dev->state->lines >> line & 1)
			drive(dev, line);
	return 0;
}

void testdev_reset(struct testdev *dev)
{
	if (dev->state == NULL)
		return;
	dev->ended = false;
	for (unsigned line = 0; line < TESTDEV_LINES; line++)
		if (dev->state->lines >> line & 1) {
			dev->state->lines &= ~(1u << line);
			drive(dev, line);
		}
	memset(dev->state, 0, sizeof(*dev->state));
}

/* Bytes that keep what is written; false: not all of the access lies in them. */
static bool keep(
        uint8_t *bytes, uint64_t count, uint64_t at, unsigned size, bool write, uint64_t *value)
{
	if (at >= count || size > count - at)
		return false;
	if (write) {
		memcpy(bytes + at, value, size);
		return true;
	}
	*value = 0;
	memcpy(value, bytes + at, size);
	return true;
}

bool testdev_pio(struct testdev *dev, uint64_t port, unsigned size, bool write, uint64_t *value)
{
	unsigned line = (unsigned)(port - TESTDEV_LINE_PORT);

	if (dev->state == NULL)
		return false;
	if (port >= TESTDEV_ECHO_PORT && port < TESTDEV_FLUSH_PORT)
		return keep(dev->state->echo, sizeof(dev->state->echo), port - TESTDEV_ECHO_PORT,
		        size, write, value);
	if (!write)
		return false;
	if (port == TESTDEV_EXIT_PORT) {
		dev->ended = true;
		dev->result = (uint32_t)*value;
		return true;
	}
	if (port >= TESTDEV_LINE_PORT && line < TESTDEV_LINES) {
		dev->state->lines = (dev->state->lines & ~(1u << line)) | (uint32_t)(*value != 0)
		                                                                  << line;
		drive(dev, line);
		return true;
	}
	return port == TESTDEV_FLUSH_PORT;
}

bool testdev_mmio(struct testdev *dev, uint64_t gpa, unsigned size, bool write, uint64_t *value)
{
	return dev->state != NULL && gpa >= TESTDEV_MEMORY &&
	       keep(dev->state->memory, TESTDEV_MEMORY_BYTES, gpa - TESTDEV_MEMORY, size, write,
	               value);
}
