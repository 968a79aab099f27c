/* SPDX-License-Identifier: BSD-2-Clause */
/* Exit slots and events in the area shared with the hypervisor, alike for all implementations of
 * hv.h. */
#include "vmm/hv.h"

static bool exit_is_sound(const struct hv_exit *exit)
{
	bool pio = exit->kind == KEEL_EXIT_PIO_READ || exit->kind == KEEL_EXIT_PIO_WRITE;
	bool mmio = exit->kind == KEEL_EXIT_MMIO_READ || exit->kind == KEEL_EXIT_MMIO_WRITE;
	bool size = exit->size == 1 || exit->size == 2 || exit->size == 4 ||
	            (exit->size == 8 && mmio);

	return (pio || mmio) && size && exit->address <= (pio ? 0xffff : UINT64_MAX - 8);
}

bool hv_exit_next(struct hv *hv, struct hv_exit *out)
{
	for (;;) {
		if (hv->exits_taken == 0)
			hv->exits_taken = __atomic_exchange_n(
			        &hv->shared->exit_pending, 0, __ATOMIC_ACQ_REL);
		if (hv->exits_taken == 0)
			return false;

		unsigned vcpu = (unsigned)__builtin_ctzll(hv->exits_taken);
		const struct keel_exit_slot *slot = &hv->shared->slots[vcpu];

		hv->exits_taken &= hv->exits_taken - 1;
		/* Pairs with the hypervisor's release store after it filled the slot. */
		if (vcpu >= hv->vcpus ||
		        __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != KEEL_SLOT_PENDING)
			continue;
		*out = (struct hv_exit){.vcpu = vcpu,
		        .sequence = slot->sequence,
		        .kind = slot->kind,
		        .size = slot->size,
		        .address = slot->address,
		        .data = slot->data};
		if (exit_is_sound(out))
			return true;
		hv->ops->exit_complete(hv, vcpu, out->sequence, UINT64_MAX);
	}
}

void hv_exit_rescan(struct hv *hv)
{
	hv->exits_taken = hv->vcpus >= 64 ? UINT64_MAX : (1ull << hv->vcpus) - 1;
}

uint32_t hv_events_take(struct hv *hv, uint32_t mask)
{
	return __atomic_fetch_and(&hv->shared->events, ~mask, __ATOMIC_ACQ_REL) & mask;
}
