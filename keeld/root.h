/* SPDX-License-Identifier: BSD-2-Clause */
/* What the daemon tells hyp about root itself: that it is ready, and that it lives. */
#pragma once

#include "keeld/keeld.h"

#define ROOT_BEAT_MS_DEFAULT 30000u /* hyp starts root again after so long without a beat */

/*
 * Ready is: every VM that hyp had is served by a device process again, or 120 s are over (a VM that
 * cannot be served any more must not take root down with it). From then on a beat three times in
 * the limit. Needs: keeld_begin has run. beat_ms 0: no beats.
 */
void root_begin(struct keeld *keeld, uint32_t beat_ms);
/* The daemon ends on purpose: hyp must not take that for root's death. */
void root_end(struct keeld *keeld);
