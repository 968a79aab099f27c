/* SPDX-License-Identifier: BSD-2-Clause */
/* The page that hyp, root and a device process share, with any content: each exit that comes of it
 * is sound, and there is an end of them. */
/* sources: vmm/hv.c */
#include <stdlib.h>
#include <string.h>

#include "vmm/hv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct keel_vm_shared *shared;
static unsigned completed;

static int complete(struct hv *hv, unsigned vcpu, uint32_t sequence, uint64_t data)
{
	(void)sequence, (void)data;
	if (vcpu >= hv->vcpus)
		__builtin_trap();
	completed++;
	return 0;
}

static const struct hv_ops ops = {.exit_complete = complete};

static void check_exit(const struct hv *hv, const struct hv_exit *exit)
{
	bool pio = exit->kind == KEEL_EXIT_PIO_READ || exit->kind == KEEL_EXIT_PIO_WRITE;
	bool mmio = exit->kind == KEEL_EXIT_MMIO_READ || exit->kind == KEEL_EXIT_MMIO_WRITE;

	if (exit->vcpu >= hv->vcpus || !(pio || mmio) || exit->size == 0 ||
	        exit->size > (pio ? 4u : 8u) || (exit->size & (exit->size - 1)) != 0)
		__builtin_trap();
	if (pio ? exit->address > 0xffff : exit->address + exit->size < exit->address)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hv hv = {.ops = &ops};
	struct hv_exit exit;
	unsigned exits = 0;

	if (size < 9)
		return 0;
	if (shared == NULL)
		shared = malloc(sizeof(*shared));
	memset(shared, 0, sizeof(*shared));
	hv.shared = shared;
	hv.vcpus = 1 + data[0] % KEEL_MAX_VCPUS;
	memcpy(&shared->exit_pending, data + 1, 8);
	data += 9;
	size -= 9;
	memcpy(shared->slots, data, size < sizeof(shared->slots) ? size : sizeof(shared->slots));
	completed = 0;
	for (unsigned pass = 0; pass < 2; pass++) {
		while (hv_exit_next(&hv, &exit)) {
			check_exit(&hv, &exit);
			exits++;
		}
		hv_exit_rescan(&hv);
	}
	if (exits + completed > 2 * KEEL_MAX_VCPUS)
		__builtin_trap();
	return 0;
}
