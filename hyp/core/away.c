/* SPDX-License-Identifier: BSD-2-Clause */
/* Watches how long root has been away, and does to each VM what its policy says then. */

#include "hyp/core/away.h"
#include "abi/hypercall.h"
#include "hyp/core/run.h"
#include "hyp/core/vm.h"
#include "hyp/x86/x86.h"

static struct {
	uint64_t since_tsc; /* (a) 0: root is there */
	uint64_t next_tsc;  /* (a) the earliest of the VMs' deadlines, or sooner */
} away = {.next_tsc = UINT64_MAX};

bool away_is(void)
{
	return __atomic_load_n(&away.since_tsc, __ATOMIC_RELAXED) != 0;
}

uint64_t away_deadline(void)
{
	return __atomic_load_n(&away.next_tsc, __ATOMIC_ACQUIRE);
}

void away_begin(void)
{
	uint64_t present = 0;

	if (__atomic_compare_exchange_n(&away.since_tsc, &present, tsc_now(), false,
	            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		__atomic_store_n(&away.next_tsc, 0, __ATOMIC_RELEASE);
}

void away_end(void)
{
	__atomic_store_n(&away.next_tsc, UINT64_MAX, __ATOMIC_RELEASE);
	__atomic_store_n(&away.since_tsc, 0, __ATOMIC_RELEASE);
}

static void apply(struct vm *vm)
{
	bool stop = vm->away_policy == KEEL_AWAY_STOP;

	if (__atomic_load_n(&vm->state, __ATOMIC_ACQUIRE) != KEEL_VM_STATE_RUNNING)
		return;
	log_line("vm %u: root is away for %u ms: %s, as its policy says", vm->id, vm->away_ms,
	        vm->away_policy == KEEL_AWAY_PAUSE ? "paused"
	        : stop                             ? "stopped"
	                                           : "to be reset");
	if (vm->away_policy == KEEL_AWAY_PAUSE)
		vm_pause(vm);
	else
		vm_stop(vm, KEEL_VM_STATE_RESET, KEEL_EVENT_RESET,
		        stop ? KEEL_RESET_AWAY_STOP : KEEL_RESET_AWAY);
}

/* Applies what is due; UINT64_MAX or the next time to come. A VM that is no longer RUNNING is left
 * alone, so one whose time has passed needs no mark. */
static uint64_t look_at(struct vm *vm, uint64_t since, uint64_t now)
{
	uint64_t due = since + (uint64_t)vm->away_ms * (tsc_hz / 1000);

	if (vm->away_policy == KEEL_AWAY_WAIT)
		return UINT64_MAX;
	if (due > now)
		return due;
	apply(vm);
	return UINT64_MAX;
}

void away_run(uint64_t now)
{
	uint64_t since = __atomic_load_n(&away.since_tsc, __ATOMIC_ACQUIRE), next = UINT64_MAX;
	uint64_t seen = away_deadline();
	struct vm *vm;

	if (since == 0 || now < seen)
		return;
	for (uint32_t id = 1; (vm = vm_get_next(id)) != NULL; id++) {
		uint64_t due = look_at(vm, since, now);

		next = due < next ? due : next;
		id = vm->id;
		vm_put(vm);
	}
	/* Root may have come back meanwhile, and gone again: then there is a newer word. */
	__atomic_compare_exchange_n(
	        &away.next_tsc, &seen, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
