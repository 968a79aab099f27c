/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of exit in keelOS's own names: no vendor's code crosses a boundary. */
#pragma once

#include "abi/types.h"

/* One line a kind: name, text. The text is what `keel status` prints. */
#define KEEL_EXIT_KIND_LIST(X)                                                                     \
	X(NONE, "none")                                                                            \
	X(INTERRUPT, "interrupt")                                                                  \
	X(NMI, "nmi")                                                                              \
	X(HALT, "halt")                                                                            \
	X(PAUSE, "pause")                                                                          \
	X(CPUID, "cpuid")                                                                          \
	X(MSR_READ, "msr-read")                                                                    \
	X(MSR_WRITE, "msr-write")                                                                  \
	X(PIO, "pio")                                                                              \
	X(MMIO, "mmio")                                                                            \
	X(HYPERCALL, "hypercall")                                                                  \
	X(CR, "cr-access")                                                                         \
	X(DR, "dr-access")                                                                         \
	X(WINDOW, "interrupt-window")                                                              \
	X(XSETBV, "xsetbv")                                                                        \
	X(UNDEFINED, "refused-instruction")                                                        \
	X(WBINVD, "wbinvd")                                                                        \
	X(SHUTDOWN, "shutdown")                                                                    \
	X(EXCEPTION, "exception")                                                                  \
	X(INVALID, "invalid-state")                                                                \
	X(INIT, "init")                                                                            \
	X(OTHER, "other")

enum keel_exit_kind {
#define KEEL_EXIT_KIND_ENUM(name, text) KEEL_KIND_##name,
	KEEL_EXIT_KIND_LIST(KEEL_EXIT_KIND_ENUM)
#undef KEEL_EXIT_KIND_ENUM
	        KEEL_KIND_COUNT
};
_Static_assert(KEEL_KIND_COUNT <= 32, "exit kinds fit struct keel_hc_counters");
