/* SPDX-License-Identifier: BSD-2-Clause */
/* Two- to five-level page walk over guest RAM (APM vol 2 24593 §5.2, §5.3, §5.6). */

#include "hyp/core/guest_walk.h"
#include "hyp/core/guest_memory.h"

#define CR0_WP    (1ull << 16)
#define CR0_PG    (1ull << 31)
#define CR4_PSE   (1ull << 4)
#define CR4_PAE   (1ull << 5)
#define CR4_LA57  (1ull << 12)
#define CR4_SMEP  (1ull << 20)
#define CR4_SMAP  (1ull << 21)
#define CR4_PKE   (1ull << 22)
#define EFER_LMA  (1ull << 10)
#define EFER_NXE  (1ull << 11)
#define RFLAGS_AC (1ull << 18)

#define PTE_P    1ull
#define PTE_W    2ull
#define PTE_U    4ull
#define PTE_A    0x20ull
#define PTE_D    0x40ull
#define PTE_PS   0x80ull
#define PTE_KEY  59
#define PTE_NX   (1ull << 63)
#define PTE_ADDR 0x000ffffffffff000ull

#define WALK_TRIES 8

struct walk {
	struct vm *vm;
	const struct cpu_mode *mode;
	uint64_t linear;
	bool write, fetch, user, smap_bites;
	bool wide;                          /* 8-byte entries */
	unsigned level;                     /* of the table to look into: 1 is the last */
	uint64_t table;                     /* its GPA */
	bool may_write, may_user, no_fetch; /* gathered over the levels */
	uint32_t error;                     /* when it failed */
};

enum step_result { STEP_DOWN, STEP_LEAF, STEP_FAULT, STEP_RACE };

/* Levels and root table by the paging mode. */
static void walk_begin(struct walk *w)
{
	const struct cpu_mode *m = w->mode;
	bool long_mode = m->efer & EFER_LMA;

	w->wide = m->cr4 & CR4_PAE;
	w->level = long_mode ? (m->cr4 & CR4_LA57 ? 5 : 4) : w->wide ? 3 : 2;
	w->table = long_mode ? m->cr3 & PTE_ADDR
	           : w->wide ? m->cr3 & 0xffffffe0
	                     : m->cr3 & 0xfffff000;
	w->may_write = w->may_user = true;
	w->no_fetch = false;
}

static uint32_t fault_bits(const struct walk *w)
{
	bool reports_fetch = (w->mode->efer & EFER_NXE && w->wide) || w->mode->cr4 & CR4_SMEP;

	return (w->write ? PF_WRITE : 0) | (w->user ? PF_USER : 0) |
	       (w->fetch && reports_fetch ? PF_FETCH : 0);
}

static enum step_result walk_fault(struct walk *w, uint32_t bits)
{
	w->error = fault_bits(w) | bits;
	return STEP_FAULT;
}

static bool has_reserved_bits(const struct walk *w, uint64_t pte, bool leaf)
{
	uint64_t reserved = 0;

	if (!w->wide)
		return false;
	if (!(w->mode->efer & EFER_NXE))
		reserved |= PTE_NX;
	if (!(w->mode->efer & EFER_LMA))
		reserved |= 0x7ff0000000000000ull | (w->level == 3 ? 0x1e6ull | PTE_NX : 0);
	if (w->level >= 4)
		reserved |= PTE_PS;
	if (leaf && w->level == 2)
		reserved |= 0x1fe000;
	if (leaf && w->level == 3)
		reserved |= 0x3fffe000;
	return pte & reserved;
}

/* The rights of the whole walk, judged at the leaf. */
static bool is_allowed(const struct walk *w)
{
	const struct cpu_mode *m = w->mode;

	if (w->fetch && w->no_fetch)
		return false;
	if (w->user)
		return w->may_user && !(w->write && !w->may_write);
	if (w->write && !w->may_write && m->cr0 & CR0_WP)
		return false;
	if (w->fetch && w->may_user && m->cr4 & CR4_SMEP)
		return false;
	return w->fetch || !w->may_user || !w->smap_bites;
}

/* Protection keys say no to data on user pages, whoever asks (SDM vol 3 §4.6.2). */
static bool is_locked(const struct walk *w, uint64_t pte)
{
	const struct cpu_mode *m = w->mode;
	uint32_t key = m->pkru >> (pte >> PTE_KEY & 0xf) * 2;

	if (!(m->cr4 & CR4_PKE) || !(m->efer & EFER_LMA) || w->fetch || !w->may_user)
		return false;
	return key & 1 || (key & 2 && w->write && (w->user || m->cr0 & CR0_WP));
}

static bool update_entry(const struct walk *w, void *entry, uint64_t old, uint64_t new)
{
	uint32_t old32 = (uint32_t)old;

	if (old == new)
		return true;
	if (w->wide)
		return __atomic_compare_exchange_n(
		        (uint64_t *)entry, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return __atomic_compare_exchange_n((uint32_t *)entry, &old32, (uint32_t) new, false,
	        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static bool is_leaf(const struct walk *w, uint64_t pte)
{
	if (w->level == 1)
		return true;
	if (!(pte & PTE_PS))
		return false;
	if (w->level == 2)
		return w->wide || w->mode->cr4 & CR4_PSE;
	return w->level == 3 && w->mode->efer & EFER_LMA;
}

static unsigned level_shift(const struct walk *w)
{
	return 12 + (w->level - 1) * (w->wide ? 9 : 10);
}

/* One table: reads the entry, judges it, and goes down or ends. */
static enum step_result walk_step(struct walk *w, uint64_t *out)
{
	unsigned shift = level_shift(w), bits = w->wide ? 9 : 10;
	uint64_t index = (w->linear >> shift) & ((1ull << bits) - 1), pte;
	bool leaf, pdpte = w->level == 3 && !(w->mode->efer & EFER_LMA);
	void *entry;

	if (pdpte)
		index &= 3;
	entry = guest_ram(w->vm, GPA(w->table + index * (w->wide ? 8 : 4)), w->wide ? 8 : 4);
	if (entry == NULL)
		return walk_fault(w, 0);
	pte = w->wide ? __atomic_load_n((uint64_t *)entry, __ATOMIC_ACQUIRE)
	              : __atomic_load_n((uint32_t *)entry, __ATOMIC_ACQUIRE);
	if (!(pte & PTE_P))
		return walk_fault(w, 0);
	leaf = is_leaf(w, pte);
	if (has_reserved_bits(w, pte, leaf))
		return walk_fault(w, PF_PRESENT | PF_RESERVED);
	if (!pdpte) { /* PAE's top entries have no rights */
		w->may_write = w->may_write && pte & PTE_W;
		w->may_user = w->may_user && pte & PTE_U;
	}
	w->no_fetch = w->no_fetch || (w->wide && pte & PTE_NX);
	if (leaf && (is_locked(w, pte) || !is_allowed(w)))
		return walk_fault(w, PF_PRESENT | (is_locked(w, pte) ? PF_KEY : 0));
	if (!pdpte && !update_entry(w, entry, pte, pte | PTE_A | (leaf && w->write ? PTE_D : 0)))
		return STEP_RACE;
	if (!leaf) {
		w->table = pte & (w->wide ? PTE_ADDR : 0xfffff000ull);
		w->level--;
		return STEP_DOWN;
	}
	*out = pte & (w->wide ? PTE_ADDR : 0xfffff000ull) & ~((1ull << shift) - 1);
	if (!w->wide && w->level == 2) /* PSE-36 */
		*out |= ((pte >> 13) & 0xff) << 32;
	*out |= w->linear & ((1ull << shift) - 1);
	return STEP_LEAF;
}

bool guest_walk(struct vm *vm, const struct cpu_mode *mode, uint64_t rflags, uint64_t linear,
        unsigned access, gpa_t *gpa, uint32_t *error)
{
	struct walk w = {
	        .vm = vm,
	        .mode = mode,
	        .linear = linear,
	        .write = access & WALK_WRITE,
	        .fetch = access & WALK_FETCH,
	        .user = mode->cpl == 3,
	        .smap_bites = mode->cr4 & CR4_SMAP && !(rflags & RFLAGS_AC),
	};
	uint64_t out = 0;

	if (!(mode->cr0 & CR0_PG)) {
		*gpa = GPA(linear & 0xffffffff);
		return true;
	}
	for (unsigned tries = 0; tries < WALK_TRIES; tries++) {
		enum step_result r = STEP_DOWN;

		walk_begin(&w);
		while (r == STEP_DOWN)
			r = walk_step(&w, &out);
		if (r == STEP_LEAF) {
			*gpa = GPA(out);
			return true;
		}
		*error = w.error;
		if (r == STEP_FAULT)
			return false;
	}
	*error = fault_bits(
	        &w); /* another vCPU would not leave the entry alone: the guest tries again */
	return false;
}
