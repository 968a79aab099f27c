/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tiny guests and their runner agree on: the info block, the exit port and the test
 * device. */
#pragma once

#include "abi/types.h"

/*
 * The runner puts this block and the boot CPU's identity page tables (4 GiB in 2 MiB pages) into
 * low memory, loads the ELF at its physical addresses, and enters it in 64-bit mode with interrupts
 * off. What lies below BOARD_FREE_END and is not named here is the guest's (the APs' start code, an
 * IVT).
 */
#define BOARD_INFO      0x7000u
#define BOARD_TABLES    0x10000u /* PML4, PDPT, four page directories */
#define BOARD_FREE_END  0x80000u
#define BOARD_MAGIC     0x6b656c67u
#define BOARD_ARGUMENTS 256u

struct board_info {
	uint32_t magic;
	uint32_t vcpus;
	uint64_t ram_bytes;
	uint64_t tsc_hz;
	uint64_t seed;
	uint64_t boots; /* how often the VM was reset and started again */
	char arguments[BOARD_ARGUMENTS];
};
KEEL_ASSERT_SIZE(struct board_info, 40 + BOARD_ARGUMENTS);

/* A byte written here ends the VM with that result. */
#define BOARD_EXIT_PORT 0xf4u

/* Results of the runner's own, when the guest did not give one. */
#define BOARD_RESULT_RESET        100
#define BOARD_RESULT_TRIPLE_FAULT 101
#define BOARD_RESULT_DEAD         102
#define BOARD_RESULT_TIME         103
#define BOARD_RESULT_SETUP        104

/*
 * The test device. Its memory page is BOARD_MMIO_BYTES that keep what is written. Every access to
 * it and to BOARD_PIO is put into a log of BOARD_LOG_MAX entries, read through registers that are
 * not logged themselves.
 */
#define BOARD_MMIO       0xd0000000u /* memory */
#define BOARD_MMIO_BYTES 0x4000u
#define BOARD_LOG        0xd0008000u /* u32: how many accesses were logged; a write clears the log */
#define BOARD_LOG_ENTRY  0xd0009000u /* struct board_access, each field read alone */
#define BOARD_LOG_MAX    64u
struct board_access {
	uint64_t address;
	uint64_t data;
	uint32_t size;
	uint32_t write;
	uint64_t reserved;
};
KEEL_ASSERT_SIZE(struct board_access, 32);

#define BOARD_PINS 24u    /* of the IOAPIC */
#define BOARD_PIO  0x510u /* 8 bytes that keep what is written */
#define BOARD_FIFO 0x520u /* reads give 1, 2, 3 … by bytes; a write sets the next one */
#define BOARD_PIN  0x528u /* write: pin | level << 8 (source 1) */
#define BOARD_TYPE                                                                                 \
	0x52cu /* write: a byte for the serial port's input, kept until BOARD_TYPE_GO              \
	        */
#define BOARD_TYPE_GO    0x52du /* write: all of them at once */
#define BOARD_MSI_TARGET 0x530u /* write 32 bits: MSI address */
#define BOARD_MSI        0x534u /* write 32 bits: MSI data, and it is sent */
/* All else reads as ones and takes writes without effect. */
