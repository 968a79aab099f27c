/* SPDX-License-Identifier: BSD-2-Clause */
/* What a device process may still ask of the kernel once it is set up. */
#pragma once

/*
 * Gives up what serving needs no more: new programs, other processes, sockets, mounts, identities.
 * What stays is a list of system calls; all others fail with EPERM. Holds for all threads made
 * later. A kernel without seccomp is logged and served without.
 */
void sandbox_enter(void);
