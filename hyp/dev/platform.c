/* SPDX-License-Identifier: BSD-2-Clause */
/* The VM's devices as visible lists: who answers which port, page and MSR, who is wired to which
 * pin, whose timer is next. */
#include "hw/msr.h"
#include "hyp/dev/platform_state.h"

/* 8-bit devices; wider accesses are split as the ISA bus does. NULL: reads ones, writes do nothing.
 */
struct port_range {
	uint16_t first;
	uint16_t last;
	uint8_t (*read)(struct platform *p, uint16_t port, uint64_t now);
	void (*write)(struct platform *p, uint16_t port, uint8_t value, uint64_t now);
};

static const struct port_range ports[] = {
        {PLATFORM_PM_TIMER_PORT, PLATFORM_PM_TIMER_PORT + 3, pmtimer_read, NULL},
        {0x3f8, 0x3ff, uart_read, uart_write},
        {0x20, 0x21, pic_read, pic_write},
        {0xa0, 0xa1, pic_read, pic_write},
        {0x40, 0x43, pit_read, pit_write},
        {0x61, 0x61, pit_read, pit_write},
        {0x70, 0x71, rtc_read, rtc_write},
        {0x80, 0x80, NULL, NULL}, /* POST codes, and how old software waits */
        {0xed, 0xed, NULL, NULL}, /* Linux's other port for that */
        {0x60, 0x60, kbc_read, kbc_write},
        {0x64, 0x64, kbc_read, kbc_write},
        {0x92, 0x92, reset_read, reset_write},
        {0x4d0, 0x4d1, pic_read, pic_write},
        {PLATFORM_RESET_PORT, PLATFORM_RESET_PORT, reset_read, reset_write},
};

static const struct port_range *find_port(uint32_t port)
{
	for (unsigned i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
		if (port >= ports[i].first && port <= ports[i].last)
			return &ports[i];
	return NULL;
}

static uint64_t size_mask(unsigned size)
{
	return size >= 8 ? UINT64_MAX : (1ull << size * 8) - 1;
}

void platform_lock(struct platform *p)
{
	spin_lock(&p->lock);
}

void platform_notify(struct platform *p, uint64_t mask, unsigned self)
{
	if (self < PLATFORM_MAX_VCPUS)
		mask &= ~(1ull << self);
	if (mask != 0)
		p->ops->notify(p->ctx, mask);
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void platform_unlock(struct platform *p, unsigned self)
{
	struct platform_work work = p->work;
	uint64_t deadline = earliest(p->pit.deadline, hpet_deadline(&p->hpet));

	deadline = earliest(deadline, earliest(p->rtc.deadline, p->uart.deadline));
	deadline = earliest(deadline, p->ioapic.deadline);
	deadline = platform_clamp_deadline(deadline);
	__atomic_store_n(&p->shared_deadline, deadline, __ATOMIC_RELAXED);
	p->work = (struct platform_work){.notify = 0};
	spin_unlock(&p->lock);
	platform_notify(p, work.notify, self);
	if (work.console_ready)
		p->ops->console_ready(p->ctx);
	if (work.reset)
		p->ops->reset(p->ctx);
}

/* IOAPIC pin 2 is the 8259's input 0 (the cascade has input 2 there); pin 0 is not wired; PCI's
 * pins 16-23 reach the IOAPIC only. */
void platform_drive(struct platform *p, unsigned pin, unsigned source, bool high)
{
	bool wire;

	ioapic_set_pin(p, pin, source, high);
	wire = p->ioapic.lines[pin] != 0;
	if (pin == PLATFORM_PIN_PIT)
		pic_set_line(p, 0, wire);
	else if (pin != 0 && pin < 16)
		pic_set_line(p, pin, wire);
}

void platform_pulse(struct platform *p, unsigned pin, unsigned source)
{
	platform_drive(p, pin, source, true);
	platform_drive(p, pin, source, false);
}

/* The 8259s' INTR goes to the LINT0 pin of every LAPIC. */
void platform_set_intr(struct platform *p, bool high)
{
	for (unsigned i = 0; high && i < p->vcpus; i++)
		if ((lapic_local(&p->lapic[i], LAPIC_LVT_LINT0) & LAPIC_FRESH) != 0)
			p->work.notify |= 1ull << i;
}

void platform_request_reset(struct platform *p, enum platform_reset_cause cause)
{
	if (p->reset_cause != PLATFORM_RESET_NONE)
		return;
	__atomic_store_n(&p->reset_cause, (uint32_t)cause, __ATOMIC_RELAXED);
	p->work.reset = true;
}

enum platform_reset_cause platform_reset_cause(struct platform *p)
{
	return (enum platform_reset_cause)__atomic_load_n(&p->reset_cause, __ATOMIC_RELAXED);
}

static void set_config(struct platform *p, const struct platform_config *config)
{
	p->ops = config->ops;
	p->ctx = config->ctx;
	p->vcpus = config->vcpus;
	p->phys_bits = config->phys_bits == 0 ? 52 : config->phys_bits;
	p->tsc_hz = config->tsc_hz;
	p->min_period_tsc = config->tsc_hz / PLATFORM_PERIODIC_MAX_HZ;
	timebase_init(&p->lapic_clock, PLATFORM_LAPIC_TIMER_HZ, config->tsc_hz);
	timebase_init(&p->pit_clock, PIT_HZ, config->tsc_hz);
	timebase_init(&p->pm_clock, PM_TIMER_HZ, config->tsc_hz);
	timebase_init(&p->hpet_clock, HPET_HZ, config->tsc_hz);
	timebase_init(&p->rtc_clock, RTC_HZ, config->tsc_hz);
}

void platform_init(struct platform *p, const struct platform_config *config, bool keep_console)
{
	if (!keep_console)
		__builtin_memset(p, 0, sizeof(*p));
	platform_lock(p);
	set_config(p, config);
	p->work = (struct platform_work){.notify = 0};
	__atomic_store_n(&p->reset_cause, PLATFORM_RESET_NONE, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < PLATFORM_MAX_VCPUS; i++)
		lapic_reset(&p->lapic[i], i);
	ioapic_reset(&p->ioapic);
	pic_reset(&p->pic);
	pit_reset(&p->pit);
	hpet_reset(&p->hpet);
	rtc_reset(p, config, keep_console);
	uart_reset(&p->uart, config->console, keep_console);
	kbc_reset(&p->kbc);
	reset_reset(&p->reset);
	platform_unlock(p, PLATFORM_NOBODY);
}

bool platform_pio(struct platform *p, unsigned vcpu, uint16_t port, unsigned size, bool write,
        uint32_t *value, uint64_t now)
{
	const struct port_range *range = find_port(port);
	uint32_t result = 0;

	if (range == NULL || size == 0 || size > 4)
		return false;
	/* The one port that is read in loops: no lock, nothing but the time base. */
	if (port == PLATFORM_PM_TIMER_PORT && size == 4 && !write) {
		*value = pmtimer_count(p, now);
		return true;
	}
	platform_lock(p);
	for (unsigned i = 0; i < size; i++) {
		const struct port_range *r = i == 0 ? range : find_port(port + i);
		uint16_t at = (uint16_t)(port + i);

		if (write && r != NULL && r->write != NULL)
			r->write(p, at, (uint8_t)(*value >> i * 8), now);
		else if (!write)
			result |= (uint32_t)(r != NULL && r->read != NULL ? r->read(p, at, now)
			                                                  : 0xff)
			          << i * 8;
	}
	platform_unlock(p, vcpu);
	if (!write)
		*value = result;
	return true;
}

static void shared_mmio(
        struct platform *p, uint64_t gpa, unsigned size, bool write, uint64_t *value, uint64_t now)
{
	uint32_t offset = (uint32_t)gpa & (APIC_PAGE_BYTES - 1);
	bool is_hpet = (gpa & ~(uint64_t)(APIC_PAGE_BYTES - 1)) == PLATFORM_HPET_BASE;

	if (write && is_hpet)
		hpet_write(p, offset, size, *value, now);
	else if (write)
		ioapic_write(p, offset, (uint32_t)*value, now);
	else
		*value = is_hpet ? hpet_read(p, offset, size, now) : ioapic_read(p, offset);
}

bool platform_mmio(struct platform *p, unsigned vcpu, uint64_t gpa, unsigned size, bool write,
        uint64_t *value, uint64_t now)
{
	const struct lapic *l = &p->lapic[vcpu];
	uint64_t page = gpa & ~(uint64_t)(APIC_PAGE_BYTES - 1);
	uint64_t mask = size_mask(size), data = write ? *value & mask : 0;

	if (page == (l->base & APIC_BASE_ADDRESS)) {
		if (lapic_is_on(l) && !lapic_is_x2apic(l))
			lapic_mmio(p, vcpu, (uint32_t)(gpa - page), size, write, &data, now);
		else
			data = UINT64_MAX; /* nothing decodes the page then */
	} else if (page == IOAPIC_BASE_DEFAULT || page == PLATFORM_HPET_BASE) {
		platform_lock(p);
		shared_mmio(p, gpa, size, write, &data, now);
		platform_unlock(p, vcpu);
	} else {
		return false;
	}
	if (!write)
		*value = data & mask;
	return true;
}

static bool is_lapic_msr(uint32_t msr)
{
	return (msr >= MSR_X2APIC_BASE && msr < MSR_X2APIC_BASE + 0x100) ||
	       msr == MSR_TSC_DEADLINE || msr == MSR_APIC_BASE;
}

enum platform_msr_result platform_rdmsr(
        struct platform *p, unsigned vcpu, uint32_t msr, uint64_t *value, uint64_t now)
{
	return is_lapic_msr(msr) ? lapic_rdmsr(p, vcpu, msr, value, now) : PLATFORM_MSR_UNKNOWN;
}

enum platform_msr_result platform_wrmsr(
        struct platform *p, unsigned vcpu, uint32_t msr, uint64_t value, uint64_t now)
{
	return is_lapic_msr(msr) ? lapic_wrmsr(p, vcpu, msr, value, now) : PLATFORM_MSR_UNKNOWN;
}

uint64_t platform_vcpu_deadline(const struct platform *p, unsigned vcpu)
{
	return LAPIC_LOAD(p->lapic[vcpu].deadline);
}

uint64_t platform_shared_deadline(struct platform *p)
{
	return __atomic_load_n(&p->shared_deadline, __ATOMIC_RELAXED);
}

void platform_run_vcpu_timer(struct platform *p, unsigned vcpu, uint64_t now)
{
	if (now >= p->lapic[vcpu].deadline)
		lapic_timer_run(p, &p->lapic[vcpu], now);
}

void platform_run_shared_timers(struct platform *p, uint64_t now)
{
	if (now < platform_shared_deadline(p))
		return;
	platform_lock(p);
	pit_run(p, now);
	hpet_run(p, now);
	rtc_run(p, now);
	uart_run(p, now);
	ioapic_run(p, now);
	platform_unlock(p, PLATFORM_NOBODY);
}

size_t platform_console_read(struct platform *p, uint64_t *position, uint8_t *out, size_t len)
{
	size_t count;

	platform_lock(p);
	count = uart_ring_read(&p->uart, position, out, len);
	platform_unlock(p, PLATFORM_NOBODY);
	return count;
}

size_t platform_console_write(struct platform *p, const uint8_t *in, size_t len)
{
	size_t count;

	platform_lock(p);
	count = uart_queue_write(p, in, len);
	platform_unlock(p, PLATFORM_NOBODY);
	return count;
}

bool platform_console_break(struct platform *p)
{
	bool done;

	platform_lock(p);
	done = uart_queue_break(p);
	platform_unlock(p, PLATFORM_NOBODY);
	return done;
}
