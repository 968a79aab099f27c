/* SPDX-License-Identifier: BSD-2-Clause */
/* VMs made and destroyed 200 times: no pool memory is lost, and what one wrote the next does not
 * see. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/kmod/common.h"

#define ROUNDS 200

static void is_all_zero(const uint8_t *at, size_t bytes)
{
	for (size_t n = 0; n < bytes; n += 4096)
		check(at[n] == 0 && at[n + 4088] == 0);
}

/* Sizes differ from round to round, so that frames change places. */
static void one_round(unsigned round)
{
	static struct test_vm vm, other;
	uint64_t ram = 2 * MIB * (1 + round % 7), vault = 2 * MIB * (1 + round % 2);
	bool two = round % 5 == 0;

	vm_make(&vm, "test-churn", ram, vault);
	if (two)
		vm_make(&other, "test-churn-2", ram + 2 * MIB, vault);
	is_all_zero(vm.ram, ram);
	is_all_zero(vm.vault + KEEL_VM_SHARED_BYTES, vault - KEEL_VM_SHARED_BYTES);
	memset(vm.ram, 0xee, ram);
	memset(vm.vault + KEEL_VM_SHARED_BYTES, 0xee, vault - KEEL_VM_SHARED_BYTES);
	if (two) {
		is_all_zero(other.ram, other.ram_bytes);
		vm_end(&other);
	}
	vm_end(&vm);
}

static void refused_ones_cost_nothing(void)
{
	struct keel_hc_vm_create create = {
	        .ram_bytes = 1ull << 40, .vault_bytes = 2 * MIB, .vcpus = 1};
	uint64_t free_before = pool_free_bytes();

	test("a VM that cannot be made costs nothing");
	snprintf(create.name, sizeof(create.name), "test-too-big");
	check_errno(ioctl(root_fd(), KEEL_IOC_VM_CREATE, &create), ENOMEM);
	create.ram_bytes = 3 * MIB;
	check_errno(ioctl(root_fd(), KEEL_IOC_VM_CREATE, &create), EINVAL);
	create.ram_bytes = 2 * MIB;
	create.vcpus = KEEL_MAX_VCPUS + 1;
	check_errno(ioctl(root_fd(), KEEL_IOC_VM_CREATE, &create), EINVAL);
	check(pool_free_bytes() == free_before);
}

int main(void)
{
	uint64_t free_before = pool_free_bytes();

	test("200 VMs, one after another");
	for (unsigned round = 0; round < ROUNDS; round++) {
		one_round(round);
		check(pool_free_bytes() == free_before);
	}
	refused_ones_cost_nothing();
	test(NULL);
	printf("pool: %llu MiB free before and after\n", (unsigned long long)(free_before / MIB));
	return 0;
}
