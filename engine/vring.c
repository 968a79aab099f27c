/* SPDX-License-Identifier: BSD-2-Clause */
/* The walk over a split virtqueue and the order of its stores; the reasons are in vring.h. */
#include "engine/vring.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "lib/store_hook.h"

#define STORE(place, value)                                                                        \
	do {                                                                                       \
		STORE_HOOK(false, #place);                                                         \
		__atomic_store_n(&(place), (value), __ATOMIC_RELEASE);                             \
		STORE_HOOK(true, #place);                                                          \
	} while (0)
#define LOAD(place)         __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define LOAD_ACQUIRE(place) __atomic_load_n(&(place), __ATOMIC_ACQUIRE)

static_assert(VRING_IOV_MAX * sizeof(struct iovec) < 20480, "a vring is small");

/* virtio 1.2 §2.7.10: has idx passed event since it was old? */
static bool event_passed(uint16_t event, uint16_t idx, uint16_t old)
{
	return (uint16_t)(idx - event - 1) < (uint16_t)(idx - old);
}

static uint16_t *used_event(struct vring *vr)
{
	return &vr->avail->ring[vr->size];
}

/* Lies behind used.ring[size]. */
static uint16_t *avail_event(struct vring *vr)
{
	return (uint16_t *)(void *)&vr->used->ring[vr->size];
}

static uint16_t slot_of(const struct vring *vr, unsigned idx)
{
	return (uint16_t)(idx & (vr->size - 1u));
}

static int vring_break(struct vring *vr, const char *why)
{
	vr->broken = why;
	return -1;
}

/* ---- attach ---------------------------------------------------------------------------------- */

size_t vring_inflight_bytes(unsigned size)
{
	return sizeof(struct inflight_region) + size * sizeof(struct inflight_desc);
}

static int rings_map(struct vring *vr, const struct vring_config *c)
{
	if (!c->size || c->size > VRING_SIZE_MAX || (c->size & (c->size - 1)))
		return -EINVAL;
	if (c->desc_gpa % VIRTQ_DESC_ALIGN || c->avail_gpa % VIRTQ_AVAIL_ALIGN ||
	        c->used_gpa % VIRTQ_USED_ALIGN)
		return -EINVAL;
	if ((uintptr_t)c->inflight % 8 || c->inflight_bytes < vring_inflight_bytes(c->size))
		return -EINVAL;
	vr->desc = memtable_map(c->mem, c->desc_gpa, VIRTQ_DESC_BYTES(c->size));
	vr->avail = memtable_map(c->mem, c->avail_gpa, VIRTQ_AVAIL_BYTES(c->size));
	vr->used = memtable_map(c->mem, c->used_gpa, VIRTQ_USED_BYTES(c->size));
	return vr->desc && vr->avail && vr->used ? 0 : -EFAULT;
}

/* A fresh region: both rings start at start_idx, whatever old memory holds (C-51). */
static void log_format(struct vring *vr, uint16_t start_idx)
{
	struct inflight_region *log = vr->log;

	memset(log, 0, vring_inflight_bytes(vr->size));
	STORE(log->desc_num, vr->size);
	STORE(log->used_idx, start_idx);
	STORE(vr->used->idx, start_idx);
	STORE(log->version, INFLIGHT_VERSION);
}

/* Closes a batch that was published but not cleared from the log. */
static int log_repair(struct vring *vr)
{
	struct inflight_region *log = vr->log;
	uint16_t used_idx = LOAD(vr->used->idx);
	uint16_t batch = (uint16_t)(used_idx - log->used_idx);
	uint16_t head = log->last_batch_head;

	/* The guest can write used.idx. It harms itself, but within bounds. */
	if (batch > vr->size)
		return -EPROTO;
	for (unsigned i = 0; i < batch; i++) {
		if (head >= vr->size)
			return -EPROTO;
		STORE(log->desc[head].inflight, 0);
		head = log->desc[head].next;
	}
	STORE(log->used_idx, used_idx);
	return 0;
}

static int log_open(struct vring *vr, uint16_t start_idx)
{
	struct inflight_region *log = vr->log;

	if (!log->version) {
		log_format(vr, start_idx);
		return 0;
	}
	if (log->version != INFLIGHT_VERSION || log->desc_num != vr->size)
		return -EPROTO;
	vr->call_due = true;
	return log_repair(vr);
}

int vring_attach(struct vring *vr, const struct vring_config *config)
{
	int rc;

	memset(vr, 0, offsetof(struct vring, iov));
	vr->mem = config->mem;
	vr->size = (uint16_t)config->size;
	vr->event_idx = config->features & VIRTIO_BIT(VIRTIO_F_EVENT_IDX);
	vr->indirect = config->features & VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC);
	rc = rings_map(vr, config);
	if (rc)
		return rc;
	vr->log = config->inflight;
	rc = log_open(vr, config->start_idx);
	if (rc)
		return rc;
	for (unsigned i = 0; i < vr->size; i++) {
		const struct inflight_desc *d = &vr->log->desc[i];

		if (!d->inflight)
			continue;
		vr->inflight++;
		if (d->counter >= vr->counter)
			vr->counter = d->counter + 1;
	}
	vr->resubmit_left = vr->inflight;
	vr->used_idx = vr->log->used_idx;
	vr->signalled = vr->used_idx;
	vr->last_avail = (uint16_t)(vr->used_idx + vr->inflight);
	vr->avail_seen = vr->last_avail;
	vring_notify_off(vr);
	return 0;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* Copies a descriptor once. The barrier keeps the compiler from reading guest memory again later
 * (C-14). An indirect table may lie at any address. */
static struct virtq_desc desc_copy(const struct virtq_desc *table, unsigned i)
{
	struct virtq_desc d;

	memcpy(&d, (const uint8_t *)table + i * sizeof(d), sizeof(d));
	__asm__ volatile("" ::: "memory");
	return d;
}

/* A buffer across regions, or outside of them. */
static enum vring_fault chain_add_parts(
        struct vring *vr, struct vring_chain *c, const struct virtq_desc *d, unsigned used)
{
	bool write = d->flags & VIRTQ_DESC_F_WRITE;
	int n = memtable_to_iov(vr->mem, d->addr, d->len, &c->iov[used], VRING_IOV_MAX - used);
	const struct iovec *last = &c->iov[used] + n - 1;

	if (n == -ENOSPC)
		return VRING_FAULT_LENGTH;
	if (n < 0) {
		if (write)
			c->last_byte = NULL;
		return VRING_FAULT_BUFFER;
	}
	if (write)
		c->last_byte = (uint8_t *)last->iov_base + last->iov_len - 1;
	*(write ? &c->writable_count : &c->readable_count) += (unsigned)n;
	return VRING_FAULT_NONE;
}

/* Appends a buffer to its part of the chain, joined with the one before where they touch. */
static enum vring_fault chain_add(
        struct vring *vr, struct vring_chain *c, const struct virtq_desc *d)
{
	bool write = d->flags & VIRTQ_DESC_F_WRITE;
	unsigned used = c->readable_count + c->writable_count;
	unsigned *count = write ? &c->writable_count : &c->readable_count;
	uint8_t *at;

	if (!write && c->writable_bytes)
		return VRING_FAULT_ORDER;
	if (!d->len)
		return VRING_FAULT_NONE;
	if (c->readable_bytes + c->writable_bytes + d->len > UINT32_MAX)
		return VRING_FAULT_LENGTH;
	*(write ? &c->writable_bytes : &c->readable_bytes) += d->len;
	at = memtable_find(vr->mem, d->addr, d->len);
	if (!at || used == VRING_IOV_MAX)
		return chain_add_parts(vr, c, d, used);
	if (write)
		c->last_byte = at + d->len - 1;
	if (*count && (uint8_t *)c->iov[used - 1].iov_base + c->iov[used - 1].iov_len == at) {
		c->iov[used - 1].iov_len += d->len;
		return VRING_FAULT_NONE;
	}
	c->iov[used] = (struct iovec){at, d->len};
	++*count;
	return VRING_FAULT_NONE;
}

/* virtio 1.2 §2.7.5.3: the table that an indirect descriptor points to. */
static const struct virtq_desc *indirect_table(
        struct vring *vr, const struct virtq_desc *d, const struct virtq_desc *from)
{
	if (!vr->indirect || from != vr->desc || (d->flags & VIRTQ_DESC_F_NEXT) ||
	        d->len % sizeof(*d))
		return NULL;
	return memtable_map(vr->mem, d->addr, d->len);
}

static enum vring_fault chain_walk(struct vring *vr, struct vring_chain *c)
{
	const struct virtq_desc *table = vr->desc;
	unsigned table_size = vr->size;
	unsigned steps_max = vr->size;
	enum vring_fault kept = VRING_FAULT_NONE;
	unsigned i = c->head;

	for (unsigned steps = 0;; steps++) {
		enum vring_fault fault;
		struct virtq_desc d;

		if (i >= table_size)
			return VRING_FAULT_INDEX;
		if (steps == steps_max)
			return VRING_FAULT_LENGTH;
		d = desc_copy(table, i);
		if (d.flags & VIRTQ_DESC_F_INDIRECT) {
			table = indirect_table(vr, &d, table);
			if (!table)
				return VRING_FAULT_INDIRECT;
			table_size = d.len / (unsigned)sizeof(d);
			steps_max = VRING_CHAIN_MAX;
			i = 0;
			continue;
		}
		fault = chain_add(vr, c, &d);
		if (fault == VRING_FAULT_BUFFER)
			kept = fault;
		else if (fault)
			return fault;
		if (!(d.flags & VIRTQ_DESC_F_NEXT))
			return kept;
		i = d.next;
	}
}

static void chain_load(struct vring *vr, uint16_t head, struct vring_chain *chain)
{
	memset(chain, 0, sizeof(*chain));
	chain->head = head;
	chain->iov = vr->iov;
	chain->fault = chain_walk(vr, chain);
}

/* The request in flight with the next higher (counter, head). Needs: resubmit_left. */
static int resubmit_next(struct vring *vr)
{
	const struct inflight_desc *desc = vr->log->desc;
	int best = -1;

	for (int i = 0; i < vr->size; i++) {
		uint64_t counter = desc[i].counter;

		if (!desc[i].inflight)
			continue;
		if (vr->resubmit_begun &&
		        (counter < vr->resubmit_counter ||
		                (counter == vr->resubmit_counter && i <= vr->resubmit_head)))
			continue;
		if (best < 0 || counter < desc[best].counter)
			best = i;
	}
	return best;
}

static int resubmit_pop(struct vring *vr, struct vring_chain *chain)
{
	int head = resubmit_next(vr);

	if (head < 0 || vr->taken[head])
		return vring_break(vr, "the in-flight log changed under the queue");
	vr->taken[head] = true;
	vr->resubmit_left--;
	vr->resubmit_begun = true;
	vr->resubmit_head = (uint16_t)head;
	vr->resubmit_counter = vr->log->desc[head].counter;
	chain_load(vr, (uint16_t)head, chain);
	return 1;
}

static bool avail_look(struct vring *vr)
{
	/* Pairs with the driver's release of avail.idx: entries and descriptors before it are
	 * there. */
	vr->avail_seen = LOAD_ACQUIRE(vr->avail->idx);
	return vr->avail_seen != vr->last_avail;
}

bool vring_pending(struct vring *vr)
{
	if (vr->broken)
		return false;
	if (vr->resubmit_left || vr->avail_seen != vr->last_avail)
		return true;
	return avail_look(vr);
}

int vring_pop(struct vring *vr, struct vring_chain *chain)
{
	struct inflight_desc *d;
	uint16_t head;

	if (vr->broken)
		return -1;
	if (vr->resubmit_left)
		return resubmit_pop(vr, chain);
	if (vr->avail_seen == vr->last_avail && !avail_look(vr))
		return 0;
	/* With those in flight, so that no log that was tampered with brings one twice. */
	if ((uint16_t)(vr->avail_seen - vr->last_avail) + vr->inflight > vr->size)
		return vring_break(vr, "avail.idx is more than a queue ahead");
	head = LOAD(vr->avail->ring[slot_of(vr, vr->last_avail)]);
	if (head >= vr->size)
		return vring_break(vr, "a head in the available ring is no descriptor");
	d = &vr->log->desc[head];
	if (d->inflight | vr->taken[head])
		return vring_break(vr, "a head was made available while it was in flight");
	vr->taken[head] = true;
	STORE(d->counter, vr->counter);
	STORE(d->inflight, 1);
	vr->counter++;
	vr->last_avail++;
	vr->inflight++;
	chain_load(vr, head, chain);
	return 1;
}

/* ---- giving back ----------------------------------------------------------------------------- */

void vring_put(struct vring *vr, uint16_t head, uint32_t written_bytes)
{
	struct virtq_used_elem *elem = &vr->used->ring[slot_of(vr, vr->used_idx + vr->batch)];
	struct inflight_region *log = vr->log;

	assert(head < vr->size && vr->taken[head] && vr->batch < vr->inflight);
	vr->taken[head] = false;
	STORE(elem->id, head);
	STORE(elem->len, written_bytes);
	STORE(log->desc[head].next, log->last_batch_head);
	STORE(log->last_batch_head, head);
	vr->batch++;
}

void vring_publish(struct vring *vr)
{
	struct inflight_region *log = vr->log;
	uint16_t used_idx = (uint16_t)(vr->used_idx + vr->batch);
	uint16_t head = log->last_batch_head;

	if (!vr->batch)
		return;
	/* Pairs with the driver's load of used.idx before it reads used.ring. */
	STORE(vr->used->idx, used_idx);
	for (unsigned i = 0; i < vr->batch; i++) {
		head = slot_of(vr, head);
		STORE(log->desc[head].inflight, 0);
		head = log->desc[head].next;
	}
	STORE(log->used_idx, used_idx);
	vr->used_idx = used_idx;
	vr->inflight = (uint16_t)(vr->inflight - vr->batch);
	vr->batch = 0;
}

bool vring_take_call(struct vring *vr)
{
	uint16_t old = vr->signalled;

	if (vr->call_due) {
		vr->call_due = false;
		vr->signalled = vr->used_idx;
		return true;
	}
	if (vr->used_idx == old)
		return false;
	vr->signalled = vr->used_idx;
	/* Pairs with the driver's fence between used_event (avail.flags) and its look at used.idx.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (vr->event_idx)
		return event_passed(LOAD(*used_event(vr)), vr->used_idx, old);
	return !(LOAD(vr->avail->flags) & VIRTQ_AVAIL_F_NO_INTERRUPT);
}

/* ---- kicks ----------------------------------------------------------------------------------- */

void vring_notify_off(struct vring *vr)
{
	if (vr->notify_is_off)
		return;
	/* A ring's length behind what was taken: no step that the driver can make, and none that it
	 * is in the midst of, passes there until the index wraps. Left at vring_notify_on's value
	 * it would ask for a kick at the very next request. */
	if (vr->event_idx)
		STORE(*avail_event(vr), (uint16_t)(vr->last_avail - vr->size - 1u));
	else
		STORE(vr->used->flags, VIRTQ_USED_F_NO_NOTIFY);
	vr->notify_is_off = true;
}

bool vring_notify_on(struct vring *vr)
{
	if (vr->event_idx)
		STORE(*avail_event(vr), vr->last_avail);
	else
		STORE(vr->used->flags, 0);
	vr->notify_is_off = false;
	/* Pairs with the driver's fence between avail.idx and its look at avail_event (used.flags).
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return vring_pending(vr);
}
