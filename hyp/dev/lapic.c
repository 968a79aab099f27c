/* SPDX-License-Identifier: BSD-2-Clause */
/* The LAPIC's registers: by MMIO (xAPIC), by MSR (x2APIC), IA32_APIC_BASE, and what INIT and
 * power-on leave in them. */
#include "hw/msr.h"
#include "hyp/dev/lapic.h"
#include "hyp/dev/platform_state.h"

#define REGISTERS 0x40u
#define VERSION   0x01050014u /* integrated, 6 LVT entries, EOI broadcast can be suppressed */

#define BASE_BSP    ((uint64_t)APIC_BASE_BSP)
#define BASE_X2APIC ((uint64_t)APIC_BASE_X2APIC)
#define BASE_ENABLE ((uint64_t)APIC_BASE_ENABLE)
/* Bits 0-7 and 9; also those above the VM's physical address width. */
#define BASE_RESERVED 0x2ffull

#define LVT_RESET APIC_LVT_MASKED

/* What x2APIC allows with each register, and which bits a write may set; a hole is #GP (SDM vol. 3
 * table 10-6). */
struct register_rule {
	bool readable;
	bool writable;
	uint32_t bits;
};

#define LVT_COMMON (APIC_LVT_VECTOR_MASK | APIC_LVT_PENDING | APIC_LVT_MASKED)
#define LVT_LOCAL  (LVT_COMMON | APIC_DELIVERY_MASK)
#define LVT_PIN    (LVT_LOCAL | APIC_LVT_ACTIVE_LOW | APIC_LVT_REMOTE_IRR | APIC_LVT_LEVEL)
#define LVT_TIMER  (LVT_COMMON | APIC_LVT_TIMER_PERIODIC | APIC_LVT_TIMER_TSC_DEADLINE)
#define SVR_BITS   (0xffu | APIC_SVR_ENABLE | 0x200u | APIC_SVR_EOI_NO_BROADCAST)
#define READ_ONLY                                                                                  \
	{                                                                                          \
		true, false, 0                                                                     \
	}

static const struct register_rule x2apic_rules[REGISTERS] = {
        [APIC_REG_ID] = READ_ONLY,
        [APIC_REG_VERSION] = READ_ONLY,
        [APIC_REG_TPR] = {true, true, 0xff},
        [APIC_REG_PPR] = READ_ONLY,
        [APIC_REG_EOI] = {false, true, 0},
        [APIC_REG_LDR] = READ_ONLY,
        [APIC_REG_SVR] = {true, true, SVR_BITS},
        [APIC_REG_ISR... APIC_REG_IRR + 7] = READ_ONLY,
        [APIC_REG_ESR] = {true, true, 0},
        [APIC_REG_ICR] = {true, true, 0},
        [APIC_REG_LVT_TIMER] = {true, true, LVT_TIMER},
        [APIC_REG_LVT_THERMAL... APIC_REG_LVT_PERF] = {true, true, LVT_LOCAL},
        [APIC_REG_LVT_LINT0... APIC_REG_LVT_LINT1] = {true, true, LVT_PIN},
        [APIC_REG_LVT_ERROR] = {true, true, LVT_COMMON},
        [APIC_REG_TIMER_INITIAL] = {true, true, UINT32_MAX},
        [APIC_REG_TIMER_CURRENT] = READ_ONLY,
        [APIC_REG_TIMER_DIVIDE] = {true, true, 0xb},
        [APIC_REG_SELF_IPI] = {false, true, 0xff},
};

static void set_x2apic_ldr(struct lapic *l)
{
	LAPIC_STORE(l->ldr, (l->id >> 4) << 16 | 1u << (l->id & 15));
}

/* SDM vol. 3 §10.4.7.1 and .3: the same for power-on, INIT and disabling in IA32_APIC_BASE. */
static void reset_registers(struct lapic *l)
{
	for (unsigned i = 0; i < 4; i++) {
		LAPIC_STORE(l->irr[i], 0);
		LAPIC_STORE(l->tmr[i], 0);
		LAPIC_STORE(l->isr[i], 0);
	}
	LAPIC_STORE(l->esr_pending, 0);
	LAPIC_STORE(l->svr, 0xff);
	LAPIC_STORE(l->dfr, UINT32_MAX);
	LAPIC_STORE(l->ldr, 0);
	LAPIC_STORE(l->tpr, 0);
	for (unsigned i = 0; i < LAPIC_LVT_COUNT; i++)
		LAPIC_STORE(l->lvt[i], LVT_RESET);
	LAPIC_STORE(l->deadline, PLATFORM_NEVER);
	l->esr = 0;
	l->icr_low = 0;
	l->icr_high = 0;
	l->timer_initial = 0;
	l->timer_divide = 0;
	l->timer_start = 0;
	l->timer_tsc = 0;
	l->timer_armed = false;
	if (lapic_is_x2apic(l))
		set_x2apic_ldr(l);
}

/* SDM vol. 3 §10.12.5.1: INIT leaves the mode and the id. Interrupts that come while this runs may
 * be lost, as on the way to a CPU. */
void lapic_init(struct lapic *l)
{
	reset_registers(l);
	l->wait_sipi = l->id != 0;
}

/*
 * Power-on. The boot vCPU's pins are in virtual wire mode (MP specification 1.4 §3.6.2.2), as
 * firmware leaves them for the OS, since a kernel that is booted directly has had no firmware.
 */
void lapic_reset(struct lapic *l, uint32_t id)
{
	l->id = id;
	LAPIC_STORE(l->base, APIC_BASE_DEFAULT | BASE_ENABLE | (id == 0 ? BASE_BSP : 0));
	LAPIC_STORE(l->events, 0);
	reset_registers(l);
	l->wait_sipi = id != 0;
	if (id == 0) {
		LAPIC_STORE(l->lvt[LAPIC_LVT_LINT0], APIC_DELIVERY_EXTINT);
		LAPIC_STORE(l->lvt[LAPIC_LVT_LINT1], APIC_DELIVERY_NMI);
	}
}

static void send(
        struct platform *p, struct lapic *l, uint32_t low, uint32_t dest, uint32_t broadcast)
{
	struct lapic_message m = {
	        .dest = dest,
	        .broadcast = broadcast,
	        .delivery = low & APIC_DELIVERY_MASK,
	        .vector = (uint8_t)low,
	        .logical = (low & APIC_ICR_LOGICAL) != 0,
	};
	uint64_t fresh = 0, self = 1ull << l->id;

	if (m.delivery <= APIC_DELIVERY_LOWEST && m.vector < 16) {
		lapic_error(l, LAPIC_ESR_SEND_ILLEGAL);
		return;
	}
	/* INIT level de-assert is of the 82489DX; here it does nothing (SDM vol. 3 §10.6.1). */
	if (m.delivery == APIC_DELIVERY_INIT &&
	        (low & (APIC_ICR_ASSERT | APIC_ICR_LEVEL)) == APIC_ICR_LEVEL)
		return;
	switch (low & APIC_ICR_SHORTHAND_MASK) {
	case APIC_ICR_SELF: lapic_deliver_to(p, lapic_is_on(l) ? self : 0, &m, &fresh); break;
	case APIC_ICR_ALL: lapic_deliver_to(p, lapic_all(p), &m, &fresh); break;
	case APIC_ICR_OTHERS: lapic_deliver_to(p, lapic_all(p) & ~self, &m, &fresh); break;
	default: lapic_deliver(p, &m, &fresh); break;
	}
	platform_notify(p, fresh, l->id);
}

static void write_eoi(struct platform *p, struct lapic *l, uint64_t now)
{
	int vector = lapic_end(l);

	if (vector < 0 || !lapic_is_level(l, (unsigned)vector) ||
	        (l->svr & APIC_SVR_EOI_NO_BROADCAST) != 0)
		return;
	platform_lock(p);
	ioapic_eoi(p, (uint8_t)vector, now);
	platform_unlock(p, l->id);
}

/* SDM vol. 3 §10.4.7.2: while disabled every LVT entry is masked; what was accepted before stays.
 */
static void write_svr(struct platform *p, struct lapic *l, uint32_t value, uint64_t now)
{
	bool was_on = (l->svr & APIC_SVR_ENABLE) != 0;

	LAPIC_STORE(l->svr, value & SVR_BITS);
	if ((value & APIC_SVR_ENABLE) == 0) {
		for (unsigned i = 0; i < LAPIC_LVT_COUNT; i++)
			LAPIC_STORE(l->lvt[i], l->lvt[i] | APIC_LVT_MASKED);
		lapic_timer_rearm(p, l, now);
	} else if (!was_on) {
		platform_lock(p);
		ioapic_retry(p);
		platform_unlock(p, l->id);
	}
}

static void write_lvt(
        struct platform *p, struct lapic *l, unsigned reg, uint32_t value, uint64_t now)
{
	unsigned which = reg - APIC_REG_LVT_TIMER;

	value &= x2apic_rules[reg].bits & ~(APIC_LVT_PENDING | APIC_LVT_REMOTE_IRR);
	if ((l->svr & APIC_SVR_ENABLE) == 0)
		value |= APIC_LVT_MASKED;
	if (reg == APIC_REG_LVT_TIMER)
		lapic_timer_write_lvt(p, l, value, now);
	else
		LAPIC_STORE(l->lvt[which], value);
}

/* False: there is no such register, or it cannot be read. */
static bool read_register(
        struct platform *p, struct lapic *l, unsigned reg, uint32_t *value, uint64_t now)
{
	const uint64_t *bits;

	switch (reg) {
	case APIC_REG_ID: *value = lapic_is_x2apic(l) ? l->id : l->id << 24; return true;
	case APIC_REG_VERSION: *value = VERSION; return true;
	case APIC_REG_TPR: *value = l->tpr; return true;
	case APIC_REG_APR:
	case APIC_REG_RRD:
		*value = 0;
		return true; /* the APIC bus of old: nothing arbitrates there */
	case APIC_REG_PPR: *value = lapic_ppr(l); return true;
	case APIC_REG_LDR: *value = l->ldr; return true;
	case APIC_REG_DFR: *value = l->dfr; return true;
	case APIC_REG_SVR: *value = l->svr; return true;
	case APIC_REG_ISR ... APIC_REG_IRR + 7:
		bits = reg < APIC_REG_TMR ? l->isr : reg < APIC_REG_IRR ? l->tmr : l->irr;
		*value = (uint32_t)(LAPIC_LOAD(bits[(reg & 7) >> 1]) >> (reg & 1) * 32);
		return true;
	case APIC_REG_ESR: *value = l->esr; return true;
	case APIC_REG_ICR: *value = l->icr_low; return true;
	case APIC_REG_ICR_HIGH: *value = l->icr_high; return true;
	case APIC_REG_LVT_TIMER ... APIC_REG_LVT_ERROR:
		*value = l->lvt[reg - APIC_REG_LVT_TIMER];
		return true;
	case APIC_REG_TIMER_INITIAL: *value = l->timer_initial; return true;
	case APIC_REG_TIMER_CURRENT: *value = lapic_timer_current(p, l, now); return true;
	case APIC_REG_TIMER_DIVIDE: *value = l->timer_divide; return true;
	default: return false;
	}
}

/* False: there is no such register, or it cannot be written. */
static bool write_register(
        struct platform *p, struct lapic *l, unsigned reg, uint32_t value, uint64_t now)
{
	switch (reg) {
	case APIC_REG_TPR: LAPIC_STORE(l->tpr, value & 0xff); return true;
	case APIC_REG_EOI: write_eoi(p, l, now); return true;
	case APIC_REG_LDR: LAPIC_STORE(l->ldr, value & 0xff000000); return true;
	case APIC_REG_DFR: LAPIC_STORE(l->dfr, value | 0x0fffffff); return true;
	case APIC_REG_SVR: write_svr(p, l, value, now); return true;
	case APIC_REG_ESR:
		l->esr = __atomic_exchange_n(&l->esr_pending, 0, __ATOMIC_RELAXED);
		return true;
	case APIC_REG_ICR:
		l->icr_low = value & ~APIC_ICR_BUSY;
		send(p, l, l->icr_low, l->icr_high >> 24, 0xff);
		return true;
	case APIC_REG_ICR_HIGH: l->icr_high = value & 0xff000000; return true;
	case APIC_REG_LVT_TIMER ... APIC_REG_LVT_ERROR:
		write_lvt(p, l, reg, value, now);
		return true;
	case APIC_REG_TIMER_INITIAL: lapic_timer_write_initial(p, l, value, now); return true;
	case APIC_REG_TIMER_DIVIDE: lapic_timer_write_divide(p, l, value, now); return true;
	default: return false;
	}
}

/* SDM vol. 3 §10.4.1: aligned 32-bit accesses; others are undefined. Here narrow reads give their
 * bytes, other writes do nothing. */
bool lapic_mmio(struct platform *p, unsigned vcpu, uint32_t offset, unsigned size, bool write,
        uint64_t *value, uint64_t now)
{
	struct lapic *l = &p->lapic[vcpu];
	unsigned reg = offset >> 4 & (REGISTERS - 1), byte = offset & 15;
	uint32_t data = 0;
	bool known = offset >> 4 < REGISTERS;

	if (write) {
		if (byte == 0 && size == 4 &&
		        !(known && write_register(p, l, reg, (uint32_t)*value, now)))
			lapic_error(l, LAPIC_ESR_REGISTER);
		return true;
	}
	if (!known || !read_register(p, l, reg, &data, now)) {
		if (byte == 0 && reg != APIC_REG_EOI)
			lapic_error(l, LAPIC_ESR_REGISTER);
	}
	*value = byte < 4 ? data >> byte * 8 : 0;
	return true;
}

static enum platform_msr_result write_base(
        struct platform *p, struct lapic *l, uint64_t value, uint64_t now)
{
	uint64_t old = l->base, mode = value & (BASE_ENABLE | BASE_X2APIC);
	uint64_t old_mode = old & (BASE_ENABLE | BASE_X2APIC);

	if ((value & BASE_RESERVED) != 0 || value >> p->phys_bits != 0 || mode == BASE_X2APIC)
		return PLATFORM_MSR_GP;
	/* SDM vol. 3 §10.12.5, figure 10-27: x2APIC is entered from xAPIC only and left to disabled
	 * only. */
	if ((old_mode == (BASE_ENABLE | BASE_X2APIC) && mode == BASE_ENABLE) ||
	        (old_mode == 0 && mode == (BASE_ENABLE | BASE_X2APIC)))
		return PLATFORM_MSR_GP;
	/* Which CPU booted is a fact of the machine. */
	LAPIC_STORE(l->base, (value & ~BASE_BSP) | (old & BASE_BSP));
	if (mode == 0 && old_mode != 0) {
		reset_registers(l);
	} else if (mode == (BASE_ENABLE | BASE_X2APIC) && old_mode == BASE_ENABLE) {
		set_x2apic_ldr(l);
		l->icr_high = 0;
	}
	lapic_timer_rearm(p, l, now);
	return PLATFORM_MSR_OK;
}

enum platform_msr_result lapic_rdmsr(
        struct platform *p, unsigned vcpu, uint32_t msr, uint64_t *value, uint64_t now)
{
	struct lapic *l = &p->lapic[vcpu];
	unsigned reg = msr - MSR_X2APIC_BASE;
	uint32_t data;

	if (msr == MSR_APIC_BASE) {
		*value = l->base;
		return PLATFORM_MSR_OK;
	}
	if (msr == MSR_TSC_DEADLINE) {
		*value = lapic_timer_read_tsc(l, now);
		return PLATFORM_MSR_OK;
	}
	if (!lapic_is_x2apic(l) || reg >= REGISTERS || !x2apic_rules[reg].readable ||
	        !read_register(p, l, reg, &data, now))
		return PLATFORM_MSR_GP;
	*value = data;
	if (reg == APIC_REG_ICR)
		*value |= (uint64_t)l->icr_high << 32;
	return PLATFORM_MSR_OK;
}

/* Reserved bits of ICR in x2APIC mode; the busy bit is gone but old software writes it. */
#define X2APIC_ICR_RESERVED 0xfff32000u

static enum platform_msr_result write_x2apic(
        struct platform *p, struct lapic *l, unsigned reg, uint64_t value, uint64_t now)
{
	const struct register_rule *rule = &x2apic_rules[reg];

	if (reg == APIC_REG_ICR) {
		if ((value & X2APIC_ICR_RESERVED) != 0)
			return PLATFORM_MSR_GP;
		l->icr_low = (uint32_t)value & ~APIC_ICR_BUSY;
		l->icr_high = (uint32_t)(value >> 32);
		send(p, l, l->icr_low, l->icr_high, UINT32_MAX);
		return PLATFORM_MSR_OK;
	}
	if (!rule->writable || (value & ~(uint64_t)rule->bits) != 0)
		return PLATFORM_MSR_GP;
	if (reg == APIC_REG_SELF_IPI)
		send(p, l, APIC_ICR_SELF | (uint32_t)value, 0, UINT32_MAX);
	else
		write_register(p, l, reg, (uint32_t)value, now);
	return PLATFORM_MSR_OK;
}

enum platform_msr_result lapic_wrmsr(
        struct platform *p, unsigned vcpu, uint32_t msr, uint64_t value, uint64_t now)
{
	struct lapic *l = &p->lapic[vcpu];
	unsigned reg = msr - MSR_X2APIC_BASE;

	if (msr == MSR_TSC_DEADLINE) {
		lapic_timer_write_tsc(p, l, value, now);
		return PLATFORM_MSR_OK;
	}
	if (msr == MSR_APIC_BASE)
		return write_base(p, l, value, now);
	if (!lapic_is_x2apic(l) || reg >= REGISTERS)
		return PLATFORM_MSR_GP;
	return write_x2apic(p, l, reg, value, now);
}
