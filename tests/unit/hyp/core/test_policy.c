/* SPDX-License-Identifier: BSD-2-Clause */
/* CPUID and MSR policy: the tables' order, what must be hidden, and what a guest kernel expects to
 * agree. */
/* sources: hyp/core/cpuid_policy.c */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/core/cpuid_policy.h"
#include "hyp/core/msr_policy.c"

/* A host that claims everything, but for the leaves that have a shape. */
static struct cpuid_result greedy(uint32_t leaf, uint32_t sub)
{
	struct cpuid_result r = {~0u, ~0u, ~0u, ~0u};

	switch (leaf) {
	case 0: return (struct cpuid_result){0x20, 0x68747541, 0x444d4163, 0x69746e65};
	case 4:
	case 0x8000001d: return sub < 4 ? r : (struct cpuid_result){0};
	case 0xd:
		switch (sub) {
		case 0: return (struct cpuid_result){0x602ff, 0x1000, 0x2b00, 0};
		case 1: return (struct cpuid_result){0x1f, 0x1000, 0x1800, 0};
		case 2: return (struct cpuid_result){256, 576, 0, 0};
		case 5: return (struct cpuid_result){64, 1088, 0, 0};
		case 6: return (struct cpuid_result){512, 1152, 0, 0};
		case 7: return (struct cpuid_result){1024, 1664, 0, 0};
		case 9: return (struct cpuid_result){8, 2688, 0, 0};
		case 18: return (struct cpuid_result){8192, 2816, 6, 0};
		default: return (struct cpuid_result){0};
		}
	case 0x80000000: r.eax = 0x80000028; return r;
	case 0x80000008: return (struct cpuid_result){0x3934, ~0u, ~0u, ~0u};
	}
	return r;
}

/* A host with nothing beyond long mode. */
static struct cpuid_result poor(uint32_t leaf, uint32_t sub)
{
	(void)sub;
	if (leaf == 0)
		return (struct cpuid_result){1, 0x68747541, 0x444d4163, 0x69746e65};
	if (leaf == 1)
		return (struct cpuid_result){0x600f00, 0x0800, 1, 0x078bfbff};
	if (leaf == 0x80000000)
		return (struct cpuid_result){0x80000008, 0, 0, 0};
	if (leaf == 0x80000008)
		return (struct cpuid_result){0x3028, 0, 0, 0};
	return (struct cpuid_result){0};
}

static struct cpuid_view view_of(uint32_t vcpus, uint32_t id)
{
	return (struct cpuid_view){.host = greedy,
	        .apic_id = id,
	        .vcpus = vcpus,
	        .xcr0 = 1,
	        .phys_bits = 48,
	        .apic_on = true,
	        .tsc_khz = 2400000};
}

#define BIT(n) (1u << (n))

static void hides_what_hyp_cannot_give(void **state)
{
	struct cpuid_view v = view_of(4, 2);
	struct cpuid_result r = cpuid_policy(&v, 1, 0);

	(void)state;
	assert_int_equal(r.ecx & (BIT(2) | BIT(3) | BIT(5) | BIT(6) | BIT(15) | BIT(18)), 0);
	assert_int_equal(r.ecx & BIT(27), 0); /* OSXSAVE: CR4 says so */
	assert_int_equal(r.edx & (BIT(18) | BIT(21) | BIT(22) | BIT(29)), 0);
	r = cpuid_policy(&v, 7, 0);
	assert_int_equal(r.eax, 1);
	assert_int_equal(r.ebx & (BIT(2) | BIT(4) | BIT(11) | BIT(12) | BIT(14) | BIT(15)), 0);
	assert_int_equal(r.ecx & (BIT(4) | BIT(5) | BIT(7) | BIT(16) | BIT(28)), 0);
	assert_int_equal(r.edx & (BIT(22) | BIT(24) | BIT(25) | 0xfc000000), 0);
	r = cpuid_policy(&v, 0x80000001, 0);
	assert_int_equal(r.ecx & (BIT(2) | BIT(3) | BIT(10) | BIT(12) | BIT(15) | BIT(29)), 0);
	assert_int_equal(r.edx & (BIT(25) | BIT(30) | BIT(31)), 0);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint32_t gone[] = {0x8000000a, 5, 0xa};

		r = cpuid_policy(&v, gone[i], 0);
		assert_int_equal(r.eax | r.ebx | r.ecx | r.edx, 0);
	}
	r = cpuid_policy(&v, 0x8000001f, 0);
	assert_int_equal(r.eax | r.ebx | r.ecx | r.edx, 0);
}

static void shows_what_hyp_gives_itself(void **state)
{
	struct cpuid_view v = view_of(1, 0);
	struct cpuid_result r;

	(void)state;
	v.host = poor;
	r = cpuid_policy(&v, 1, 0);
	assert_int_equal(r.ecx & (BIT(21) | BIT(24) | BIT(31)), BIT(21) | BIT(24) | BIT(31));
	assert_int_equal(cpuid_policy(&v, 6, 0).eax, BIT(2));
	assert_int_equal(cpuid_policy(&v, 7, 0).ebx, BIT(1));
	assert_int_equal(cpuid_policy(&v, 0, 0).eax, 0xd);
	assert_int_equal(cpuid_policy(&v, 0xd, 0).eax, 0); /* no XSAVE */
	assert_int_equal(cpuid_policy(&v, 0x80000001, 0).ecx & BIT(22), 0);
	assert_int_equal(cpuid_policy(&v, 0x80000007, 0).edx, BIT(8)); /* invariant TSC */
}

static void names_itself_to_kvm_guests(void **state)
{
	struct cpuid_view v = view_of(2, 1);
	struct cpuid_result r = cpuid_policy(&v, 0x40000000, 0);
	uint32_t features;

	(void)state;
	assert_memory_equal(&r.ebx, "KVMKVMKVM\0\0\0", 12);
	assert_true(r.eax >= 0x40000001);
	features = cpuid_policy(&v, 0x40000001, 0).eax;
	assert_int_equal(features,
	        BIT(0) | BIT(1) | BIT(3) | BIT(6) | BIT(11) | BIT(12) | BIT(15) | BIT(24));
	assert_int_equal(cpuid_policy(&v, 0x40000001, 0).edx, 0);
	v.pinned = true;
	assert_int_equal(cpuid_policy(&v, 0x40000001, 0).edx, 1);
	assert_int_equal(cpuid_policy(&v, 0x40000010, 0).eax, 2400000);
	r = cpuid_policy(&v, 0x40000100, 0);
	assert_memory_equal(&r.ebx, "KeelKeelKeel", 12);
	assert_int_equal(cpuid_policy(&v, 0x40000101, 0).ebx, 2);
}

static void topology_agrees_in_all_leaves(void **state)
{
	(void)state;
	for (uint32_t vcpus = 1; vcpus <= 64; vcpus++) {
		for (uint32_t id = 0; id < vcpus; id++) {
			struct cpuid_view v = view_of(vcpus, id);
			struct cpuid_result one = cpuid_policy(&v, 1, 0);
			struct cpuid_result smt = cpuid_policy(&v, 0xb, 0);
			struct cpuid_result core = cpuid_policy(&v, 0xb, 1);

			assert_int_equal(one.ebx >> 24, id);
			assert_int_equal((one.ebx >> 16) & 0xff, vcpus);
			assert_int_equal(!!(one.edx & BIT(28)), vcpus > 1);
			assert_int_equal(smt.edx, id);
			assert_int_equal(smt.ebx, 1);
			assert_int_equal((smt.ecx >> 8) & 0xff, 1);
			assert_int_equal(core.ebx, vcpus);
			assert_int_equal((core.ecx >> 8) & 0xff, 2);
			assert_int_equal(id >> core.eax, 0); /* one package */
			assert_true((1u << core.eax) < 2 * vcpus);
			assert_int_equal(cpuid_policy(&v, 0xb, 2).ebx, 0);
			assert_int_equal(cpuid_policy(&v, 0x8000001e, 0).eax, id);
			assert_int_equal(cpuid_policy(&v, 0x80000008, 0).ecx & 0xff, vcpus - 1);
		}
	}
}

static void xsave_sizes_follow_components(void **state)
{
	struct cpuid_view v = view_of(1, 0);
	struct cpuid_result r;

	(void)state;
	assert_int_equal(cpuid_policy_xcr0(greedy), 0x2e7); /* no MPX, AMX */
	r = cpuid_policy(&v, 0xd, 0);
	assert_int_equal(r.eax, 0x2e7);
	assert_int_equal(r.ebx, 576);
	assert_int_equal(r.ecx, 2696);
	v.xcr0 = 7;
	assert_int_equal(cpuid_policy(&v, 0xd, 0).ebx, 832);
	v.xcr0 = 0xe7;
	assert_int_equal(cpuid_policy(&v, 0xd, 0).ebx, 2688);
	r = cpuid_policy(&v, 0xd, 1);
	assert_int_equal(r.eax & ~7u, 0); /* no XSAVES: no supervisor states */
	assert_int_equal(r.ebx, 576 + 256 + 64 + 512 + 1024);
	assert_int_equal(cpuid_policy(&v, 0xd, 2).ebx, 576);
	assert_int_equal(cpuid_policy(&v, 0xd, 9).eax, 8);
	assert_int_equal(cpuid_policy(&v, 0xd, 10).eax, 0);
	assert_int_equal(cpuid_policy(&v, 0xd, 18).eax, 0);
	assert_int_equal(cpuid_policy(&v, 0xd, 100).eax, 0);
}

static struct cpuid_result bare(uint32_t leaf, uint32_t sub)
{
	(void)leaf, (void)sub;
	return (struct cpuid_result){0};
}

static void cr4_follows_features(void **state)
{
	(void)state;
	/* FSGSBASE, PCIDE, OSXSAVE, SMEP, SMAP, PKE, UMIP where the host has them; never VMXE,
	 * LA57. */
	assert_int_equal(cpuid_policy_cr4(greedy), 0x7ff | 0x800 | 7ull << 16 | 7ull << 20);
	assert_int_equal(cpuid_policy_cr4(bare), 0x7ff);
}

static void flags_follow_the_vcpu(void **state)
{
	struct cpuid_view v = view_of(1, 0);

	(void)state;
	v.cr4 = 1u << 18;
	assert_true(cpuid_policy(&v, 1, 0).ecx & BIT(27));
	assert_true(cpuid_policy(&v, 1, 0).edx & BIT(9));
	v.apic_on = false;
	assert_false(cpuid_policy(&v, 1, 0).edx & BIT(9));
	assert_false(cpuid_policy(&v, 0x80000001, 0).edx & BIT(9));
	assert_int_equal(cpuid_policy(&v, 7, 0).ecx & (BIT(3) | BIT(4)), BIT(3));
	v.cr4 |= 1u << 22;
	assert_int_equal(cpuid_policy(&v, 7, 0).ecx & (BIT(3) | BIT(4)), BIT(3) | BIT(4));
	v.phys_bits = 40;
	assert_int_equal(cpuid_policy(&v, 0x80000008, 0).eax, 48 << 8 | 40);
	v.phys_bits = 52; /* the host has 52 (34h) as well */
	assert_int_equal(cpuid_policy(&v, 0x80000008, 0).eax & 0xff, 52);
}

static void rules_are_sorted_and_apart(void **state)
{
	bool used[MSR_STORES] = {false};

	(void)state;
	for (size_t i = 0; i < RULES; i++) {
		assert_true(rules[i].first <= rules[i].last);
		if (i > 0)
			assert_true(rules[i - 1].last < rules[i].first);
		if (rules[i].action != MSR_KEEP)
			continue;
		for (uint32_t m = 0; m <= rules[i].last - rules[i].first; m++) {
			assert_true(rules[i].index + m < MSR_STORES);
			assert_false(used[rules[i].index + m]);
			used[rules[i].index + m] = true;
		}
	}
}

static void every_rule_is_found(void **state)
{
	size_t found = 0;

	(void)state;
	for (size_t i = 0; i < RULES; i++) {
		assert_ptr_equal(msr_policy_find(rules[i].first), &rules[i]);
		assert_ptr_equal(msr_policy_find(rules[i].last), &rules[i]);
	}
	for (uint32_t m = 0xc0000000; m < 0xc0020000; m++)
		found += msr_policy_find(m) != NULL;
	assert_in_range(found, 30, 80);
	assert_null(msr_policy_find(0));
	assert_null(msr_policy_find(0x48));       /* SPEC_CTRL */
	assert_null(msr_policy_find(0x3a));       /* FEATURE_CONTROL */
	assert_null(msr_policy_find(0xc0010117)); /* VM_HSAVE_PA */
	assert_null(msr_policy_find(0x4b564d02)); /* asynchronous page faults */
	assert_null(msr_policy_find(0xffffffff));
}

static void illegal_values_are_refused(void **state)
{
	const struct msr_rule *pat = msr_policy_find(0x277), *lstar = msr_policy_find(0xc0000082);
	const struct msr_rule *type = msr_policy_find(0x2ff), *aux = msr_policy_find(0xc0000103);

	(void)state;
	assert_true(msr_policy_is_legal(pat, 0x0007040600070406));
	assert_false(msr_policy_is_legal(pat, 0x0007040600070402));
	assert_false(msr_policy_is_legal(pat, 0x0807040600070406));
	assert_true(msr_policy_is_legal(lstar, 0xffffffff81000000));
	assert_true(msr_policy_is_legal(lstar, 0x00007fffffffffff));
	assert_false(msr_policy_is_legal(lstar, 0x0000800000000000));
	assert_true(msr_policy_is_legal(type, 0xc06));
	assert_false(msr_policy_is_legal(type, 0xc07));
	assert_false(msr_policy_is_legal(type, 0x10c06));
	assert_true(msr_policy_is_legal(aux, 0xffffffff));
	assert_false(msr_policy_is_legal(aux, 0x100000000));
}

static void reset_fills_all_stores(void **state)
{
	uint64_t stores[MSR_STORES];
	const struct msr_rule *hwcr = msr_policy_find(0xc0010015);

	(void)state;
	memset(stores, 0xa5, sizeof(stores));
	msr_policy_reset(stores);
	assert_int_equal(
	        stores[hwcr->index], 1u << 24); /* else Linux warns that the TSC is not at P0 */
	for (size_t i = 0; i < RULES; i++)
		if (rules[i].action == MSR_KEEP)
			assert_int_equal(stores[rules[i].index + rules[i].last - rules[i].first],
			        rules[i].value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(hides_what_hyp_cannot_give),
	        cmocka_unit_test(shows_what_hyp_gives_itself),
	        cmocka_unit_test(names_itself_to_kvm_guests),
	        cmocka_unit_test(topology_agrees_in_all_leaves),
	        cmocka_unit_test(xsave_sizes_follow_components),
	        cmocka_unit_test(cr4_follows_features),
	        cmocka_unit_test(flags_follow_the_vcpu),
	        cmocka_unit_test(rules_are_sorted_and_apart),
	        cmocka_unit_test(every_rule_is_found),
	        cmocka_unit_test(illegal_values_are_refused),
	        cmocka_unit_test(reset_fills_all_stores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
