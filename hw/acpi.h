/* SPDX-License-Identifier: BSD-2-Clause */
/* ACPI 6.4: the static tables that are read by hyp and written for guests. */
#pragma once

#include "abi/types.h"

#define ACPI_PM_TIMER_HZ 3579545u /* §4.8.3.3 */

struct acpi_rsdp {         /* §5.2.5.3; the first 20 bytes are revision 0 */
	char signature[8]; /* "RSD PTR " */
	uint8_t checksum;  /* of the first 20 bytes */
	char oem_id[6];
	uint8_t revision;
	uint32_t rsdt;
	uint32_t length;
	uint64_t xsdt;
	uint8_t checksum_all;
	uint8_t reserved[3];
} __attribute__((packed));
#define ACPI_RSDP_V1_BYTES 20u
KEEL_ASSERT_SIZE(struct acpi_rsdp, 36);
KEEL_ASSERT_OFFSET(struct acpi_rsdp, rsdt, 16);
KEEL_ASSERT_OFFSET(struct acpi_rsdp, xsdt, 24);

struct acpi_header { /* §5.2.6 */
	char signature[4];
	uint32_t length;
	uint8_t revision;
	uint8_t checksum;
	char oem_id[6];
	char oem_table_id[8];
	uint32_t oem_revision;
	uint32_t creator_id;
	uint32_t creator_revision;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_header, 36);

#define ACPI_SPACE_MEMORY 0u
#define ACPI_SPACE_IO     1u
struct acpi_gas { /* §5.2.3.2 generic address */
	uint8_t space;
	uint8_t bit_width;
	uint8_t bit_offset;
	uint8_t access_size;
	uint64_t address;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_gas, 12);

struct acpi_fadt { /* §5.2.9 */
	struct acpi_header header;
	uint32_t firmware_ctrl;
	uint32_t dsdt;
	uint8_t reserved0;
	uint8_t preferred_pm_profile;
	uint16_t sci_int;
	uint32_t smi_cmd;
	uint8_t acpi_enable;
	uint8_t acpi_disable;
	uint8_t s4bios_req;
	uint8_t pstate_cnt;
	uint32_t pm1a_evt_blk;
	uint32_t pm1b_evt_blk;
	uint32_t pm1a_cnt_blk;
	uint32_t pm1b_cnt_blk;
	uint32_t pm2_cnt_blk;
	uint32_t pm_tmr_blk;
	uint32_t gpe0_blk;
	uint32_t gpe1_blk;
	uint8_t pm1_evt_len;
	uint8_t pm1_cnt_len;
	uint8_t pm2_cnt_len;
	uint8_t pm_tmr_len;
	uint8_t gpe0_blk_len;
	uint8_t gpe1_blk_len;
	uint8_t gpe1_base;
	uint8_t cst_cnt;
	uint16_t p_lvl2_lat;
	uint16_t p_lvl3_lat;
	uint16_t flush_size;
	uint16_t flush_stride;
	uint8_t duty_offset;
	uint8_t duty_width;
	uint8_t day_alarm;
	uint8_t month_alarm;
	uint8_t century; /* CMOS index, 0: none */
	uint16_t iapc_boot_arch;
	uint8_t reserved1;
	uint32_t flags;
	struct acpi_gas reset_reg;
	uint8_t reset_value;
	uint16_t arm_boot_arch;
	uint8_t minor_version;
	uint64_t x_firmware_ctrl;
	uint64_t x_dsdt;
	struct acpi_gas x_pm1a_evt_blk;
	struct acpi_gas x_pm1b_evt_blk;
	struct acpi_gas x_pm1a_cnt_blk;
	struct acpi_gas x_pm1b_cnt_blk;
	struct acpi_gas x_pm2_cnt_blk;
	struct acpi_gas x_pm_tmr_blk;
	struct acpi_gas x_gpe0_blk;
	struct acpi_gas x_gpe1_blk;
	struct acpi_gas sleep_control_reg;
	struct acpi_gas sleep_status_reg;
	uint64_t hypervisor_vendor;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_fadt, 276);
KEEL_ASSERT_OFFSET(struct acpi_fadt, sci_int, 46);
KEEL_ASSERT_OFFSET(struct acpi_fadt, pm_tmr_blk, 76);
KEEL_ASSERT_OFFSET(struct acpi_fadt, century, 108);
KEEL_ASSERT_OFFSET(struct acpi_fadt, flags, 112);
KEEL_ASSERT_OFFSET(struct acpi_fadt, reset_reg, 116);
KEEL_ASSERT_OFFSET(struct acpi_fadt, x_dsdt, 140);
KEEL_ASSERT_OFFSET(struct acpi_fadt, x_pm_tmr_blk, 208);
#define ACPI_FADT_RESET_REG_SUP (1u << 10)
#define ACPI_FADT_TMR_VAL_EXT   (1u << 8) /* the PM timer has 32 bits, else 24 */
#define ACPI_FADT_WBINVD        (1u << 0)
#define ACPI_FADT_PROC_C1       (1u << 2)
#define ACPI_FADT_SLP_BUTTON    (1u << 5) /* no fixed sleep button */
#define ACPI_FADT_FIX_RTC       (1u << 6) /* the RTC cannot wake */
#define ACPI_BOOT_NO_VGA        (1u << 2) /* iapc_boot_arch, §5.2.9.3 */
#define ACPI_BOOT_NO_ASPM       (1u << 4)

struct acpi_facs { /* §5.2.10 */
	char signature[4];
	uint32_t length;
	uint32_t hardware_signature;
	uint32_t waking_vector;
	uint32_t global_lock;
	uint32_t flags;
	uint64_t x_waking_vector;
	uint8_t version;
	uint8_t reserved0[3];
	uint32_t ospm_flags;
	uint8_t reserved1[24];
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_facs, 64);
KEEL_ASSERT_OFFSET(struct acpi_facs, x_waking_vector, 24);

/* PM1 registers, §4.8.3.1 and §4.8.3.2. */
#define ACPI_PM1_STATUS_TIMER          (1u << 0)
#define ACPI_PM1_STATUS_GBL            (1u << 5)
#define ACPI_PM1_STATUS_PWRBTN         (1u << 8)
#define ACPI_PM1_STATUS_RTC            (1u << 10)
#define ACPI_PM1_STATUS_WAKE           (1u << 15)
#define ACPI_PM1_CONTROL_SCI_EN        (1u << 0)
#define ACPI_PM1_CONTROL_SLP_TYP_SHIFT 10u
#define ACPI_PM1_CONTROL_SLP_EN        (1u << 13)

struct acpi_madt { /* §5.2.12 */
	struct acpi_header header;
	uint32_t lapic_address;
	uint32_t flags;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_madt, 44);
#define ACPI_MADT_PCAT_COMPAT 1u

enum acpi_madt_type {
	ACPI_MADT_LAPIC = 0,
	ACPI_MADT_IOAPIC = 1,
	ACPI_MADT_OVERRIDE = 2,
	ACPI_MADT_LAPIC_NMI = 4,
	ACPI_MADT_LAPIC_ADDRESS = 5,
	ACPI_MADT_X2APIC = 9,
	ACPI_MADT_X2APIC_NMI = 10,
};

struct acpi_madt_entry {
	uint8_t type;
	uint8_t length;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_madt_entry, 2);

#define ACPI_MADT_ENABLED        1u
#define ACPI_MADT_ONLINE_CAPABLE 2u
struct acpi_madt_lapic {
	struct acpi_madt_entry entry;
	uint8_t acpi_uid;
	uint8_t apic_id;
	uint32_t flags;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_madt_lapic, 8);

struct acpi_madt_ioapic {
	struct acpi_madt_entry entry;
	uint8_t id;
	uint8_t reserved;
	uint32_t address;
	uint32_t gsi_base;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_madt_ioapic, 12);

struct acpi_madt_override {
	struct acpi_madt_entry entry;
	uint8_t bus;
	uint8_t source;
	uint32_t gsi;
	uint16_t flags; /* 1:0 polarity (1 high, 3 low), 3:2 trigger (1 edge, 3 level) */
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_madt_override, 10);

struct acpi_madt_lapic_nmi {
	struct acpi_madt_entry entry;
	uint8_t acpi_uid; /* 255: all */
	uint16_t flags;
	uint8_t lint;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_madt_lapic_nmi, 6);

struct acpi_madt_lapic_address {
	struct acpi_madt_entry entry;
	uint16_t reserved;
	uint64_t address;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_madt_lapic_address, 12);

struct acpi_madt_x2apic {
	struct acpi_madt_entry entry;
	uint16_t reserved;
	uint32_t apic_id;
	uint32_t flags;
	uint32_t acpi_uid;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_madt_x2apic, 16);

struct acpi_mcfg { /* PCI firmware specification 3.2 §4.1.2 */
	struct acpi_header header;
	uint64_t reserved;
	/* struct acpi_mcfg_entry[] */
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_mcfg, 44);

struct acpi_mcfg_entry {
	uint64_t base; /* of bus 0, even if start_bus is not 0 */
	uint16_t segment;
	uint8_t start_bus;
	uint8_t end_bus;
	uint32_t reserved;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_mcfg_entry, 16);

struct acpi_hpet { /* HPET specification 1.0a §3.2.4 */
	struct acpi_header header;
	uint32_t event_timer_block_id;
	struct acpi_gas base;
	uint8_t number;
	uint16_t min_tick;
	uint8_t page_protection;
} __attribute__((packed));
KEEL_ASSERT_SIZE(struct acpi_hpet, 56);
