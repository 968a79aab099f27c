/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash by space and address over a VM's doorbells: looked up on each guest write that no device
 * of hyp takes. */

#include "hyp/core/doorbell.h"

static uint32_t bucket_of(uint8_t space, uint64_t address)
{
	uint64_t h = (address + space) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(h >> 56) % DOORBELL_BUCKETS;
}

static uint64_t size_mask(uint32_t size)
{
	return size == 0 || size >= 8 ? UINT64_MAX : (1ull << (size * 8)) - 1;
}

void doorbell_init(struct doorbell_table *t)
{
	t->lock = (struct spinlock){0};
	t->count = 0;
	for (uint32_t i = 0; i < DOORBELL_BUCKETS; i++)
		t->bucket[i] = DOORBELL_END;
	for (uint32_t i = 0; i < KEEL_MAX_DOORBELLS; i++)
		t->bells[i].used = false;
}

int doorbell_check(const struct keel_hc_doorbell *d)
{
	bool pio = d->space == KEEL_DOORBELL_PIO;

	if (d->index >= KEEL_MAX_DOORBELLS || d->space > KEEL_DOORBELL_MMIO || d->reserved != 0 ||
	        (d->flags & ~KEEL_DOORBELL_MATCH) != 0)
		return -KEEL_EINVAL;
	if (d->size != 0 && d->size != 1 && d->size != 2 && d->size != 4 && d->size != 8)
		return -KEEL_EINVAL;
	if (pio && (d->size == 8 || d->address > 0xffff))
		return -KEEL_EINVAL;
	if (d->address > UINT64_MAX - 8 || (d->value & ~size_mask(d->size)) != 0)
		return -KEEL_EINVAL;
	return 0;
}

static bool same_write(const struct doorbell *a, const struct keel_hc_doorbell *d)
{
	bool match = d->flags & KEEL_DOORBELL_MATCH;

	return a->space == d->space && a->address == d->address &&
	       (a->size == d->size || a->size == 0 || d->size == 0) &&
	       (!a->match || !match || a->value == d->value);
}

int doorbell_add(struct doorbell_table *t, const struct keel_hc_doorbell *d)
{
	uint32_t b = bucket_of((uint8_t)d->space, d->address);
	int result = 0;

	spin_lock(&t->lock);
	for (uint16_t i = t->bucket[b]; i != DOORBELL_END; i = t->bells[i].next)
		if (same_write(&t->bells[i], d))
			result = -KEEL_EEXIST;
	if (t->bells[d->index].used)
		result = -KEEL_EBUSY;
	if (result == 0) {
		t->bells[d->index] = (struct doorbell){
		        .address = d->address,
		        .value = d->value,
		        .size = d->size,
		        .space = (uint8_t)d->space,
		        .match = d->flags & KEEL_DOORBELL_MATCH,
		        .used = true,
		        .next = t->bucket[b],
		};
		t->bucket[b] = (uint16_t)d->index;
		t->count++;
	}
	spin_unlock(&t->lock);
	return result;
}

int doorbell_remove(struct doorbell_table *t, uint32_t index)
{
	uint16_t *link;
	int result = -KEEL_ENOENT;

	if (index >= KEEL_MAX_DOORBELLS)
		return -KEEL_EINVAL;
	spin_lock(&t->lock);
	if (t->bells[index].used) {
		link = &t->bucket[bucket_of(t->bells[index].space, t->bells[index].address)];
		while (*link != index)
			link = &t->bells[*link].next;
		*link = t->bells[index].next;
		t->bells[index].used = false;
		t->count--;
		result = 0;
	}
	spin_unlock(&t->lock);
	return result;
}

int doorbell_find(
        struct doorbell_table *t, uint8_t space, uint64_t address, uint32_t size, uint64_t value)
{
	int found = -1;

	if (__atomic_load_n(&t->count, __ATOMIC_RELAXED) == 0)
		return -1;
	spin_lock(&t->lock);
	for (uint16_t i = t->bucket[bucket_of(space, address)]; i != DOORBELL_END && found < 0;
	        i = t->bells[i].next) {
		const struct doorbell *d = &t->bells[i];

		if (d->space == space && d->address == address &&
		        (d->size == 0 || d->size == size) &&
		        (!d->match || d->value == (value & size_mask(size))))
			found = i;
	}
	spin_unlock(&t->lock);
	return found;
}

bool doorbell_ring(struct keel_vm_shared *shared, unsigned index)
{
	uint64_t bit = 1ull << (index % 64);

	return !(__atomic_fetch_or(&shared->doorbells[index / 64], bit, __ATOMIC_SEQ_CST) & bit);
}
