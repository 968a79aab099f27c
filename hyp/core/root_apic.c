/* SPDX-License-Identifier: BSD-2-Clause */
/* Root's use of the real local APIC, as far as hyp stands in between: the timer that both share,
 * and ICR. */

#include "hyp/core/root.h"
#include "hyp/core/root_vcpu.h"
#include "hyp/core/run.h"
#include "hw/apic.h"
#include "hw/msr.h"
#include "hyp/x86/x86.h"
#include "lib/muldiv.h"
#include "lib/string.h"

#define NEVER UINT64_MAX

struct root_vcpu *root_this(void)
{
	return percpu()->root->root;
}

void root_apic_init(struct root_vcpu *r)
{
	r->lvt_timer = APIC_LVT_MASKED;
	r->deadline_tsc = NEVER;
	r->hyp_deadline_tsc = NEVER;
	r->armed_tsc = NEVER;
	r->armed = false; /* whatever an earlier root left in the hardware */
	r->apic_off = false;
}

static unsigned divider(uint32_t divide)
{
	unsigned code = (divide & 3) | ((divide >> 1) & 4);

	return code == 7 ? 1 : 2u << code;
}

static uint64_t count_to_tsc(const struct root_vcpu *r, uint64_t count)
{
	return muldiv_u64(count * divider(r->divide), tsc_hz, apic_timer_hz);
}

static bool masked(const struct root_vcpu *r)
{
	return r->lvt_timer & APIC_LVT_MASKED;
}

static bool periodic(const struct root_vcpu *r)
{
	return (r->lvt_timer & (3u << 17)) == APIC_LVT_TIMER_PERIODIC;
}

static bool deadline_mode(const struct root_vcpu *r)
{
	return (r->lvt_timer & (3u << 17)) == APIC_LVT_TIMER_TSC_DEADLINE;
}

/* Root's expiry is over: the next one of a periodic timer (missed ones are dropped, as the
 * hardware's IRR would), or none. */
static void timer_advance(struct root_vcpu *r, uint64_t now)
{
	uint64_t period = count_to_tsc(r, r->initial_count);

	if (!periodic(r) || period == 0) {
		r->deadline_tsc = NEVER;
		return;
	}
	r->deadline_tsc += period * ((now - r->deadline_tsc) / period + 1);
}

static void timer_hardware(struct root_vcpu *r, uint64_t deadline, uint8_t vector)
{
	if (r->armed && r->armed_tsc == deadline && r->armed_vector == vector)
		return;
	if (deadline == NEVER)
		apic_timer_stop();
	else
		apic_timer_arm(deadline, vector);
	r->armed = true;
	r->armed_tsc = deadline;
	r->armed_vector = vector;
}

/*
 * Root's timer interrupt is on its way already: pending in the APIC, or acknowledged by hyp on
 * root's behalf. In service says nothing: where hyp acknowledged a higher vector meanwhile, root's
 * EOI for the timer has ended that one, and the timer's bit stays until root ends the other.
 */
static bool timer_is_pending(const struct root_vcpu *r)
{
	uint32_t vector = r->lvt_timer & APIC_LVT_VECTOR_MASK;

	return (apic_read(APIC_REG_IRR + vector / 32) & (1u << (vector % 32))) ||
	       ((percpu()->pending_for_root[vector / 64] | percpu()->put_off[vector / 64]) >>
	               (vector % 64)) &
	               1;
}

/*
 * The deadline has passed. Where the hardware was armed with root's vector it may have sent it, or
 * be just about to: its count says 0 a moment before the interrupt is raised. Arming it anew would
 * lose the interrupt in that moment, so unless it can be seen hyp sends the vector itself. At worst
 * root gets it twice, which a timer's handler bears.
 */
void root_timer_check(void)
{
	struct root_vcpu *r = root_this();
	uint64_t now = tsc_now();

	if (now < r->deadline_tsc)
		return;
	if (!masked(r) && !timer_is_pending(r))
		apic_icr_write(APIC_ICR_SELF | (r->lvt_timer & APIC_LVT_VECTOR_MASK));
	if (r->armed_vector != HYP_TIMER_VECTOR)
		r->armed = false;
	timer_advance(r, now);
}

/* Physical interrupts end root's run from here on. */
static void hold_interrupts(struct root_vcpu *r)
{
	if (r->interrupts_held)
		return;
	r->interrupts_held = true;
	cpu_trap(percpu()->root->cpu_state, CPU_TRAP_INTR, true);
}

static void timer_program(struct root_vcpu *r)
{
	uint64_t root_deadline;

	root_timer_check();
	root_deadline = masked(r) ? NEVER : r->deadline_tsc;
	if (r->hyp_deadline_tsc != NEVER || periodic(r)) {
		hold_interrupts(r);
		timer_hardware(r,
		        root_deadline < r->hyp_deadline_tsc ? root_deadline : r->hyp_deadline_tsc,
		        HYP_TIMER_VECTOR);
		return;
	}
	timer_hardware(r, root_deadline, (uint8_t)r->lvt_timer);
}

/*
 * Without a deadline of hyp's, physical interrupts go straight to root, once our own vector is out
 * of the APIC. It may be pending still: it is taken now, or, behind a vector of its class that root
 * has not ended yet, it stays and the next entry tries again. (Root would take it for a spurious
 * interrupt, which gets no EOI, and never have another.)
 */
bool root_interrupts_let_go(void)
{
	struct percpu *cpu = percpu();
	struct root_vcpu *r = cpu->root->root;
	uint64_t before[8];
	bool kicked;

	if (!r->interrupts_held || r->armed_vector == HYP_TIMER_VECTOR)
		return true;
	memcpy(before, cpu->pending_for_root, sizeof(cpu->pending_for_root));
	memcpy(before + 4, cpu->put_off, sizeof(cpu->put_off));
	kicked = interrupts_sort();
	cpu->timer_fired = 0;
	if (!(apic_read(APIC_REG_IRR + HYP_TIMER_VECTOR / 32) & (1u << HYP_TIMER_VECTOR % 32))) {
		r->interrupts_held = false;
		cpu_trap(cpu->root->cpu_state, CPU_TRAP_INTR, false);
	}
	return !kicked &&
	       memcmp(before, cpu->pending_for_root, sizeof(cpu->pending_for_root)) == 0 &&
	       memcmp(before + 4, cpu->put_off, sizeof(cpu->put_off)) == 0;
}

void timer_set_hyp_deadline(uint64_t host_tsc)
{
	struct root_vcpu *r = root_this();

	if (percpu()->timer_fired) {
		percpu()->timer_fired = 0;
		r->armed = false;
	}
	r->hyp_deadline_tsc = host_tsc;
	timer_program(r);
}

/* A CPU of root's by APIC id as the destination of an ICR message says. */
static bool destination_matches(const struct vcpu *target, uint64_t icr)
{
	uint32_t id = percpu_of(target->index)->apic_id;
	uint32_t dest = (uint32_t)(icr >> 32);

	if (icr & APIC_ICR_LOGICAL) {
		if (percpu()->x2apic)
			return (dest >> 16) == (id >> 4) && ((dest >> (id & 15)) & 1);
		return (target->root->ldr >> 24) & dest;
	}
	return dest == (percpu()->x2apic ? 0xffffffffu : 0xffu) || dest == id;
}

static bool message_is_for(const struct vcpu *target, uint64_t icr)
{
	bool self = target == percpu()->root;

	switch (icr & APIC_ICR_SHORTHAND_MASK) {
	case APIC_ICR_SELF: return self;
	case APIC_ICR_ALL: return true;
	case APIC_ICR_OTHERS: return !self;
	default: return destination_matches(target, icr);
	}
}

static void message_deliver(struct vcpu *target, uint64_t icr)
{
	struct root_vcpu *r = target->root;

	switch (icr & APIC_DELIVERY_MASK) {
	case APIC_DELIVERY_NMI: __atomic_store_n(&r->nmi_pending, 1, __ATOMIC_RELEASE); break;
	case APIC_DELIVERY_INIT:
		if ((icr & APIC_ICR_LEVEL) && !(icr & APIC_ICR_ASSERT))
			return; /* de-assert: nothing on any CPU since the P6 */
		__atomic_store_n(&r->sipi, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&r->init_pending, 1, __ATOMIC_RELEASE);
		break;
	case APIC_DELIVERY_SIPI:
		__atomic_store_n(&r->sipi, 0x100 | (uint32_t)(icr & 0xff), __ATOMIC_RELEASE);
		break;
	default: return;
	}
	__atomic_store_n(&target->look, 1, __ATOMIC_RELEASE);
	if (target != percpu()->root)
		cpu_kick(target->index);
}

/*
 * INIT would take the CPU from hyp (the emulator does so even with GIF 0), SIPI, NMI and SMI would
 * hit whatever runs there: hyp carries them itself. Fixed and lowest-priority messages go to the
 * hardware as they are. False: the caller writes it there, in x2APIC mode, where reserved bits are
 * #GP for root.
 */
static bool icr_write(uint64_t icr)
{
	switch (icr & APIC_DELIVERY_MASK) {
	case APIC_DELIVERY_FIXED:
	case APIC_DELIVERY_LOWEST:
		if (percpu()->x2apic)
			return false;
		apic_icr_write(icr);
		return true;
	case APIC_DELIVERY_NMI:
	case APIC_DELIVERY_INIT:
	case APIC_DELIVERY_SIPI: break;
	default:
		log_line("root: ICR message %llx is not carried", (unsigned long long)icr);
		return true;
	}
	for (unsigned i = 0; i < root_partition.vcpu_count; i++)
		if (message_is_for(&root_partition.vcpus[i], icr))
			message_deliver(&root_partition.vcpus[i], icr);
	return true;
}

static void timer_start(struct root_vcpu *r, uint32_t count)
{
	r->initial_count = count;
	r->start_tsc = tsc_now();
	r->deadline_tsc = count == 0 ? NEVER : r->start_tsc + count_to_tsc(r, count);
	r->armed = false;
	timer_program(r);
}

static uint32_t timer_current(const struct root_vcpu *r)
{
	uint64_t now = tsc_now();
	uint64_t left;

	if (deadline_mode(r) || r->deadline_tsc == NEVER || now >= r->deadline_tsc)
		return 0;
	left = muldiv_u64(r->deadline_tsc - now, apic_timer_hz, tsc_hz) / divider(r->divide);
	return left > r->initial_count ? r->initial_count : (uint32_t)left;
}

static void lvt_write(struct root_vcpu *r, uint32_t value)
{
	bool mode_changed = (r->lvt_timer ^ value) & (3u << 17);

	root_timer_check();
	r->lvt_timer = value;
	if (mode_changed && (deadline_mode(r) || r->deadline_tsc == NEVER))
		r->deadline_tsc = NEVER;
	r->armed = false;
	timer_program(r);
}

bool root_apic_read(struct vcpu *v, uint32_t reg, uint64_t *value)
{
	struct root_vcpu *r = v->root;

	switch (reg) {
	case APIC_REG_LVT_TIMER: *value = r->lvt_timer; return true;
	case APIC_REG_TIMER_INITIAL: *value = deadline_mode(r) ? 0 : r->initial_count; return true;
	case APIC_REG_TIMER_CURRENT: *value = timer_current(r); return true;
	case APIC_REG_TIMER_DIVIDE: *value = r->divide; return true;
	default: return false;
	}
}

bool root_apic_write(struct vcpu *v, uint32_t reg, uint64_t value)
{
	struct root_vcpu *r = v->root;

	switch (reg) {
	case APIC_REG_LVT_TIMER: lvt_write(r, (uint32_t)value); return true;
	case APIC_REG_TIMER_INITIAL:
		if (!deadline_mode(r))
			timer_start(r, (uint32_t)value);
		return true;
	case APIC_REG_TIMER_CURRENT: return true;
	case APIC_REG_TIMER_DIVIDE: r->divide = (uint32_t)value & 0xb; return true;
	case APIC_REG_ICR:
		if (!percpu()->x2apic)
			value = (value & 0xffffffffu) | ((uint64_t)(r->icr_high >> 24) << 32);
		return icr_write(value);
	/* An offline CPU of root's turns its APIC off; hyp's timer still needs it there. */
	case APIC_REG_SVR:
		if (value & APIC_SVR_ENABLE)
			return false;
		apic_write(APIC_REG_SVR, ((uint32_t)value & 0xff) | APIC_SVR_ENABLE);
		return true;
	case APIC_REG_ICR_HIGH: r->icr_high = (uint32_t)value; return false;
	case APIC_REG_LDR: r->ldr = (uint32_t)value; return false;
	default: return false;
	}
}

uint64_t root_apic_base_read(const struct vcpu *v)
{
	uint64_t value = msr_read(MSR_APIC_BASE);

	return v->root->apic_off ? value & ~(uint64_t)(APIC_BASE_ENABLE | APIC_BASE_X2APIC) : value;
}

/*
 * The mode may change (Linux goes back to xAPIC where nothing remaps interrupts); the address may
 * not, for hyp has its own use of the page. Off is only believed: hyp needs the APIC. On and the
 * modes follow each other as on the CPU (APM 24593 §16.9): x2APIC from xAPIC only, and from there
 * to off only.
 */
bool root_apic_base_write(struct vcpu *v, uint64_t value)
{
	const uint64_t modes = APIC_BASE_ENABLE | APIC_BASE_X2APIC;
	uint64_t old = root_apic_base_read(v) & modes, mode = value & modes;
	struct root_vcpu *r = v->root;

	if ((value & APIC_BASE_ADDRESS) != APIC_BASE_DEFAULT) {
		log_line("root: APIC_BASE %llx is refused: hyp needs the local APIC at fee00000h",
		        (unsigned long long)value);
		return false;
	}
	if ((value & ~(APIC_BASE_ADDRESS | APIC_BASE_BSP | modes)) || mode == APIC_BASE_X2APIC ||
	        (mode == modes && old == 0) || (old == modes && mode == APIC_BASE_ENABLE))
		return false;
	r->apic_off = mode == 0;
	if (mode == 0)
		return true;
	if (!apic_base_write(value))
		return false;
	/* What the change may have taken away: hyp's timer, and a kick. */
	r->armed = false;
	__atomic_store_n(&percpu()->kick_pending, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&v->look, 1, __ATOMIC_SEQ_CST);
	return true;
}

uint64_t root_tsc_deadline_read(struct vcpu *v)
{
	return deadline_mode(v->root) && v->root->deadline_tsc != NEVER ? v->root->deadline_tsc : 0;
}

void root_tsc_deadline_write(struct vcpu *v, uint64_t value)
{
	if (!deadline_mode(v->root))
		return;
	/* Where the hardware has root's vector it has sent it, or drops it now as it should; a
	 * check would send one more for each of root's ticks. */
	if (v->root->armed_vector == HYP_TIMER_VECTOR)
		root_timer_check();
	v->root->deadline_tsc = value == 0 ? NEVER : value;
	v->root->armed = false;
	timer_program(v->root);
}
