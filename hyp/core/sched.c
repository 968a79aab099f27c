/* SPDX-License-Identifier: BSD-2-Clause */
/* Run queues, one a CPU: what the policy decides is done here, with the locks and the kicks. */

#include "hyp/core/sched.h"
#include "hyp/core/root.h"
#include "hyp/core/root_restart.h"
#include "hyp/core/sched_policy.h"
#include "hyp/core/vm.h"
#include "hyp/x86/x86.h"

/*
 * Locks. A vCPU's cpu, state, queue_next and vruntime are under the lock of the queue of v->cpu:
 * read cpu, lock that queue, look again. One queue's lock is held at a time, but lock_pair takes
 * two in the order of their CPUs. Nothing is called under a lock that could take another one.
 *
 * Lost wake-ups. A waker sets v->look, then takes the lock and looks at the state. A vCPU that is
 * about to sleep looks at v->look under the same lock. So either it sees the bit or the waker sees
 * it asleep.
 *
 * Registers. percpu.current says whose registers a CPU holds, and stays after that vCPU went to
 * sleep, so that waking up on the same CPU costs nothing. A vCPU that is held by its CPU is not
 * moved to another.
 */

/* (l) under lock, (o) owner CPU only, (a) atomic. */
struct run_queue {
	struct spinlock lock;
	struct vcpu *ready;      /* (l) by virtual time, least first */
	struct vcpu *halted;     /* (l) */
	struct vm *homes;        /* (l) VMs whose shared timers run here */
	struct vcpu *current;    /* (l) RUNNING here */
	uint64_t min_vruntime;   /* (l) */
	uint64_t timer_deadline; /* (a) written under lock */
	uint32_t idle;           /* (a) nothing to run; who gives it work clears it */
	uint32_t assigned;       /* (a) VM vCPUs that live here */
} __attribute__((aligned(64)));

static struct run_queue queues[CPU_MAX];

static uint64_t us_to_tsc(uint64_t us)
{
	return us * tsc_hz / 1000000;
}

static struct run_queue *this_queue(void)
{
	return &queues[percpu()->index];
}

/* Locks the queue that v belongs to. */
static struct run_queue *lock_queue_of(const struct vcpu *v)
{
	for (;;) {
		uint32_t cpu = __atomic_load_n(&v->cpu, __ATOMIC_ACQUIRE);
		struct run_queue *q = &queues[cpu];

		spin_lock(&q->lock);
		if (__atomic_load_n(&v->cpu, __ATOMIC_RELAXED) == cpu)
			return q;
		spin_unlock(&q->lock);
	}
}

/* Needs: the lock of its queue, v not RUNNING. */
static bool is_held(const struct vcpu *v)
{
	return __atomic_load_n(&percpu_of(v->cpu)->current, __ATOMIC_ACQUIRE) == v;
}

void sched_init_cpu(void)
{
	struct run_queue *q = this_queue();

	q->timer_deadline = UINT64_MAX;
	percpu()->sched = q;
}

/* ---- queue work; all need the lock ---- */

static void insert_ready(struct run_queue *q, struct vcpu *v)
{
	struct vcpu **link = &q->ready;

	while (*link != NULL && !sched_is_before(v->vruntime, (*link)->vruntime))
		link = &(*link)->queue_next;
	v->queue_next = *link;
	*link = v;
	v->state = VCPU_READY;
}

static void unlink(struct vcpu **link, const struct vcpu *v)
{
	while (*link != v) {
		hyp_assert(*link != NULL);
		link = &(*link)->queue_next;
	}
	*link = v->queue_next;
}

static void lower_deadline(struct run_queue *q, uint64_t tsc)
{
	if (tsc < q->timer_deadline)
		__atomic_store_n(&q->timer_deadline, tsc, __ATOMIC_RELAXED);
}

static void advance_min(struct run_queue *q, uint64_t vruntime)
{
	if (sched_is_before(q->min_vruntime, vruntime))
		q->min_vruntime = vruntime;
}

static void move_home(struct run_queue *from, struct run_queue *to, struct vcpu *v)
{
	v->vruntime += to->min_vruntime - from->min_vruntime;
	__atomic_sub_fetch(&from->assigned, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&to->assigned, 1, __ATOMIC_RELAXED);
	v->counters.migrations++;
	__atomic_store_n(&v->cpu, (uint32_t)(to - queues), __ATOMIC_RELEASE);
}

/* ---- idle CPUs ---- */

/* An idle CPU other than `not`, taken from the idle ones; NULL: none. */
static struct run_queue *claim_idle(const struct run_queue * not )
{
	for (unsigned i = 0; i < cpu_count; i++) {
		struct run_queue *q = &queues[i];

		if (q != not &&__atomic_load_n(&q->idle, __ATOMIC_RELAXED) != 0 &&
		        __atomic_exchange_n(&q->idle, 0u, __ATOMIC_ACQ_REL) != 0)
			return q;
	}
	return NULL;
}

static bool any_idle(void)
{
	for (unsigned i = 0; i < cpu_count; i++)
		if (__atomic_load_n(&queues[i].idle, __ATOMIC_RELAXED) != 0)
			return true;
	return false;
}

static void kick_queue(const struct run_queue *q)
{
	unsigned cpu = (unsigned)(q - queues);

	if (cpu != percpu()->index)
		cpu_kick(cpu);
}

/* Takes a vCPU that waits for a CPU busy with something else. It comes back RUNNING and ours. */
static struct vcpu *steal_from(struct run_queue *q, struct run_queue *mine)
{
	struct vcpu *v, **link;

	if (__atomic_load_n(&q->ready, __ATOMIC_RELAXED) == NULL)
		return NULL;
	spin_lock(&q->lock);
	for (link = &q->ready; (v = *link) != NULL; link = &v->queue_next)
		if (q->current != NULL && !(v->vm->vm->flags & KEEL_VM_PINNED) && !is_held(v))
			break;
	if (v != NULL) {
		*link = v->queue_next;
		v->state = VCPU_RUNNING;
		/* Our own queue's lock is not needed: a RUNNING vCPU is in no list. */
		move_home(q, mine, v);
	}
	spin_unlock(&q->lock);
	return v;
}

static struct vcpu *steal(struct run_queue *mine)
{
	struct vcpu *v = NULL;
	unsigned me = (unsigned)(mine - queues);

	for (unsigned i = 1; i < cpu_count && v == NULL; i++)
		v = steal_from(&queues[(me + i) % cpu_count], mine);
	return v;
}

/* ---- the owner's calls ---- */

/* Needs: lock. */
static struct sched_view view_of(struct run_queue *q, bool root_wants, bool root_interrupt)
{
	struct vcpu *root = percpu()->root;
	struct sched_view view = {
	        .root_wants = root_wants,
	        .root_interrupt = root_interrupt,
	        .vm_waits = q->ready != NULL,
	        .vm_vruntime = q->ready != NULL ? q->ready->vruntime : 0,
	};

	if (root != NULL) {
		root->vruntime = sched_policy_wake(
		        root->vruntime, q->min_vruntime, us_to_tsc(SCHED_SLICE_US));
		view.root_vruntime = root->vruntime;
	}
	return view;
}

struct vcpu *sched_next(void)
{
	struct run_queue *q = this_queue();
	bool root_wants = percpu()->root != NULL && root_wants_cpu();
	bool root_interrupt = root_wants && root_has_interrupt();
	struct sched_view view;
	struct vcpu *v = NULL;

	spin_lock(&q->lock);
	view = view_of(q, root_wants, root_interrupt);
	switch (sched_policy_pick(&view)) {
	case SCHED_ROOT: v = percpu()->root; break;
	case SCHED_VM:
		v = q->ready;
		q->ready = v->queue_next;
		break;
	case SCHED_NOBODY: __atomic_store_n(&q->idle, 1u, __ATOMIC_SEQ_CST); break;
	}
	if (v != NULL) {
		v->state = VCPU_RUNNING;
		advance_min(q, v->vruntime);
	}
	spin_unlock(&q->lock);
	if (v == NULL)
		v = steal(q);
	if (v == NULL)
		return NULL;
	__atomic_store_n(&q->idle, 0u, __ATOMIC_RELEASE);
	v->slice_start_tsc = tsc_now();
	v->spins.count = 0;
	spin_lock(&q->lock);
	q->current = v;
	spin_unlock(&q->lock);
	return v;
}

uint64_t sched_slice_end(struct vcpu *v)
{
	struct run_queue *q = this_queue();
	uint64_t slice = us_to_tsc(SCHED_SLICE_US), floor = us_to_tsc(SCHED_FLOOR_US), ticks;
	bool is_root = v->root != NULL;
	bool root_wants = !is_root && percpu()->root != NULL && root_wants_cpu();
	struct sched_view view;
	uint64_t least;

	spin_lock(&q->lock);
	view = view_of(q, root_wants, false);
	spin_unlock(&q->lock);
	least = view.vm_vruntime;
	if (root_wants && (!view.vm_waits || sched_is_before(view.root_vruntime, least)))
		least = view.root_vruntime;
	if (!view.vm_waits)
		v->spins.count = 0; /* who comes later did not wait for that */
	if (sched_has_spun(&v->spins))
		slice = floor = 0;
	ticks = sched_policy_slice(v->vruntime, view.vm_waits || root_wants, least, slice, floor);
	/* An idle CPU can have who waits here, as soon as root turns out to need more than a
	 * moment. */
	if (is_root && view.vm_waits && ticks > floor && any_idle())
		ticks = floor;
	return ticks == UINT64_MAX ? UINT64_MAX : v->slice_start_tsc + ticks;
}

bool sched_is_contended(void)
{
	return __atomic_load_n(&this_queue()->ready, __ATOMIC_RELAXED) != NULL;
}

void sched_spin(struct vcpu *v)
{
	sched_policy_spin(&v->spins, tsc_now(), us_to_tsc(SCHED_SPIN_GAP_US));
}

/* Needs: lock. */
static void charge(struct run_queue *q, struct vcpu *v)
{
	uint64_t ran = tsc_now() - v->slice_start_tsc;
	uint32_t weight = v->root != NULL ? SCHED_ROOT_WEIGHT : v->vm->vm->weight;

	v->vruntime += sched_policy_charge(ran, weight);
	/* For other vCPUs alone: root serves, and is no lock's holder. */
	if (sched_has_spun(&v->spins) && q->ready != NULL)
		v->vruntime = sched_policy_make_way(
		        v->vruntime, q->ready->vruntime, us_to_tsc(SCHED_SLICE_US));
}

/* Needs: lock. */
static void put_vm(struct run_queue *q, struct vcpu *v, enum vcpu_state state)
{
	bool look = __atomic_load_n(&v->look, __ATOMIC_SEQ_CST) != 0;

	if ((state == VCPU_HALTED || state == VCPU_WAIT_SIPI) && look)
		state = VCPU_READY;
	if (state == VCPU_READY) {
		insert_ready(q, v);
		return;
	}
	v->state = state;
	if (state == VCPU_HALTED) {
		v->queue_next = q->halted;
		q->halted = v;
		lower_deadline(q, v->vm->timer_tsc);
	}
}

void sched_put(struct vcpu *v, enum vcpu_state state)
{
	struct run_queue *q = this_queue(), *idle = NULL;
	bool waits;

	if (state == VCPU_HALTED && v->vm != NULL)
		v->vm->timer_tsc = vm_host_tsc(
		        v->vm->vm, platform_vcpu_deadline(v->vm->vm->platform, v->index));
	spin_lock(&q->lock);
	hyp_assert(v->state == VCPU_RUNNING && q->current == v);
	charge(q, v);
	q->current = NULL;
	waits = q->ready != NULL;
	if (v->vm != NULL)
		put_vm(q, v, state);
	else
		v->state = state;
	spin_unlock(&q->lock);
	/* Who waited while v ran may go elsewhere: its registers are in memory. */
	if (waits && state == VCPU_READY)
		idle = claim_idle(q);
	if (idle != NULL)
		kick_queue(idle);
}

/* ---- waking, from any CPU ---- */

static bool is_pinned(const struct vcpu *v)
{
	return v->vm->vm->flags & KEEL_VM_PINNED;
}

/*
 * v, which is in no list, becomes READY on its own CPU, or on an idle one if its own is busy.
 * Needs: the lock of its queue; lets go of it.
 */
static void make_ready(struct run_queue *q, struct vcpu *v)
{
	struct run_queue *to = q;

	v->vruntime = sched_policy_wake(v->vruntime, q->min_vruntime, us_to_tsc(SCHED_SLICE_US));
	if (__atomic_exchange_n(&q->idle, 0u, __ATOMIC_ACQ_REL) == 0 && !is_pinned(v) &&
	        !is_held(v)) {
		struct run_queue *idle = claim_idle(q);

		if (idle != NULL)
			to = idle;
	}
	if (to != q) {
		/* On its way it is in no list, as a RUNNING one: others only set its look. */
		v->state = VCPU_RUNNING;
		move_home(q, to, v);
		spin_unlock(&q->lock);
		spin_lock(&to->lock);
	}
	insert_ready(to, v);
	spin_unlock(&to->lock);
	kick_queue(to);
}

static bool wake(struct vcpu *v, bool parked)
{
	struct run_queue *q = lock_queue_of(v);
	enum vcpu_state state = v->state;

	if (parked ? state == VCPU_EXIT : state == VCPU_HALTED || state == VCPU_WAIT_SIPI) {
		if (state == VCPU_HALTED)
			unlink(&q->halted, v);
		make_ready(q, v);
		return true;
	}
	spin_unlock(&q->lock);
	if (state == VCPU_RUNNING)
		kick_queue(q);
	return false;
}

void sched_wake(struct vcpu *v)
{
	__atomic_store_n(&v->look, 1u, __ATOMIC_SEQ_CST);
	if (v->root != NULL)
		kick_queue(&queues[v->cpu]);
	else
		wake(v, false);
}

bool sched_unpark(struct vcpu *v)
{
	return wake(v, true);
}

bool sched_pause(struct vcpu *v)
{
	struct run_queue *q;
	bool paused = false;

	__atomic_store_n(&v->look, 1u, __ATOMIC_SEQ_CST);
	q = lock_queue_of(v);
	if (v->state == VCPU_PAUSED) {
		paused = true;
	} else if (v->state != VCPU_RUNNING) {
		if (v->state == VCPU_READY)
			unlink(&q->ready, v);
		else if (v->state == VCPU_HALTED)
			unlink(&q->halted, v);
		paused = !is_held(v);
		if (paused)
			v->state = VCPU_PAUSED;
		else
			insert_ready(q, v); /* its CPU has to save its registers: vm_run does */
	}
	spin_unlock(&q->lock);
	if (!paused)
		kick_queue(q);
	return paused;
}

void sched_resume(struct vcpu *v, bool parked)
{
	struct run_queue *q = lock_queue_of(v);

	if (v->state != VCPU_PAUSED || parked) {
		if (v->state == VCPU_PAUSED)
			v->state = VCPU_EXIT;
		spin_unlock(&q->lock);
		return;
	}
	make_ready(q, v);
}

/* A pinned VM's vCPUs have no CPU in common (there are no more of them than CPUs). Needs: v's
 * elders were added. */
static bool may_have(const struct vcpu *v, uint32_t cpu)
{
	for (uint32_t i = 0; is_pinned(v) && i < v->index; i++)
		if (vm_vcpu(v->vm->vm, i)->cpu == cpu)
			return false;
	return true;
}

static uint32_t assigned_to(uint32_t cpu)
{
	return __atomic_load_n(&queues[cpu].assigned, __ATOMIC_RELAXED);
}

void sched_add(struct vcpu *v)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < cpu_count; i++)
		if (may_have(v, i) && (best == UINT32_MAX || assigned_to(i) < assigned_to(best)))
			best = i;
	hyp_assert(best != UINT32_MAX);
	v->state = VCPU_PAUSED;
	v->cpu = best;
	__atomic_add_fetch(&queues[best].assigned, 1, __ATOMIC_RELAXED);
}

void sched_remove(struct vcpu *v)
{
	hyp_assert(v->state == VCPU_PAUSED);
	__atomic_sub_fetch(&queues[v->cpu].assigned, 1, __ATOMIC_RELAXED);
}

/* ---- timers ---- */

void sched_vm_start(struct vm *vm)
{
	struct run_queue *q = &queues[vm->home_cpu];

	spin_lock(&q->lock);
	if (!vm->homed) {
		vm->homed = true;
		vm->home_next = q->homes;
		q->homes = vm;
		vm->shared_timer_tsc = 0; /* due: they are looked at at once */
		lower_deadline(q, 0);
	}
	spin_unlock(&q->lock);
	kick_queue(q);
}

void sched_vm_stop(struct vm *vm)
{
	struct run_queue *q = &queues[vm->home_cpu];
	struct vm **link = &q->homes;

	spin_lock(&q->lock);
	if (vm->homed) {
		while (*link != vm)
			link = &(*link)->home_next;
		*link = vm->home_next;
		vm->homed = false;
	}
	spin_unlock(&q->lock);
}

void sched_vm_timer(struct vm *vm)
{
	struct run_queue *q = &queues[vm->home_cpu];
	uint64_t due = vm_host_tsc(vm, platform_shared_deadline(vm->platform));
	bool earlier;

	if (due >= __atomic_load_n(&vm->shared_timer_tsc, __ATOMIC_RELAXED))
		return;
	spin_lock(&q->lock);
	__atomic_store_n(&vm->shared_timer_tsc, due, __ATOMIC_RELAXED);
	earlier = vm->homed && due < q->timer_deadline;
	if (earlier)
		lower_deadline(q, due);
	spin_unlock(&q->lock);
	if (earlier)
		kick_queue(q);
}

uint64_t sched_timer_deadline(void)
{
	uint64_t timers = __atomic_load_n(&this_queue()->timer_deadline, __ATOMIC_RELAXED);
	uint64_t watch = root_restart_watch_tsc();

	return timers < watch ? timers : watch;
}

/* Takes the halted vCPUs that are due to the queue. They run their own timers. Needs: lock. */
static void wake_due(struct run_queue *q, uint64_t now)
{
	struct vcpu **link = &q->halted, *v;

	while ((v = *link) != NULL) {
		if (v->vm->timer_tsc > now) {
			link = &v->queue_next;
			continue;
		}
		*link = v->queue_next;
		v->vruntime = sched_policy_wake(
		        v->vruntime, q->min_vruntime, us_to_tsc(SCHED_SLICE_US));
		insert_ready(q, v);
	}
}

/* The VMs whose devices are due, kept alive by `inside`. Needs: lock. */
static unsigned collect_due(struct run_queue *q, uint64_t now, struct vm *due[KEEL_MAX_VMS])
{
	unsigned n = 0;

	for (struct vm *vm = q->homes; vm != NULL; vm = vm->home_next) {
		if (vm->shared_timer_tsc > now)
			continue;
		__atomic_store_n(&vm->shared_timer_tsc, UINT64_MAX, __ATOMIC_RELAXED);
		__atomic_add_fetch(&vm->inside, 1, __ATOMIC_SEQ_CST);
		due[n++] = vm;
	}
	return n;
}

static void reckon_deadline(struct run_queue *q)
{
	uint64_t least = UINT64_MAX;

	for (const struct vcpu *v = q->halted; v != NULL; v = v->queue_next)
		if (v->vm->timer_tsc < least)
			least = v->vm->timer_tsc;
	for (const struct vm *vm = q->homes; vm != NULL; vm = vm->home_next)
		if (vm->shared_timer_tsc < least)
			least = vm->shared_timer_tsc;
	__atomic_store_n(&q->timer_deadline, least, __ATOMIC_RELAXED);
}

void sched_run_timers(void)
{
	struct run_queue *q = this_queue();
	struct vm *due[KEEL_MAX_VMS];
	uint64_t now = tsc_now();
	unsigned n;

	if (sched_timer_deadline() > now)
		return;
	root_restart_watch();
	spin_lock(&q->lock);
	wake_due(q, now);
	n = collect_due(q, now, due);
	reckon_deadline(q);
	spin_unlock(&q->lock);
	for (unsigned i = 0; i < n; i++) {
		platform_run_shared_timers(due[i]->platform, vm_now(due[i], now));
		sched_vm_timer(due[i]);
		__atomic_sub_fetch(&due[i]->inside, 1, __ATOMIC_SEQ_CST);
	}
}
