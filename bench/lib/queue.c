/* SPDX-License-Identifier: BSD-2-Clause */
/* The driver's side of a split ring, as Linux's driver plays it. */
#include <poll.h>
#include <unistd.h>

#include "bench/lib/queue.h"

/* virtio 1.2 §2.7.10 */
static bool event_passed(uint16_t event, uint16_t idx, uint16_t old)
{
	return (uint16_t)(idx - event - 1) < (uint16_t)(idx - old);
}

void queue_add(struct queue *q, uint16_t head)
{
	q->avail->ring[q->avail_idx & (q->size - 1)] = head;
	q->avail_idx++;
}

void queue_publish(struct queue *q)
{
	uint16_t *avail_event = (uint16_t *)(void *)&q->used->ring[q->size];
	uint16_t old = q->kicked_idx;
	uint64_t one = 1;
	bool kick;

	if (old == q->avail_idx)
		return;
	__atomic_store_n(&q->avail->idx, q->avail_idx, __ATOMIC_RELEASE);
	q->kicked_idx = q->avail_idx;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (q->event_idx)
		kick = event_passed(
		        __atomic_load_n(avail_event, __ATOMIC_RELAXED), q->avail_idx, old);
	else
		kick = !(__atomic_load_n(&q->used->flags, __ATOMIC_RELAXED) &
		         VRING_USED_F_NO_NOTIFY);
	if (!kick)
		return;
	q->kicks++;
	/* Full is as good. */
	if (write(q->kick_fd, &one, sizeof(one)) < 0)
		return;
}

bool queue_take(struct queue *q, struct vring_used_elem *out)
{
	if (__atomic_load_n(&q->used->idx, __ATOMIC_ACQUIRE) == q->used_seen)
		return false;
	*out = q->used->ring[q->used_seen & (q->size - 1)];
	q->used_seen++;
	return true;
}

bool queue_want_call(struct queue *q)
{
	if (q->event_idx)
		__atomic_store_n(&q->avail->ring[q->size], q->used_seen, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&q->avail->flags, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&q->used->idx, __ATOMIC_ACQUIRE) != q->used_seen;
}

bool queue_wait(struct queue *q, int timeout_ms)
{
	struct pollfd p = {q->call_fd, POLLIN, 0};
	uint64_t count;

	if (poll(&p, 1, timeout_ms) != 1)
		return false;
	if (read(q->call_fd, &count, sizeof(count)) == sizeof(count))
		q->calls++;
	if (!q->event_idx)
		__atomic_store_n(&q->avail->flags, VRING_AVAIL_F_NO_INTERRUPT, __ATOMIC_RELAXED);
	return true;
}
