/* SPDX-License-Identifier: BSD-2-Clause */
/* The test device: keeps what is written, remembers each access as it came, and drives interrupts.
 */

#include "tests/guest/runner/runner.h"

#include <errno.h>
#include <string.h>

static uint64_t ones(uint32_t size)
{
	return size >= 8 ? UINT64_MAX : (1ull << (size * 8)) - 1;
}

static void remember(struct vm *vm, const struct keel_exit_slot *s, uint64_t data)
{
	struct board *b = &vm->board;

	if (b->logged < BOARD_LOG_MAX)
		b->log[b->logged] = (struct board_access){
		        .address = s->address,
		        .data = data,
		        .size = s->size,
		        .write = s->kind == KEEL_EXIT_MMIO_WRITE || s->kind == KEEL_EXIT_PIO_WRITE,
		};
	b->logged++;
}

/* True: it was there. */
static bool keep_bytes(struct vm *vm, const struct keel_exit_slot *s, uint8_t *bytes, uint64_t size,
        uint64_t base, bool write, uint64_t *data)
{
	uint64_t at = s->address - base;

	if (s->address < base || at >= size || s->size > size - at)
		return false;
	if (write)
		memcpy(bytes + at, data, s->size);
	else
		memcpy(data, bytes + at, s->size);
	remember(vm, s, *data);
	return true;
}

static void raise_msi(struct vm *vm, uint32_t data)
{
	struct keel_hc_irq block = {.address = vm->board.msi_target, .data = data};

	if (ioctl(vm->fd, KEEL_IOC_IRQ_MSI, &block) != 0)
		die("MSI: %s", strerror(errno));
}

static void drive_pin(struct vm *vm, uint32_t value)
{
	struct keel_hc_irq block = {.pin = value & 0xff, .level = value >> 8 & 1, .source = 1};

	if (block.pin >= BOARD_PINS)
		return; /* a hostile guest's */
	if (ioctl(vm->fd, KEEL_IOC_IRQ_PIN, &block) != 0)
		die("pin %u: %s", block.pin, strerror(errno));
}

static void type(struct vm *vm)
{
	struct keel_hc_console block = {.bytes = vm->board.typed_count};

	memcpy(block.data, vm->board.typed, vm->board.typed_count);
	vm->board.typed_count = 0;
	if (ioctl(vm->fd, KEEL_IOC_CONSOLE_WRITE, &block) != 0)
		die("typing: %s", strerror(errno));
}

static void port_write(struct vm *vm, const struct keel_exit_slot *s, uint64_t data)
{
	struct board *b = &vm->board;

	switch (s->address) {
	case BOARD_EXIT_PORT: vm->result = (int)(data & 0xff); break;
	case BOARD_FIFO: b->fifo = (uint8_t)data; break;
	case BOARD_PIN: drive_pin(vm, (uint32_t)data); break;
	case BOARD_TYPE:
		if (b->typed_count < sizeof(b->typed))
			b->typed[b->typed_count++] = (uint8_t)data;
		break;
	case BOARD_TYPE_GO: type(vm); break;
	case BOARD_MSI_TARGET: b->msi_target = (uint32_t)data; break;
	case BOARD_MSI: raise_msi(vm, (uint32_t)data); break;
	default: break;
	}
}

static uint64_t fifo_read(struct board *b, uint32_t size)
{
	uint64_t data = 0;

	for (unsigned i = 0; i < size; i++)
		data |= (uint64_t)b->fifo++ << (8 * i);
	return data;
}

static uint64_t port_access(
        struct vm *vm, const struct keel_exit_slot *s, bool write, uint64_t data)
{
	if (keep_bytes(vm, s, vm->board.ports, sizeof(vm->board.ports), BOARD_PIO, write, &data))
		return data;
	if (write) {
		port_write(vm, s, data);
		return 0;
	}
	return s->address == BOARD_FIFO ? fifo_read(&vm->board, s->size) : ones(s->size);
}

static uint64_t mmio_access(
        struct vm *vm, const struct keel_exit_slot *s, bool write, uint64_t data)
{
	struct board *b = &vm->board;
	uint64_t at = s->address - BOARD_LOG_ENTRY;

	if (keep_bytes(vm, s, b->memory, sizeof(b->memory), BOARD_MMIO, write, &data))
		return data;
	if (s->address == BOARD_LOG && write)
		b->logged = 0;
	else if (s->address == BOARD_LOG)
		return b->logged;
	else if (!write && s->address >= BOARD_LOG_ENTRY && at + s->size <= sizeof(b->log))
		memcpy(&data, (const uint8_t *)b->log + at, s->size);
	else if (!write)
		return ones(s->size);
	return data;
}

uint64_t board_access(struct vm *vm, const struct keel_exit_slot *s)
{
	/* One copy: the slot is memory that others write too. */
	const struct keel_exit_slot copy = *s;
	bool write = copy.kind == KEEL_EXIT_MMIO_WRITE || copy.kind == KEEL_EXIT_PIO_WRITE;
	uint64_t data = write ? copy.data : 0;

	if (copy.size != 1 && copy.size != 2 && copy.size != 4 && copy.size != 8)
		die("exit with size %u at %llx", copy.size, (unsigned long long)copy.address);
	if (copy.kind == KEEL_EXIT_PIO_READ || copy.kind == KEEL_EXIT_PIO_WRITE)
		return port_access(vm, &copy, write, data);
	return mmio_access(vm, &copy, write, data);
}
