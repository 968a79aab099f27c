/* SPDX-License-Identifier: BSD-2-Clause */
/* hyp's version, as the log, `keel status` and KEEL_HC_INFO show it. */
#pragma once

#define KEEL_VERSION "0.1"
