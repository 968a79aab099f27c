/* SPDX-License-Identifier: BSD-2-Clause */
/* Debug builds look after every hypercall whether each page still has one owner, and only that one
 * reaches it. */
#pragma once

/*
 * `make ORACLE=1 B=build/oracle hyp` takes oracle_on.c; all other builds take oracle_off.c, which
 * does nothing. What holds, whatever other CPUs do meanwhile:
 *   - a live VM's pages belong to it, and it has no page twice (so no two VMs share one)
 *   - its nested tables map its RAM to these pages, and nothing else of its address space
 *   - root has of the pool only pages of VMs: none that is free, hyp's own, or an image of root's
 * Anything else is a panic that names the page.
 */
void oracle_check(void);
