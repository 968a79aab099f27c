/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers firmware's questions out of items in memory. */
#include "vmm/fw_cfg.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "vmm/log.h"

static const uint32_t id = FW_CFG_ID_PORTS | FW_CFG_ID_DMA;

static void keep(struct fw_cfg *dev)
{
	vault_write(dev->vault, dev->section, &dev->state, sizeof(dev->state));
}

int fw_cfg_attach(
        struct fw_cfg *dev, const struct gmem *gmem, const struct vault *vault, unsigned cpus)
{
	*dev = (struct fw_cfg){.gmem = gmem, .vault = vault, .cpus = (uint16_t)cpus};
	return vault_record(vault, VAULT_FW_CFG, 0, &dev->state, sizeof(dev->state), &dev->section);
}

void fw_cfg_add_file(struct fw_cfg *dev, const char *name, const void *data, uint32_t bytes)
{
	struct fw_cfg_file file = {
	        .bytes = htobe32(bytes),
	        .selector = htobe16((uint16_t)(FW_CFG_FILE_FIRST + dev->file_count)),
	};
	uint32_t count = htobe32(dev->file_count + 1);

	snprintf(file.name, sizeof(file.name), "%s", name);
	dev->files[dev->file_count] = (struct fw_cfg_item){data, bytes};
	memcpy(dev->directory + 4 + dev->file_count * sizeof(file), &file, sizeof(file));
	memcpy(dev->directory, &count, sizeof(count));
	dev->file_count++;
}

void fw_cfg_reset(struct fw_cfg *dev)
{
	if (dev->section == NULL)
		return;
	dev->state = (struct fw_cfg_state){0};
	keep(dev);
}

/* An item that there is not has no bytes. */
static struct fw_cfg_item find(const struct fw_cfg *dev, unsigned selector)
{
	switch (selector) {
	case FW_CFG_SIGNATURE: return (struct fw_cfg_item){"QEMU", 4};
	case FW_CFG_ID: return (struct fw_cfg_item){&id, sizeof(id)};
	case FW_CFG_CPUS:
	case FW_CFG_MAX_CPUS: return (struct fw_cfg_item){&dev->cpus, sizeof(dev->cpus)};
	case FW_CFG_DIRECTORY: return (struct fw_cfg_item){dev->directory, sizeof(dev->directory)};
	}
	if (selector >= FW_CFG_FILE_FIRST && selector < FW_CFG_FILE_FIRST + dev->file_count)
		return dev->files[selector - FW_CFG_FILE_FIRST];
	return (struct fw_cfg_item){NULL, 0};
}

/* A predecessor had begun to answer it. */
static bool is_again(const struct fw_cfg *dev, const struct hv_exit *exit)
{
	return dev->state.sequence == exit->sequence && dev->state.vcpu == exit->vcpu;
}

/* Where this access begins: not behind itself. */
static uint32_t begin(const struct fw_cfg *dev, const struct hv_exit *exit)
{
	return is_again(dev, exit) ? dev->state.before : dev->state.offset;
}

static void end(struct fw_cfg *dev, const struct hv_exit *exit, uint32_t before, uint32_t after)
{
	dev->state.vcpu = (uint16_t)exit->vcpu;
	dev->state.sequence = exit->sequence;
	dev->state.before = before;
	dev->state.offset = after;
	keep(dev);
}

/* What is behind an item's end reads as 0. False: not the guest's RAM. */
static bool copy_out(const struct fw_cfg *dev, uint64_t gpa, uint64_t bytes,
        const struct fw_cfg_item *item, uint32_t from)
{
	uint64_t have = from < item->bytes ? item->bytes - from : 0;
	uint64_t copied = bytes < have ? bytes : have;

	return (copied == 0 ||
	               gmem_write(dev->gmem, gpa, (const uint8_t *)item->data + from, copied)) &&
	       (bytes == copied || gmem_zero(dev->gmem, gpa + copied, bytes - copied));
}

/* The control word is cleared when it is done (fw_cfg.rst); a guest that asks for a write, which no
 * item here takes, gets the error bit. */
static void run_dma(struct fw_cfg *dev, const struct hv_exit *exit, uint64_t gpa)
{
	struct fw_cfg_dma dma;
	uint32_t control, bytes, answer = 0, from;

	if (!gmem_read(dev->gmem, gpa, &dma, sizeof(dma))) {
		log_line("firmware's DMA descriptor at %llx is not in RAM: ignored",
		        (unsigned long long)gpa);
		return;
	}
	control = be32toh(dma.control);
	bytes = be32toh(dma.bytes);
	if (control == 0)
		return; /* a predecessor has done it */
	if (control & FW_CFG_DMA_SELECT)
		dev->state.selector = (uint16_t)(control >> 16);
	from = control & FW_CFG_DMA_SELECT ? 0 : begin(dev, exit);

	const struct fw_cfg_item item = find(dev, dev->state.selector);

	if (control & FW_CFG_DMA_READ) {
		if (bytes > 0 && !copy_out(dev, be64toh(dma.address), bytes, &item, from))
			answer = FW_CFG_DMA_ERROR;
	} else if (control & FW_CFG_DMA_WRITE) {
		answer = FW_CFG_DMA_ERROR;
	} else if (!(control & FW_CFG_DMA_SKIP)) {
		bytes = 0;
	}
	end(dev, exit, from, bytes > UINT32_MAX - from ? UINT32_MAX : from + bytes);
	answer = htobe32(answer);
	gmem_write(dev->gmem, gpa, &answer, sizeof(answer));
}

static bool access_dma(
        struct fw_cfg *dev, const struct hv_exit *exit, bool high, bool write, uint64_t *value)
{
	if (exit->size != 4)
		return false;
	if (!write) {
		*value = htobe32((uint32_t)(FW_CFG_DMA_SIGNATURE >> (high ? 32 : 0)));
	} else if (high) {
		dev->state.address_high = be32toh((uint32_t)*value);
		keep(dev);
	} else {
		if (!is_again(dev, exit))
			dev->state.address_before = dev->state.address_high;
		dev->state.address_high = 0;
		run_dma(dev, exit,
		        (uint64_t)dev->state.address_before << 32 | be32toh((uint32_t)*value));
	}
	return true;
}

static void read_byte(struct fw_cfg *dev, const struct hv_exit *exit, uint64_t *value)
{
	const struct fw_cfg_item item = find(dev, dev->state.selector);
	uint32_t from = begin(dev, exit);

	*value = from < item.bytes ? ((const uint8_t *)item.data)[from] : 0;
	end(dev, exit, from, from < item.bytes ? from + 1 : from);
}

bool fw_cfg_pio(struct fw_cfg *dev, const struct hv_exit *exit, uint64_t *value)
{
	bool write = exit->kind == KEEL_EXIT_PIO_WRITE;

	if (dev->section == NULL)
		return false;
	if (exit->address == FW_CFG_DMA_PORT || exit->address == FW_CFG_DMA_PORT + 4)
		return access_dma(dev, exit, exit->address == FW_CFG_DMA_PORT, write, value);
	if (exit->address == FW_CFG_SELECTOR_PORT && exit->size == 2 && write) {
		dev->state.selector = (uint16_t)*value;
		end(dev, exit, 0, 0);
		return true;
	}
	if (exit->address != FW_CFG_DATA_PORT || exit->size != 1 || write)
		return false;
	read_byte(dev, exit, value);
	return true;
}
