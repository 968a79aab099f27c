// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* From hyp's event bits to eventfds: doorbells, and the one that says that a VM wants something
 * else. */
#define pr_fmt(fmt) "keel: " fmt

#include <linux/bitops.h>
#include <linux/eventfd.h>
#include <linux/io.h>

#include "abi/cpuid.h"
#include "kmod/compat.h"
#include "kmod/keel.h"

/*
 * hyp sets a bit in the VM's shared area, then the VM's bit in root's event page, then raises the
 * interrupt if that word was 0. Here in the reverse order: the word is exchanged with 0 (a full
 * barrier), then each VM's area is looked at. A bit is taken only under the lock under which
 * listeners come and go, and only for a listener; a listener that comes looks for what was set
 * before.
 */
static struct keel_root_shared *root_shared;

/* Takes the rung doorbells of one word that have a listener, and signals them. Needs: signal_lock.
 */
static void signal_doorbells(struct keel_vm *vm, unsigned int word)
{
	atomic64_t *bits = (atomic64_t *)&vm->shared->doorbells[word];
	u64 rung = (u64)atomic64_read(bits) & vm->listened[word];

	if (!rung)
		return;
	rung &= (u64)atomic64_fetch_andnot((s64)rung, bits);
	for (; rung; rung &= rung - 1)
		keel_eventfd_signal(vm->doorbells[word * 64 + __ffs64(rung)]);
}

/* Exits and events are for the device process to take, in memory that it has mapped. Needs:
 * signal_lock. */
static void signal_notify(struct keel_vm *vm)
{
	if (!vm->notify)
		return;
	if (READ_ONCE(vm->shared->exit_pending) ||
	        READ_ONCE(vm->shared->events) & vm->notify_events)
		keel_eventfd_signal(vm->notify);
}

void keel_events_look(struct keel_vm *vm)
{
	unsigned long flags;
	unsigned int word;

	spin_lock_irqsave(&vm->signal_lock, flags);
	for (word = 0; word < ARRAY_SIZE(vm->listened); word++)
		signal_doorbells(vm, word);
	signal_notify(vm);
	spin_unlock_irqrestore(&vm->signal_lock, flags);
}

void keel_events_take(void)
{
	u64 pending = (u64)atomic64_xchg((atomic64_t *)&root_shared->vm_pending, 0);
	struct keel_vm *vm;

	rcu_read_lock();
	for (; pending; pending &= pending - 1) {
		vm = keel_vm_find(__ffs64(pending) + 1);
		if (vm)
			keel_events_look(vm);
	}
	rcu_read_unlock();
}

int keel_events_setup(void)
{
	root_shared = memremap(keel_root_shared_address, PAGE_SIZE, MEMREMAP_WB);
	if (!root_shared)
		return -ENOMEM;
	if (root_shared->magic == KEEL_ROOT_SHARED_MAGIC &&
	        root_shared->version == KEEL_ABI_VERSION)
		return 0;
	pr_err("no event page where hyp says it is\n");
	memunmap(root_shared);
	return -EIO;
}

void keel_events_teardown(void)
{
	memunmap(root_shared);
}

/* Puts a listener in place of another (either may be NULL), and gives it what is set already. */
static void doorbell_listen(struct keel_vm *vm, u32 index, struct eventfd_ctx *listener)
{
	struct eventfd_ctx *old;
	u64 bit = 1ull << index % 64;

	spin_lock_irq(&vm->signal_lock);
	old = vm->doorbells[index];
	vm->doorbells[index] = listener;
	if (listener)
		vm->listened[index / 64] |= bit;
	else
		vm->listened[index / 64] &= ~bit;
	signal_doorbells(vm, index / 64);
	spin_unlock_irq(&vm->signal_lock);
	if (old)
		eventfd_ctx_put(old);
}

/* hyp keeps doorbells when a device process dies: its successor puts its own in their place. */
static int doorbell_add(struct keel_hc_doorbell *doorbell)
{
	struct keel_hc_doorbell old = {.head = doorbell->head, .index = doorbell->index};
	struct keel_hc_doorbell again = *doorbell;
	int error = keel_hypercall_quick(KEEL_HC_DOORBELL_ADD, doorbell, sizeof(*doorbell));

	if (error != -EBUSY)
		return error;
	keel_hypercall_quick(KEEL_HC_DOORBELL_REMOVE, &old, sizeof(old));
	return keel_hypercall_quick(KEEL_HC_DOORBELL_ADD, &again, sizeof(again));
}

int keel_doorbell_set(struct keel_vm *vm, struct keel_ioc_doorbell *request)
{
	struct keel_hc_doorbell *doorbell = &request->doorbell;
	struct eventfd_ctx *listener;
	int error;

	doorbell->head.vm = vm->id;
	if (doorbell->index >= KEEL_MAX_DOORBELLS || request->remove > 1)
		return -EINVAL;
	if (request->remove) {
		doorbell_listen(vm, doorbell->index, NULL);
		return keel_hypercall_quick(KEEL_HC_DOORBELL_REMOVE, doorbell, sizeof(*doorbell));
	}
	listener = request->fd < 0 ? NULL : eventfd_ctx_fdget(request->fd);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	error = doorbell_add(doorbell);
	if (!error)
		doorbell_listen(vm, doorbell->index, listener);
	else if (listener)
		eventfd_ctx_put(listener);
	return error;
}

int keel_notify_set(struct keel_vm *vm, const struct keel_ioc_notify *request)
{
	struct eventfd_ctx *old, *listener;

	listener = request->fd < 0 ? NULL : eventfd_ctx_fdget(request->fd);
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	spin_lock_irq(&vm->signal_lock);
	old = vm->notify;
	vm->notify = listener;
	vm->notify_events = request->events;
	signal_notify(vm);
	spin_unlock_irq(&vm->signal_lock);
	if (old)
		eventfd_ctx_put(old);
	return 0;
}

/* The device process is gone: what is rung from now on stays set for its successor. */
void keel_listeners_drop(struct keel_vm *vm)
{
	const struct keel_ioc_notify nobody = {.fd = -1};
	u32 index;

	for (index = 0; index < KEEL_MAX_DOORBELLS; index++)
		if (vm->doorbells[index])
			doorbell_listen(vm, index, NULL);
	keel_notify_set(vm, &nobody);
}
