/* SPDX-License-Identifier: BSD-2-Clause */
/* PM1 event and control registers byte by byte, and the port that switches between legacy and ACPI
 * mode. */
#include "vmm/pm.h"

#include "hw/acpi.h"
#include "vmm/acpi.h"
#include "vmm/layout.h"
#include "vmm/log.h"

#define ENABLE_BITS                                                                                \
	(ACPI_PM1_STATUS_TIMER | ACPI_PM1_STATUS_GBL | ACPI_PM1_STATUS_PWRBTN | ACPI_PM1_STATUS_RTC)
#define SLEEP_TYPE   (7u << ACPI_PM1_CONTROL_SLP_TYP_SHIFT)
#define CONTROL_BITS (SLEEP_TYPE | 2u) /* and BM_RLD, which nothing reads */

/* Values of the FADT's acpi_enable and acpi_disable. */
#define SMI_ACPI_ENABLE  0xf1u
#define SMI_ACPI_DISABLE 0xf0u

static void keep(struct pm *pm)
{
	vault_write(pm->vault, pm->section, &pm->state, sizeof(pm->state));
}

static void drive_sci(struct pm *pm, bool always)
{
	bool high = (pm->state.status & pm->state.enable) != 0 &&
	            (pm->state.control & ACPI_PM1_CONTROL_SCI_EN);

	if (high != pm->sci || always)
		pm->hv->ops->pin_set(pm->hv, LAYOUT_SCI, high);
	pm->sci = high;
}

int pm_attach(struct pm *pm, struct hv *hv, const struct vault *vault)
{
	int rc;

	*pm = (struct pm){.hv = hv, .vault = vault};
	rc = vault_record(vault, VAULT_PM, 0, &pm->state, sizeof(pm->state), &pm->section);
	if (rc != 0)
		return rc;
	drive_sci(pm, true);
	return 0;
}

void pm_reset(struct pm *pm)
{
	pm->state = (struct pm_state){0};
	pm->off_asked = false;
	keep(pm);
	drive_sci(pm, true);
}

void pm_press_power_button(struct pm *pm)
{
	pm->state.status |= ACPI_PM1_STATUS_PWRBTN;
	keep(pm);
	drive_sci(pm, false);
}

static uint8_t read_byte(const struct pm *pm, unsigned at)
{
	const uint16_t registers[3] = {pm->state.status, pm->state.enable, pm->state.control};

	return (uint8_t)(registers[at / 2] >> (at & 1 ? 8 : 0));
}

/* One byte of one of the three registers, at its place in `bits`; `mask` tells which byte. */
static void write_byte(struct pm *pm, unsigned at, uint16_t bits, uint16_t mask)
{
	struct pm_state *state = &pm->state;

	switch (at / 2) {
	case 0: state->status &= (uint16_t)~bits; break;
	case 1: state->enable = (uint16_t)((state->enable & ~mask) | (bits & ENABLE_BITS)); break;
	default:
		state->control = (uint16_t)((state->control & ~(mask & CONTROL_BITS)) |
		                            (bits & CONTROL_BITS));
		if (!(bits & ACPI_PM1_CONTROL_SLP_EN))
			break;
		if ((state->control & SLEEP_TYPE) == ACPI_S5_SLEEP_TYPE
		                                             << ACPI_PM1_CONTROL_SLP_TYP_SHIFT)
			pm->off_asked = true;
		else
			log_line("guest asked for a sleep state that it has not: ignored");
		break;
	}
}

static bool access_smi_port(struct pm *pm, unsigned size, bool write, uint64_t *value)
{
	if (size != 1)
		return false;
	if (!write) {
		*value = 0;
		return true;
	}
	if (*value == SMI_ACPI_ENABLE)
		pm->state.control |= ACPI_PM1_CONTROL_SCI_EN;
	else if (*value == SMI_ACPI_DISABLE)
		pm->state.control &= (uint16_t)~ACPI_PM1_CONTROL_SCI_EN;
	keep(pm);
	drive_sci(pm, false);
	return true;
}

bool pm_pio(struct pm *pm, uint64_t port, unsigned size, bool write, uint64_t *value)
{
	unsigned at = (unsigned)(port - LAYOUT_PM1A_EVENT);

	if (port == LAYOUT_SMI_COMMAND)
		return access_smi_port(pm, size, write, value);
	if (port < LAYOUT_PM1A_EVENT || port + size > LAYOUT_PM1A_CONTROL + 2)
		return false;
	if (!write) {
		*value = 0;
		for (unsigned i = 0; i < size; i++)
			*value |= (uint64_t)read_byte(pm, at + i) << (8 * i);
		return true;
	}
	for (unsigned i = 0; i < size; i++) {
		unsigned shift = (at + i) & 1 ? 8 : 0;
		unsigned byte = (unsigned)(*value >> (8 * i)) & 0xff;

		write_byte(pm, at + i, (uint16_t)(byte << shift), (uint16_t)(0xffu << shift));
	}
	keep(pm);
	drive_sci(pm, false);
	return true;
}
