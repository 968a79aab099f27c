/* SPDX-License-Identifier: BSD-2-Clause */
/* Root's hypercalls, any number of them with any blocks: an answer to each, no reference kept, no
 * effect of what is refused. */
/* sources: hyp/core/doorbell.c hyp/core/oracle_off.c */
/* libs: -lcmocka */
#define main unit_main
#include "tests/unit/hyp/core/test_hypercall.c"
#undef main

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One call: its number, its place in the page, how its size is wrong (0: not), the VM that its head
 * names, then the block. */
struct head {
	uint8_t number, place, wrong, vm;
};

static void one_call(const struct head *head, const uint8_t *block, size_t bytes)
{
	unsigned number = head->number % (KEEL_HC_COUNT + 2);
	size_t wanted = number < KEEL_HC_COUNT ? entries[number].size : 8;
	uint64_t gpa = head->place % 32 == 0 ? head->place * 32ull : 0;
	unsigned before;
	int64_t r;

	memset(memory, 0, sizeof(memory));
	if (gpa + 8 <= sizeof(memory) && bytes > 0)
		memcpy(memory + gpa, block,
		        bytes < sizeof(memory) - gpa ? bytes : sizeof(memory) - gpa);
	if (head->vm % 4 != 0 && gpa + 8 <= sizeof(memory)) {
		memset(memory + gpa, 0, 8);
		memory[gpa] = head->vm % 4 == 1 ? 7 : 0;
	}
	before = effects;
	r = hypercall_root(NULL, number, gpa, wanted + (head->wrong % 16 == 1));
	if (users != 0 || !(r == 0 || r == HYPERCALL_AGAIN || (r < 0 && r >= -KEEL_ENOSYS)))
		__builtin_trap();
	if (r == -KEEL_EINVAL && effects != before)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct head head;

	set_up(NULL);
	while (size >= sizeof(head) + 2) {
		size_t bytes;

		memcpy(&head, data, sizeof(head));
		bytes = (size_t)(data[4] | data[5] << 8) % 2200;
		data += 6;
		size -= 6;
		if (bytes > size)
			bytes = size;
		one_call(&head, data, bytes);
		data += bytes;
		size -= bytes;
	}
	return 0;
}
