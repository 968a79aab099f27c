/* SPDX-License-Identifier: BSD-2-Clause */
/* Routes accesses and keeps the exit slots: a vCPU that waits for root, and nothing else of the VM
 * does. */

#include "hyp/core/access.h"
#include "hyp/core/away.h"
#include "hyp/core/root.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/x86/x86.h"

static uint64_t size_mask(uint32_t size)
{
	return size >= 8 ? UINT64_MAX : (1ull << (size * 8)) - 1;
}

static bool access_platform(
        struct vcpu *v, uint8_t space, uint64_t address, uint32_t size, bool write, uint64_t *data)
{
	struct vm *vm = v->vm->vm;
	uint64_t now = vm_now(vm, tsc_now());
	uint32_t value = (uint32_t)*data;
	bool done;

	if (space == ACCESS_PIO) {
		done = platform_pio(
		        vm->platform, v->index, (uint16_t)address, size, write, &value, now);
		*data = done && !write ? value : *data;
	} else {
		done = platform_mmio(vm->platform, v->index, address, size, write, data, now);
	}
	if (done)
		sched_vm_timer(vm);
	return done;
}

bool access_do(
        struct vcpu *v, uint8_t space, uint64_t address, uint32_t size, bool write, uint64_t *data)
{
	struct vm *vm = v->vm->vm;
	int bell;

	if (access_platform(v, space, address, size, write, data))
		return true;
	bell = write ? doorbell_find(&vm->doorbells, space, address, size, *data) : -1;
	if (bell >= 0) {
		v->counters.doorbells++;
		if (doorbell_ring(vm->shared, (unsigned)bell))
			root_notify_vm(vm->id);
		return true;
	}
	v->vm->access = (struct vcpu_access){
	        .kind = space == ACCESS_PIO ? (write ? KEEL_EXIT_PIO_WRITE : KEEL_EXIT_PIO_READ)
	                                    : (write ? KEEL_EXIT_MMIO_WRITE : KEEL_EXIT_MMIO_READ),
	        .size = size,
	        .address = address,
	        .data = write ? *data & size_mask(size) : 0,
	};
	v->vm->answered = false;
	v->vm->run_state = KEEL_RUN_EXIT;
	return false;
}

uint64_t access_answer(struct vcpu *v)
{
	struct vcpu_vm *x = v->vm;

	x->answered = false;
	v->counters.root_wait_tsc += tsc_now() - v->park_tsc;
	return x->access.data & size_mask(x->access.size);
}

/* Store order: request, then state (release), then the pending bit, then the event (abi/shared.h).
 */
static void slot_publish(struct vm *vm, uint32_t index, const struct vcpu_access *a,
        uint32_t sequence, uint64_t since)
{
	struct keel_exit_slot *s = &vm->shared->slots[index];

	s->kind = a->kind;
	s->sequence = sequence;
	s->size = a->size;
	s->address = a->address;
	s->data = a->data;
	s->since_tsc = since;
	__atomic_store_n(&s->state, KEEL_SLOT_PENDING, __ATOMIC_RELEASE);
	__atomic_fetch_or(&vm->shared->exit_pending, 1ull << index, __ATOMIC_SEQ_CST);
	root_notify_vm(vm->id);
}

void access_park(struct vcpu *v)
{
	struct vm *vm = v->vm->vm;
	const struct vcpu_access a = v->vm->access;
	uint32_t index = v->index, sequence = ++v->vm->sequence;
	uint64_t since = tsc_now();

	v->park_tsc = since;
	v->counters.root_exits++;
	if (away_is())
		__atomic_add_fetch(&vm->away_exits, 1, __ATOMIC_RELAXED);
	vcpu_make_current(NULL); /* root may read its registers while it waits */
	__atomic_add_fetch(&vm->exits_waiting, 1, __ATOMIC_RELAXED);
	sched_put(v, VCPU_EXIT);
	/* From here on an answer is taken. The slot comes last: root answers only what it sees. */
	__atomic_store_n(&v->vm->parked, 1u, __ATOMIC_RELEASE);
	slot_publish(vm, index, &a, sequence, since);
}

/* True for one caller: the vCPU is its own to answer. */
static bool unpark_claim(struct vm *vm, struct vcpu *v)
{
	if (__atomic_exchange_n(&v->vm->parked, 0u, __ATOMIC_ACQ_REL) == 0)
		return false;
	__atomic_sub_fetch(&vm->exits_waiting, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&vm->shared->slots[v->index].state, KEEL_SLOT_IDLE, __ATOMIC_RELEASE);
	return true;
}

int64_t access_complete(struct vm *vm, uint32_t index, uint32_t sequence, uint64_t data)
{
	struct vcpu *v = vm_vcpu(vm, index);

	if (__atomic_load_n(&v->vm->sequence, __ATOMIC_ACQUIRE) != sequence)
		return -KEEL_EAGAIN;
	/* A call that reads the parked vCPU's state holds it for a moment: not answered yet. */
	if (!unpark_claim(vm, v))
		return __atomic_load_n(&vm->control, __ATOMIC_ACQUIRE) ||
		                       __atomic_load_n(&v->vm->parked, __ATOMIC_ACQUIRE)
		               ? HYPERCALL_AGAIN
		               : -KEEL_EAGAIN;
	v->vm->access.data = data;
	v->vm->answered = true;
	v->vm->run_state = KEEL_RUN_READY;
	sched_unpark(v); /* a paused one goes on when the VM runs */
	return 0;
}

void access_drop(struct vcpu *v)
{
	unpark_claim(v->vm->vm, v);
	v->vm->sequence++;
	v->vm->answered = false;
	v->vm->pending = PENDING_NONE;
}
