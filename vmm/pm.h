/* SPDX-License-Identifier: BSD-2-Clause */
/* ACPI fixed power management of a VM: the PM1 registers, the power button, SCI, soft-off. */
#pragma once

#include "vmm/hv.h"
#include "vmm/vault.h"

/*
 * The status bit of the button latches whenever it is pressed. The SCI is high while a status bit
 * meets its enable bit and the guest has taken over ACPI mode (SCI_EN), and only then (ACPI 6.4
 * §4.8.3.1, C-37). The PM timer beside these ports is hyp's.
 */
struct pm_state { /* VAULT_PM */
	uint16_t status;
	uint16_t enable;
	uint16_t control;
	uint16_t reserved0;
	uint64_t reserved1[3];
};
KEEL_ASSERT_SIZE(struct pm_state, 32);

struct pm {
	struct hv *hv;
	const struct vault *vault;
	struct vault_section *section;
	struct pm_state state;
	bool sci;       /* as hyp was told */
	bool off_asked; /* the guest wrote S5: machine.c acts and clears it */
};

/* Takes the state from the vault, or a fresh one, and drives the SCI by it. 0 or a negative errno.
 */
int pm_attach(struct pm *pm, struct hv *hv, const struct vault *vault);
void pm_reset(struct pm *pm);
/* A port access of the guest's. False: not ours. */
bool pm_pio(struct pm *pm, uint64_t port, unsigned size, bool write, uint64_t *value);
void pm_press_power_button(struct pm *pm);
