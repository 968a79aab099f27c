/* SPDX-License-Identifier: BSD-2-Clause */
/* The arithmetic of fair shares; see the essay in sched_policy.h. */

#include "hyp/core/sched_policy.h"

enum sched_choice sched_policy_pick(const struct sched_view *view)
{
	if (view->root_wants && view->root_interrupt)
		return SCHED_ROOT;
	if (view->root_wants && view->vm_waits)
		return sched_is_before(view->vm_vruntime, view->root_vruntime) ? SCHED_VM
		                                                               : SCHED_ROOT;
	if (view->root_wants)
		return SCHED_ROOT;
	return view->vm_waits ? SCHED_VM : SCHED_NOBODY;
}

uint64_t sched_policy_slice(uint64_t current_vruntime, bool others, uint64_t least_vruntime,
        uint64_t slice, uint64_t floor)
{
	if (!others)
		return UINT64_MAX;
	/* Already ahead of who waits by a slice's half: only what makes the switch worth it. */
	if (sched_is_before(least_vruntime + slice / 2, current_vruntime))
		return floor;
	return slice;
}

void sched_policy_spin(struct sched_spins *spins, uint64_t now, uint64_t gap)
{
	spins->count = now - spins->last_tsc > gap ? 1 : spins->count + 1;
	spins->last_tsc = now;
}

uint64_t sched_policy_make_way(uint64_t vruntime, uint64_t least_vruntime, uint64_t slice)
{
	if (!sched_is_before(vruntime, least_vruntime))
		return vruntime;
	return sched_is_before(vruntime + slice, least_vruntime) ? vruntime + slice
	                                                         : least_vruntime;
}

uint64_t sched_policy_wake(uint64_t vruntime, uint64_t least_vruntime, uint64_t slice)
{
	uint64_t earliest = least_vruntime - slice;

	return sched_is_before(vruntime, earliest) ? earliest : vruntime;
}

uint64_t sched_policy_charge(uint64_t ticks, uint32_t weight)
{
	return ticks * SCHED_WEIGHT_UNIT / (weight == 0 ? SCHED_WEIGHT_UNIT : weight);
}
