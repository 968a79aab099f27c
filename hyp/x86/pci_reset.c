/* SPDX-License-Identifier: BSD-2-Clause */
/* Function-level resets, for a root that is gone may have left work with its devices. A function
 * without bus mastering writes nothing, but it keeps its queues: between the next driver's first
 * register write and its own reset it would go on where it was, in memory that has another owner
 * by then. An emulated device may even have mapped the memory of requests that it holds already.
 */

#include "hyp/x86/pci_reset.h"

#include "hw/pci.h"
#include "hyp/x86/x86.h"

#define RESET_MAX      64u
#define RESET_TIME_MS  100u  /* PCI Express 3.0 §6.6.2: not a word to it before */
#define RESET_LIMIT_MS 1000u /* it may ask for more (§2.3.1), but the VMs wait */
#define HEADER_DWORDS  16u

struct reset_function {
	struct pci_function f;
	uint8_t express;
	uint16_t control, control2;
	uint32_t header[HEADER_DWORDS];
};

static struct reset_function functions[RESET_MAX];
static unsigned count;
static uint64_t began_tsc;

/* Device and vendor id of functions that say they can be reset and hang: AMD's audio and USB
 * controllers of 2019 and its SATA, Intel's 82579, Samsung's SM961. */
static const uint32_t hang_in_reset[] = {
        0x14871022, 0x148c1022, 0x149c1022, 0x79011022, 0x15028086, 0x15038086, 0xa804144d};

static bool may_be_reset(struct pci_function f)
{
	uint32_t id = pci_config_read(f, 0);

	for (unsigned i = 0; i < sizeof(hang_in_reset) / sizeof(hang_in_reset[0]); i++)
		if (id == hang_in_reset[i])
			return false;
	return pci_config_read(f, PCI_REVISION) >> 24 != PCI_BASE_CLASS_DISPLAY;
}

static bool ms_passed(uint64_t since_tsc, unsigned ms)
{
	return (int64_t)(tsc_now() - since_tsc) >= (int64_t)(tsc_hz / 1000 * ms);
}

static void save(struct pci_function f, unsigned express)
{
	struct reset_function *r = &functions[count++];

	*r = (struct reset_function){.f = f, .express = (uint8_t)express};
	for (unsigned i = 0; i < HEADER_DWORDS; i++)
		r->header[i] = pci_config_read(f, 4 * i);
	if (express == 0)
		return;
	r->control = (uint16_t)pci_config_read(f, express + PCI_EXPRESS_CONTROL);
	if ((pci_config_read(f, express + PCI_EXPRESS_FLAGS) & PCI_EXPRESS_VERSION) > 1)
		r->control2 = (uint16_t)pci_config_read(f, express + PCI_EXPRESS_CONTROL2);
}

static void put_back(const struct reset_function *r)
{
	for (unsigned i = HEADER_DWORDS - 1; i > PCI_COMMAND / 4; i--)
		pci_config_write32(r->f, 4 * i, r->header[i]);
	if (r->express != 0)
		pci_config_write16(r->f, r->express + PCI_EXPRESS_CONTROL, r->control);
	if (r->control2 != 0)
		pci_config_write16(r->f, r->express + PCI_EXPRESS_CONTROL2, r->control2);
	pci_config_write16(r->f, PCI_COMMAND, (uint16_t)r->header[PCI_COMMAND / 4]);
}

void pci_reset_begin(struct pci_function f, const struct pci_caps *caps)
{
	if (count == RESET_MAX || !may_be_reset(f))
		return;
	if (caps->express != 0 &&
	        pci_config_read(f, caps->express + PCI_EXPRESS_DEVICE) & PCI_EXPRESS_DEVICE_RESET) {
		save(f, caps->express);
		pci_config_write16(f, caps->express + PCI_EXPRESS_CONTROL,
		        functions[count - 1].control | PCI_EXPRESS_CONTROL_RESET);
	} else if (caps->advanced != 0 &&
	           pci_config_read(f, caps->advanced + PCI_AF_DEVICE) & PCI_AF_DEVICE_RESET) {
		save(f, caps->express);
		pci_config_write16(f, caps->advanced + PCI_AF_CONTROL, PCI_AF_CONTROL_RESET);
	}
	began_tsc = tsc_now();
}

unsigned pci_reset_count(void)
{
	return count;
}

bool pci_reset_ended(void)
{
	if (count != 0 && !ms_passed(began_tsc, RESET_TIME_MS))
		return false;
	for (; count > 0; count--) {
		struct reset_function *r = &functions[count - 1];
		bool back = pci_config_read(r->f, 0) == r->header[0];

		if (!back && !ms_passed(began_tsc, RESET_LIMIT_MS))
			return false;
		if (!back)
			log_line("pci %02x:%02x.%u does not come back from its reset", r->f.bus,
			        r->f.device, r->f.function);
		put_back(r);
	}
	return true;
}
