/* SPDX-License-Identifier: BSD-2-Clause */
/* The physical memory that VMs live in: which 2 MiB page belongs to whom. */
#pragma once

#include "abi/hypercall.h"
#include "hyp/x86/addr.h"
#include "hyp/x86/boot_info.h"

/*
 * Essay: who owns a page.
 *
 * The pool is up to KEEL_MAX_POOL_RANGES ranges of 2 MiB pages, taken from root's RAM at boot,
 * highest first. Each page has one owner byte: POOL_FREE, a VM (its RAM and vault, mapped to that
 * VM and, while the VM lives, to root), or hyp on behalf of a VM (its structs, VMCBs and nested
 * tables, mapped to nobody). A page changes owner only FREE -> somebody -> FREE, which pool_take
 * and pool_give assert.
 *
 * A free page has unknown content. Whoever takes it zeroes it before anyone but hyp can reach it.
 * That is done when it is given out and not when it comes back, since destroying a VM must be quick
 * and a page may never be used again. The zeroing of a large VM takes long, so it is done by slices
 * (hyp/core/vm.c) and root's CPU takes its interrupts in between.
 */

#define POOL_FREE              0u
#define POOL_VM(id)            ((uint8_t)(id))
#define POOL_HYP_FOR(id)       ((uint8_t)(0x80u | (id)))
#define POOL_ROOT_IMAGE(place) ((uint8_t)(0xc0u | (place))) /* what root is started from */

/* Chooses the ranges by hyp's command line (`pool=SIZE`) and the memory map. Boot CPU, once. */
void pool_init(const struct boot_info *info);
const struct boot_range *pool_ranges(unsigned *count);
uint64_t pool_bytes(void);
uint64_t pool_free_bytes(void);

/*
 * Takes count pages for owner into frames[] (HPA >> 21), in one run if there is one, at a 1 GiB
 * boundary if they are many. All or nothing; false: not that many free.
 */
bool pool_take(uint8_t owner, uint32_t count, uint32_t *frames);
/* The same, only in one run. */
bool pool_take_run(uint8_t owner, uint32_t count, uint32_t *first_frame);
/* Gives every page of owner back. Needs: unmapped everywhere, no CPU has a translation left. */
void pool_give_all(uint8_t owner);
/* Who owns the page of an HPA; POOL_FREE also for what is not pool at all. */
uint8_t pool_owner(hpa_t hpa);
