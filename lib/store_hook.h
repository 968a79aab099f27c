/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks the stores that outlive a process, so that tests can stop it before and after each. */
#pragma once

/* Nothing, but in a test that defines it before: called with false before the store and with true
 * after it. place names what is stored to. */
#ifndef STORE_HOOK
#define STORE_HOOK(after, place)
#endif
