/* SPDX-License-Identifier: BSD-2-Clause */
/* kvmclock as Linux computes it, at any rate and any time up to 100 days; the flag that saves an
 * EOI; what of KVM's interface is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/core/pv.c"
#include "hyp/core/vm.h"

#define DAY_S    86400ull
#define CLOCK_AT 0x1040u
#define WALL_AT  0x2000u
#define EOI_AT   0x3004u
#define ROM_AT   0x3800u

static uint8_t ram[0x4000];
static struct vm vm;
static struct vcpu vcpu;
static struct vcpu_vm vcpu_vm;
static struct cpu_mode mode;
static unsigned writes, eois;
static bool eoi_possible;
uint64_t tsc_hz;

void *guest_ram(struct vm *v, gpa_t gpa, size_t bytes)
{
	(void)v;
	return gpa.value < sizeof(ram) && bytes <= sizeof(ram) - gpa.value ? ram + gpa.value : NULL;
}

bool guest_is_rom(const struct vm *v, gpa_t gpa)
{
	(void)v;
	return gpa.value >= ROM_AT;
}

bool guest_read(struct vm *v, gpa_t gpa, void *to, size_t bytes)
{
	const void *at = guest_ram(v, gpa, bytes);

	if (at != NULL)
		memcpy(to, at, bytes);
	return at != NULL;
}

/* Whoever reads the clock in the middle of an update sees an odd version (pvclock-abi.h). */
bool guest_write(struct vm *v, gpa_t gpa, const void *from, size_t bytes)
{
	void *at = guest_ram(v, gpa, bytes);
	uint32_t version;

	if (at == NULL)
		return false;
	memcpy(at, from, bytes);
	memcpy(&version, ram + (gpa.value & ~31ull), sizeof(version));
	if (++writes % 3 != 0 && gpa.value == CLOCK_AT)
		assert_int_equal(version & 1, 1);
	return true;
}

void cpu_mode_get(struct cpu_vcpu *c, struct cpu_mode *out)
{
	(void)c;
	*out = mode;
}
bool platform_pv_eoi_possible(const struct platform *p, unsigned cpu)
{
	(void)p, (void)cpu;
	return eoi_possible;
}
void platform_eoi(struct platform *p, unsigned cpu)
{
	(void)p, (void)cpu;
	eois++;
}
int platform_pv_ipi(struct platform *p, uint64_t low, uint64_t high, uint32_t min, uint32_t icr)
{
	(void)p, (void)min, (void)icr;
	return __builtin_popcountll(low) + __builtin_popcountll(high);
}

static int setup(void **state)
{
	(void)state;
	memset(ram, 0, sizeof(ram));
	vm = (struct vm){.config = {.wall_clock_s = 1700000000}};
	vcpu_vm = (struct vcpu_vm){.vm = &vm};
	vcpu = (struct vcpu){.vm = &vcpu_vm};
	mode = (struct cpu_mode){.long_mode = true};
	writes = eois = 0;
	eoi_possible = true;
	tsc_hz = 2596137864;
	return 0;
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Linux's __pvclock_read_cycles. */
static uint64_t read_clock(uint64_t tsc)
{
	struct pvclock_time t;
	uint64_t delta;

	memcpy(&t, ram + CLOCK_AT, sizeof(t));
	assert_int_equal(t.version & 1, 0);
	assert_int_equal(t.flags, PVCLOCK_TSC_STABLE);
	delta = tsc - t.tsc_timestamp;
	delta = t.tsc_shift < 0 ? delta >> -t.tsc_shift : delta << t.tsc_shift;
	return t.system_time + (uint64_t)((unsigned __int128)delta * t.tsc_to_system_mul >> 32);
}

/* The property of all clocks (test_clocks.c): under a tick and 1 ppm. This one is held to 2 ns and
 * 1 part in 10^9. */
static void test_any_rate_any_time(void **state)
{
	uint64_t seed = 7;

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		uint64_t limit, tsc, ns, seen;

		tsc_hz = 800000000 + random_next(&seed) % 5200000001;
		vcpu_vm.tsc_adjust = random_next(&seed) >> (random_next(&seed) % 64);
		assert_true(pv_write_system_time(&vcpu, CLOCK_AT | 1));
		limit = tsc_hz * 100 * DAY_S >> random_next(&seed) % 53;
		tsc = 1 + random_next(&seed) % (limit + 1);
		ns = (uint64_t)((unsigned __int128)tsc * NS_PER_S / tsc_hz);
		seen = read_clock(vcpu_vm.tsc_adjust + tsc);
		assert_in_range(seen + 2 + ns / NS_PER_S, ns, ns + 4 + 2 * (ns / NS_PER_S));
	}
}

static void test_never_backwards(void **state)
{
	uint64_t seed = 8, tsc = tsc_hz * 50 * DAY_S, last = 0;

	(void)state;
	assert_true(pv_write_system_time(&vcpu, CLOCK_AT | 1));
	for (unsigned i = 0; i < 1000000; i++) {
		uint64_t ns = read_clock(tsc += random_next(&seed) % 8);

		assert_true(ns >= last);
		last = ns;
	}
}

static void test_clock_is_refused(void **state)
{
	(void)state;
	assert_false(pv_write_system_time(&vcpu, CLOCK_AT | 3));
	assert_false(pv_write_system_time(&vcpu, sizeof(ram) | 1));
	assert_int_equal(writes, 0);
	assert_true(pv_write_system_time(&vcpu, CLOCK_AT)); /* off */
	assert_int_equal(writes, 0);
	assert_false(pv_write_wall_clock(&vcpu, WALL_AT | 1));
	assert_false(pv_write_wall_clock(&vcpu, sizeof(ram)));
	assert_false(pv_write_eoi(&vcpu, EOI_AT | 3));
	assert_false(pv_write_eoi(&vcpu, sizeof(ram) | 1));
	assert_false(pv_write_eoi(&vcpu, ROM_AT | 1));
}

static void test_wall_clock(void **state)
{
	struct pvclock_wall w;

	(void)state;
	assert_true(pv_write_wall_clock(&vcpu, WALL_AT));
	memcpy(&w, ram + WALL_AT, sizeof(w));
	assert_int_equal(w.version & 1, 0);
	assert_int_equal(w.sec, 1700000000);
	assert_int_equal(w.nsec, 0);
}

/* Armed, then: the guest took the flag, so an EOI is due; or it did not, and writes the register.
 */
static void test_eoi_by_flag(void **state)
{
	(void)state;
	pv_eoi_offer(&vcpu);
	assert_false(vcpu_vm.pv_eoi_armed);
	assert_true(pv_write_eoi(&vcpu, EOI_AT | 1));
	pv_eoi_offer(&vcpu);
	assert_int_equal(ram[EOI_AT], 1);
	ram[EOI_AT] = 0;
	pv_eoi_collect(&vcpu);
	assert_int_equal(eois, 1);
	pv_eoi_collect(&vcpu);
	assert_int_equal(eois, 1);
	pv_eoi_offer(&vcpu);
	pv_eoi_collect(&vcpu);
	assert_int_equal(eois, 1);
	assert_int_equal(ram[EOI_AT], 0);
	eoi_possible = false;
	pv_eoi_offer(&vcpu);
	assert_int_equal(ram[EOI_AT], 0);
	/* Turned off while armed: what the guest took is not forgotten. */
	eoi_possible = true;
	pv_eoi_offer(&vcpu);
	ram[EOI_AT] = 0;
	assert_true(pv_write_eoi(&vcpu, 0));
	assert_int_equal(eois, 2);
}

static void test_hypercalls(void **state)
{
	uint64_t *g = vcpu.regs.gpr;

	(void)state;
	g[KEEL_RAX] = KVM_HC_SEND_IPI;
	g[KEEL_RBX] = 0xff;
	g[KEEL_RCX] = 1;
	assert_int_equal(pv_hypercall(&vcpu), 9);
	assert_int_equal(vcpu.counters.ipis, 1);
	g[KEEL_RAX] = 999;
	assert_int_equal(pv_hypercall(&vcpu), (uint64_t)-KVM_ENOSYS);
	mode.long_mode = false;
	g[KEEL_RAX] = 0xffffffff00000000ull | KVM_HC_VAPIC_POLL_IRQ;
	assert_int_equal(pv_hypercall(&vcpu), 0);
	mode.cpl = 3;
	assert_int_equal(pv_hypercall(&vcpu), (uint64_t)-KVM_EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_any_rate_any_time, setup),
	        cmocka_unit_test_setup(test_never_backwards, setup),
	        cmocka_unit_test_setup(test_clock_is_refused, setup),
	        cmocka_unit_test_setup(test_wall_clock, setup),
	        cmocka_unit_test_setup(test_eoi_by_flag, setup),
	        cmocka_unit_test_setup(test_hypercalls, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
