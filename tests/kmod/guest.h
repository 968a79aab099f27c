/* SPDX-License-Identifier: BSD-2-Clause */
/* What the module's tests and their guest program agree on. */
#pragma once

/*
 * The guest sits in a loop in real mode. A port number put into its command word makes it write one
 * byte to that port, then clear the word. Each interrupt of GUEST_VECTOR adds 1 to its count.
 */
#define GUEST_CODE       0x1000u
#define GUEST_COMMAND    0x2000u
#define GUEST_INTERRUPTS 0x2004u
#define GUEST_STACK      0x7000u
#define GUEST_VECTOR     0x40u
