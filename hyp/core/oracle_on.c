/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares owners, page lists and nested tables with each other. */
#include "hyp/core/oracle.h"
#include "hyp/core/partition.h"
#include "hyp/core/pool.h"
#include "hyp/core/vm.h"
#include "hyp/x86/x86.h"

#define FOUR_GIB (4ull << 30)

static uint64_t checks; /* told now and then, so that a log shows that it ran */

/* Count, sum and sum of squares of frames: two sets of them that differ do not have all three alike
 * by any single fault. */
struct frames {
	uint64_t count, sum, squares;
};

static void add_frame(struct frames *f, uint64_t frame)
{
	f->count++;
	f->sum += frame;
	f->squares += frame * frame;
}

static struct frames add_owned(uint8_t owner)
{
	unsigned count;
	const struct boot_range *ranges = pool_ranges(&count);
	struct frames owned = {0};

	for (unsigned i = 0; i < count; i++)
		for (uint64_t at = 0; at < ranges[i].size; at += LARGE_BYTES)
			if (pool_owner(HPA(ranges[i].start + at)) == owner)
				add_frame(&owned, (ranges[i].start + at) / LARGE_BYTES);
	return owned;
}

/* Which of the VM's pages lies at gpa; -1: none. */
static int64_t frame_at(const struct vm *vm, uint64_t gpa)
{
	uint64_t ram = vm->ram_bytes - vm->firmware_bytes;
	uint64_t low = ram < KEEL_RAM_BELOW_4G ? ram : KEEL_RAM_BELOW_4G;

	if (gpa < low)
		return (int64_t)(gpa / LARGE_BYTES);
	if (gpa < FOUR_GIB && gpa >= FOUR_GIB - vm->firmware_bytes)
		return (int64_t)((gpa - FOUR_GIB + vm->ram_bytes) / LARGE_BYTES);
	if (gpa >= FOUR_GIB && gpa - FOUR_GIB < ram - low)
		return (int64_t)((gpa - FOUR_GIB + low) / LARGE_BYTES);
	return -1;
}

static void check_frames(const struct vm *vm)
{
	struct frames listed = {0}, owned = add_owned(POOL_VM(vm->id));

	for (uint32_t i = 0; i < vm->ram_frames + vm->vault_frames; i++) {
		uint8_t owner = pool_owner(HPA((uint64_t)vm->frames[i] * LARGE_BYTES));

		if (owner != POOL_VM(vm->id))
			panic("oracle: page %u of vm %u, frame %x, has owner %x", i, vm->id,
			        vm->frames[i], owner);
		add_frame(&listed, vm->frames[i]);
	}
	if (listed.count != owned.count || listed.sum != owned.sum ||
	        listed.squares != owned.squares)
		panic("oracle: vm %u has a page twice, or one that it does not list", vm->id);
}

static void check_nested(const struct vm *vm)
{
	uint64_t end = FOUR_GIB + vm->ram_bytes + LARGE_BYTES;

	for (uint64_t gpa = 0; gpa < end; gpa += LARGE_BYTES) {
		int64_t frame = frame_at(vm, gpa);
		unsigned flags;
		hpa_t hpa = HPA(0);
		bool mapped = cpu_nested_lookup(&vm->partition.nested, GPA(gpa), &hpa, &flags);

		if (mapped != (frame >= 0) ||
		        (mapped && hpa.value != (uint64_t)vm->frames[frame] * LARGE_BYTES))
			panic("oracle: vm %u: gpa %llx is mapped to %llx", vm->id,
			        (unsigned long long)gpa, (unsigned long long)hpa.value);
	}
}

/* True: root has it and may not. Another CPU may take it from root between the two looks, and give
 * it away then. */
static bool is_leaked(hpa_t page)
{
	for (unsigned look = 0; look < 3; look++) {
		unsigned flags;
		hpa_t hpa;
		uint8_t owner;

		if (!cpu_nested_lookup(&root_partition.nested, GPA(page.value), &hpa, &flags))
			return false;
		owner = pool_owner(page);
		if (owner != POOL_FREE && owner < POOL_HYP_FOR(0))
			return false;
	}
	return true;
}

static void check_root(void)
{
	unsigned count;
	const struct boot_range *ranges = pool_ranges(&count);

	for (unsigned i = 0; i < count; i++)
		for (uint64_t at = 0; at < ranges[i].size; at += LARGE_BYTES)
			if (is_leaked(HPA(ranges[i].start + at)))
				panic("oracle: root reaches %llx of owner %x",
				        (unsigned long long)(ranges[i].start + at),
				        pool_owner(HPA(ranges[i].start + at)));
}

void oracle_check(void)
{
	struct vm *vm;
	uint64_t n = __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);

	for (uint32_t id = 1; (vm = vm_get_next(id)) != NULL;) {
		id = vm->id + 1;
		check_frames(vm);
		check_nested(vm);
		vm_put(vm);
	}
	check_root();
	if ((n & (n - 1)) == 0)
		log_line("oracle: %llu checks", (unsigned long long)n);
}
