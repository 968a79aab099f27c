/* SPDX-License-Identifier: BSD-2-Clause */
/* What keel-blk may still ask of the kernel once disk and socket are open. */
#pragma once

/* From now on no file can be opened, no program started, no other socket made: what is not on the
 * list fails with EPERM, on all threads. A kernel without seccomp is told of and served without. */
void sandbox_enter(void);
