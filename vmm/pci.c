/* SPDX-License-Identifier: BSD-2-Clause */
/* Configuration space, base addresses and INTx of bus 0 (pci.h has the rules). */
#include "vmm/pci.h"

#include <string.h>

#include "vmm/layout.h"

static uint32_t config_get32(const struct pci_function *fn, unsigned offset)
{
	uint32_t value;

	memcpy(&value, fn->config + offset, sizeof(value));
	return value;
}

static uint16_t config_get16(const struct pci_function *fn, unsigned offset)
{
	uint16_t value;

	memcpy(&value, fn->config + offset, sizeof(value));
	return value;
}

uint16_t pci_command(const struct pci_function *fn)
{
	return config_get16(fn, PCI_COMMAND);
}

int pci_bus_init(struct pci_bus *bus, struct hv *hv, const struct vault *vault)
{
	int rc;

	*bus = (struct pci_bus){.hv = hv,
	        .vault = vault,
	        .window64 = layout_pci64(hv->ram_bytes),
	        .window64_bytes = LAYOUT_PCI64_BYTES};
	pthread_mutex_init(&bus->intx_lock, NULL);
	bus->section = vault_make(
	        vault, VAULT_PCI, PCI_BUS_INSTANCE, VAULT_RECORD, 1, sizeof(bus->state));
	if (bus->section == NULL)
		return -ENOSPC;
	rc = vault_read(vault, bus->section, &bus->state, sizeof(bus->state));
	return rc == -ENOENT || rc >= 0 ? 0 : rc;
}

void pci_function_init(
        struct pci_function *fn, uint16_t vendor, uint16_t device, uint32_t class_code)
{
	struct pci_header header = {
	        .vendor_id = vendor,
	        .device_id = device,
	        .interface = (uint8_t)class_code,
	        .subclass = (uint8_t)(class_code >> 8),
	        .class_code = (uint8_t)(class_code >> 16),
	        .subsystem_vendor_id = vendor,
	        .subsystem_id = device,
	};
	const uint16_t command = PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER |
	                         PCI_COMMAND_PARITY | PCI_COMMAND_SERR | PCI_COMMAND_INTX_OFF;

	memset(fn->config, 0, sizeof(fn->config));
	memset(fn->writable, 0, sizeof(fn->writable));
	memcpy(fn->config, &header, sizeof(header));
	memcpy(fn->writable + PCI_COMMAND, &command, sizeof(command));
	fn->writable[offsetof(struct pci_header, cache_line_size)] = 0xff;
	fn->writable[offsetof(struct pci_header, interrupt_line)] = 0xff;
	fn->caps_end = sizeof(header);
	fn->last_cap = 0;
}

void pci_function_add_bar(struct pci_function *fn, unsigned bar, uint64_t bytes, uint32_t flags)
{
	uint64_t mask = ~(bytes - 1);
	uint32_t low = (uint32_t)mask & ~0xfu, high = (uint32_t)(mask >> 32);

	fn->bars[bar] = (struct pci_bar){bytes, flags};
	memcpy(fn->config + PCI_BAR0 + 4 * bar, &flags, sizeof(flags));
	memcpy(fn->writable + PCI_BAR0 + 4 * bar, &low, sizeof(low));
	if (flags & PCI_BAR_64)
		memcpy(fn->writable + PCI_BAR0 + 4 * bar + 4, &high, sizeof(high));
}

unsigned pci_function_add_cap(struct pci_function *fn, const void *cap, unsigned bytes)
{
	unsigned at = (fn->caps_end + 3u) & ~3u;

	memcpy(fn->config + at, cap, bytes);
	fn->config[at + 1] = 0;
	if (fn->last_cap == 0)
		fn->config[offsetof(struct pci_header, capabilities)] = (uint8_t)at;
	else
		fn->config[fn->last_cap + 1] = (uint8_t)at;
	fn->config[PCI_STATUS] |= PCI_STATUS_CAPS;
	fn->last_cap = at;
	fn->caps_end = at + bytes;
	return at;
}

void pci_config_keep(struct pci_function *fn)
{
	if (fn->section != NULL)
		vault_write(fn->bus->vault, fn->section, fn->config, sizeof(fn->config));
}

int pci_add(struct pci_bus *bus, struct pci_function *fn, unsigned slot)
{
	uint8_t kept[PCI_CONFIG_BYTES];
	int rc;

	fn->bus = bus;
	fn->slot = slot;
	memcpy(fn->initial, fn->config, sizeof(fn->initial));
	fn->section = vault_make(
	        bus->vault, VAULT_PCI, slot << 3, VAULT_RECORD, 1, sizeof(fn->config));
	if (fn->section == NULL)
		return -ENOSPC;
	rc = vault_read(bus->vault, fn->section, kept, sizeof(kept));
	if (rc == -ENOENT) {
		pci_config_keep(fn);
	} else if (rc != (int)sizeof(kept)) {
		return rc < 0 ? rc : -EIO;
	} else {
		/* Only ids and layout are compared: the rest is the guest's. */
		for (unsigned i = 0; i < sizeof(kept); i++)
			if ((kept[i] ^ fn->config[i]) & (uint8_t)~fn->writable[i])
				return -EEXIST;
		memcpy(fn->config, kept, sizeof(kept));
	}
	bus->functions[slot] = fn;
	return 0;
}

void pci_add_fixed(struct pci_bus *bus, struct pci_function *fn, unsigned slot, unsigned number)
{
	fn->bus = bus;
	fn->slot = slot;
	fn->number = number;
	memset(fn->writable, 0, sizeof(fn->writable));
	memcpy(fn->initial, fn->config, sizeof(fn->initial));
	if (number == 0)
		bus->functions[slot] = fn;
	else
		bus->other = fn;
}

static bool lies_in(uint64_t at, uint64_t bytes, uint64_t window, uint64_t window_bytes)
{
	return at >= window && at - window < window_bytes && bytes <= window_bytes - (at - window);
}

uint64_t pci_bar_address(const struct pci_function *fn, unsigned bar)
{
	const struct pci_bar *b = &fn->bars[bar];
	uint64_t at = config_get32(fn, PCI_BAR0 + 4 * bar) & ~0xfu;

	if (b->bytes == 0 || !(pci_command(fn) & PCI_COMMAND_MEMORY))
		return PCI_BAR_SILENT;
	if (b->flags & PCI_BAR_64)
		at |= (uint64_t)config_get32(fn, PCI_BAR0 + 4 * bar + 4) << 32;
	return lies_in(at, b->bytes, LAYOUT_PCI32, LAYOUT_PCI32_BYTES) ||
	                       lies_in(at, b->bytes, LAYOUT_PCI32_UPPER,
	                               LAYOUT_PCI32_UPPER_BYTES) ||
	                       lies_in(at, b->bytes, fn->bus->window64, fn->bus->window64_bytes)
	               ? at
	               : PCI_BAR_SILENT;
}

static void decode_changed(struct pci_bus *bus)
{
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned slot = 0; slot < PCI_SLOTS; slot++) {
			struct pci_function *fn = bus->functions[slot];

			if (fn != NULL && fn->ops != NULL && fn->ops->decode_changed != NULL)
				fn->ops->decode_changed(fn, pass == 1);
		}
}

/* Needs: bus->intx_lock. Tells hyp each pin whose OR over all functions is not what it was told
 * last, or all. */
static void drive_pins(struct pci_bus *bus, bool all)
{
	uint32_t high = 0;

	for (unsigned slot = 0; slot < PCI_SLOTS; slot++) {
		const struct pci_function *fn = bus->functions[slot];

		if (fn != NULL && fn->intx_asked && !(pci_command(fn) & PCI_COMMAND_INTX_OFF))
			high |= 1u << (layout_intx_pin(slot, 0) - LAYOUT_INTX_FIRST);
	}
	for (unsigned pin = 0; pin < LAYOUT_INTX_PINS; pin++)
		if (all || ((high ^ bus->intx_high) & 1u << pin))
			bus->hv->ops->pin_set(bus->hv, LAYOUT_INTX_FIRST + pin, high & 1u << pin);
	bus->intx_high = high;
}

void pci_intx_set(struct pci_function *fn, bool high)
{
	pthread_mutex_lock(&fn->bus->intx_lock);
	fn->intx_asked = high;
	drive_pins(fn->bus, false);
	pthread_mutex_unlock(&fn->bus->intx_lock);
}

void pci_sync(struct pci_bus *bus)
{
	decode_changed(bus);
	pthread_mutex_lock(&bus->intx_lock);
	drive_pins(bus, true);
	pthread_mutex_unlock(&bus->intx_lock);
}

void pci_reset(struct pci_bus *bus)
{
	bus->state = (struct pci_bus_state){0};
	vault_write(bus->vault, bus->section, &bus->state, sizeof(bus->state));
	for (unsigned slot = 0; slot < PCI_SLOTS; slot++) {
		struct pci_function *fn = bus->functions[slot];

		if (fn == NULL)
			continue;
		pthread_mutex_lock(&bus->intx_lock);
		memcpy(fn->config, fn->initial, sizeof(fn->config));
		pthread_mutex_unlock(&bus->intx_lock);
		pci_config_keep(fn);
		if (fn->ops != NULL && fn->ops->config_written != NULL)
			fn->ops->config_written(fn, 0, PCI_CONFIG_BYTES);
	}
	pci_sync(bus);
}

void pci_assign(struct pci_bus *bus)
{
	uint64_t next = LAYOUT_PCI32;

	for (unsigned slot = 0; slot < PCI_SLOTS; slot++) {
		struct pci_function *fn = bus->functions[slot];

		for (unsigned bar = 0; fn != NULL && bar < PCI_BARS; bar++) {
			uint64_t bytes = fn->bars[bar].bytes;

			if (bytes == 0)
				continue;
			next = (next + bytes - 1) & ~(bytes - 1);
			if (next + bytes > LAYOUT_PCI32 + LAYOUT_PCI32_BYTES)
				continue; /* the guest may find a place in the other window */
			pci_config_write(fn, PCI_BAR0 + 4 * bar, 4, next);
			if (fn->bars[bar].flags & PCI_BAR_64)
				pci_config_write(fn, PCI_BAR0 + 4 * bar + 4, 4, 0);
			next += bytes;
		}
		if (fn == NULL || fn->bars[0].bytes == 0)
			continue;
		pci_config_write(fn, PCI_INTERRUPT_LINE, 1, layout_intx_pin(slot, 0));
		pci_config_write(fn, PCI_COMMAND, 2, PCI_COMMAND_MEMORY);
	}
}

/* Status bit 3 follows the device, whether INTx is disabled or not (PCI 3.0 §6.2.3). */
static uint8_t config_byte(struct pci_function *fn, unsigned offset)
{
	uint8_t value = fn->config[offset];

	if (offset == PCI_STATUS) {
		pthread_mutex_lock(&fn->bus->intx_lock);
		if (fn->intx_asked)
			value |= PCI_STATUS_INTX;
		pthread_mutex_unlock(&fn->bus->intx_lock);
	}
	return value;
}

uint64_t pci_config_read(struct pci_function *fn, unsigned offset, unsigned size)
{
	uint64_t value = 0;

	if (fn->ops != NULL && fn->ops->config_read != NULL)
		fn->ops->config_read(fn, offset, size);
	/* Beyond 256: no extended capability, which reads as 0 (PCI Express 3.0 §7.9.1). */
	for (unsigned i = 0; i < size; i++)
		if (offset + i < PCI_CONFIG_BYTES)
			value |= (uint64_t)config_byte(fn, offset + i) << (8 * i);
	return value;
}

void pci_config_write(struct pci_function *fn, unsigned offset, unsigned size, uint64_t value)
{
	struct pci_bus *bus = fn->bus;

	/* The lock: other threads' INTx look at the command register. */
	pthread_mutex_lock(&bus->intx_lock);
	for (unsigned i = 0; i < size; i++) {
		unsigned at = offset + i;

		if (at < PCI_CONFIG_BYTES) {
			uint8_t byte = (uint8_t)(value >> (8 * i)) & fn->writable[at];

			fn->config[at] = (fn->config[at] & (uint8_t)~fn->writable[at]) | byte;
		}
	}
	pthread_mutex_unlock(&bus->intx_lock);
	pci_config_keep(fn);
	if (fn->ops != NULL && fn->ops->config_written != NULL)
		fn->ops->config_written(fn, offset, size);
	if (offset < PCI_BAR0 + 4 * PCI_BARS && offset + size > PCI_COMMAND) {
		decode_changed(bus);
		pthread_mutex_lock(&bus->intx_lock);
		drive_pins(bus, false);
		pthread_mutex_unlock(&bus->intx_lock);
	}
}

static uint64_t all_ones(unsigned size)
{
	return size >= 8 ? UINT64_MAX : (1ull << (8 * size)) - 1;
}

/* NULL: nothing there; reads give all ones. */
static struct pci_function *find_function(
        struct pci_bus *bus, unsigned number, unsigned device, unsigned function)
{
	const struct pci_function *other = bus->other;

	if (number != 0)
		return NULL;
	if (other != NULL && other->slot == device && other->number == function)
		return bus->other;
	return function == 0 ? bus->functions[device % PCI_SLOTS] : NULL;
}

static void access_config(
        struct pci_function *fn, unsigned offset, unsigned size, bool write, uint64_t *value)
{
	if (fn == NULL) {
		if (!write)
			*value = all_ones(size);
	} else if (write) {
		pci_config_write(fn, offset, size, *value);
	} else {
		*value = pci_config_read(fn, offset, size);
	}
}

/* PCI 3.0 §3.2.2.3.2: CONFIG_ADDRESS is only there for whole double words; CF9h alone is the reset
 * port (hyp's). */
static bool access_address_port(
        struct pci_bus *bus, uint64_t port, unsigned size, bool write, uint64_t *value)
{
	if (port != PCI_CONFIG_ADDRESS_PORT || size != 4)
		return false;
	if (write) {
		bus->state.config_address = (uint32_t)*value & ~0x7f000003u;
		vault_write(bus->vault, bus->section, &bus->state, sizeof(bus->state));
	} else {
		*value = bus->state.config_address;
	}
	return true;
}

bool pci_pio(struct pci_bus *bus, uint64_t port, unsigned size, bool write, uint64_t *value)
{
	uint32_t address = bus->state.config_address;
	unsigned at = (unsigned)port & 3u;

	if (port < PCI_CONFIG_DATA_PORT)
		return access_address_port(bus, port, size, write, value);
	/* An access that leaves the double word goes to two bus cycles on hardware; the second is
	 * not ours. */
	if (port > PCI_CONFIG_DATA_PORT + 3 || size > 4 - at || !(address & PCI_CONFIG_ENABLE))
		return false;
	access_config(
	        find_function(bus, address >> 16 & 0xff, address >> 11 & 0x1f, address >> 8 & 7),
	        (address & 0xfc) + at, size, write, value);
	return true;
}

static bool access_ecam(
        struct pci_bus *bus, uint64_t offset, unsigned size, bool write, uint64_t *value)
{
	struct pci_function *fn = find_function(bus, (unsigned)(offset >> 20),
	        (unsigned)(offset >> 15 & 0x1f), (unsigned)(offset >> 12 & 7));
	unsigned at = (unsigned)(offset & (PCI_ECAM_CONFIG_BYTES - 1));

	if (size > PCI_ECAM_CONFIG_BYTES - at)
		return false;
	access_config(fn, at, size, write, value);
	return true;
}

bool pci_mmio(struct pci_bus *bus, uint64_t gpa, unsigned size, bool write, uint64_t *value)
{
	if (gpa >= LAYOUT_ECAM && gpa < LAYOUT_ECAM + LAYOUT_ECAM_BYTES)
		return access_ecam(bus, gpa - LAYOUT_ECAM, size, write, value);
	for (unsigned slot = 0; slot < PCI_SLOTS; slot++) {
		struct pci_function *fn = bus->functions[slot];

		for (unsigned bar = 0; fn != NULL && bar < PCI_BARS; bar++) {
			uint64_t at = pci_bar_address(fn, bar);

			if (at == PCI_BAR_SILENT || gpa < at || gpa - at >= fn->bars[bar].bytes)
				continue;
			if (size > fn->bars[bar].bytes - (gpa - at))
				return false;
			if (write)
				fn->ops->bar_write(fn, bar, gpa - at, size, *value);
			else
				*value = fn->ops->bar_read(fn, bar, gpa - at, size);
			return true;
		}
	}
	return false;
}
