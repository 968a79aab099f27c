/* SPDX-License-Identifier: BSD-2-Clause */
/* The scheduler's decisions alone: from what waits on one CPU to who runs and how long. No state,
 * no lock. */
#pragma once

#include "abi/types.h"

/*
 * Essay: who runs.
 *
 * Each CPU has root's vCPU and a queue of VM vCPUs in the order of virtual time: CPU time divided
 * by weight. The one that has had least runs next, for a slice of SCHED_SLICE_US, and longer while
 * nobody waits. Root is one competitor among them while it computes. But an interrupt for root puts
 * it in front at once, since it serves disks and networks to all others. What it uses then counts
 * as any other time: while its virtual time is ahead of the queue it is given only SCHED_FLOOR_US
 * at once, and it pays by losing ordinary slices. Only a root that is never without an interrupt
 * keeps its CPU, as any host would; the VMs then go to other CPUs.
 *
 * Who was asleep does not hoard time: on waking its virtual time is at most one slice behind the
 * least of those that wait. That is enough to run before them, at once, and no more.
 */

#define SCHED_SLICE_US    4000u
#define SCHED_FLOOR_US    500u
#define SCHED_WEIGHT_UNIT 100u /* the weight at which virtual time is CPU time */
#define SCHED_ROOT_WEIGHT 200u
/* Exits by PAUSE, each soon after the one before, until the slice ends. A lock's holder that runs
 * is done before: some 10 us by exits alone, 100 us where the CPU counts PAUSEs between them. */
#define SCHED_SPINS       8u
#define SCHED_SPIN_GAP_US 100u

enum sched_choice { SCHED_NOBODY, SCHED_ROOT, SCHED_VM };

/* What competes on one CPU. Virtual times in weighted TSC ticks; they wrap. */
struct sched_view {
	bool root_wants;
	bool root_interrupt; /* root has one to take */
	bool vm_waits;
	uint64_t root_vruntime;
	uint64_t vm_vruntime; /* of the first of the queue */
};

/* Exits by PAUSE of one vCPU in its slice. */
struct sched_spins {
	uint32_t count;
	uint64_t last_tsc;
};

enum sched_choice sched_policy_pick(const struct sched_view *view);
/* Ticks that the current one may run from its slice's start, given the least virtual time of who
 * waits. */
uint64_t sched_policy_slice(uint64_t current_vruntime, bool others, uint64_t least_vruntime,
        uint64_t slice, uint64_t floor);
/* One more exit by PAUSE. Those further apart than gap ticks are no spin: the count begins anew. */
void sched_policy_spin(struct sched_spins *spins, uint64_t now, uint64_t gap);
/* The virtual time with which a vCPU that has spun goes back to the queue: not before who waits,
 * although it may have had less; but it pays no more than a slice for that, since who waits may owe
 * far more. */
uint64_t sched_policy_make_way(uint64_t vruntime, uint64_t least_vruntime, uint64_t slice);
/* The virtual time with which a sleeper comes back. */
uint64_t sched_policy_wake(uint64_t vruntime, uint64_t least_vruntime, uint64_t slice);
uint64_t sched_policy_charge(uint64_t ticks, uint32_t weight);

static inline bool sched_has_spun(const struct sched_spins *spins)
{
	return spins->count >= SCHED_SPINS;
}

static inline bool sched_is_before(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) < 0;
}
