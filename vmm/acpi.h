/* SPDX-License-Identifier: BSD-2-Clause */
/* The ACPI tables that a VM is given: which there are, and where they lie. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct acpi_config {
	unsigned cpus;
	uint64_t ram_bytes;
	uint64_t window64_bytes; /* of the bus, from layout_pci64 on */
};

/* SLP_TYP for S5, in the DSDT and in pm.c. */
#define ACPI_S5_SLEEP_TYPE 5u

/*
 * Builds RSDP, XSDT, FADT, FACS, DSDT, MADT, HPET and MCFG as one image that belongs at
 * guest-physical `base` (64-byte aligned; the RSDP comes first). Returns its length; 0 if `bytes`
 * are too few.
 */
size_t acpi_build(const struct acpi_config *config, uint32_t base, uint8_t *image, size_t bytes);
