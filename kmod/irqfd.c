// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* From eventfds to interrupts: each signal raises an MSI in the VM, from the signaller's own
 * context. */
#define pr_fmt(fmt) "keel: " fmt

#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "kmod/keel.h"

/* More than a VM has vectors: bounds what a program that forgets to remove them can pile up. */
#define IRQFDS_MAX 4096u

/*
 * Sits on the eventfd's wait queue. Whoever signals the eventfd calls irqfd_wake under that queue's
 * lock, which also guards the route. The eventfd's context is held, so a descriptor that is closed
 * without being removed here does no harm: it stays silent until then.
 */
struct keel_irqfd {
	struct list_head link; /* irqfd_lock */
	u32 vm;
	struct eventfd_ctx *eventfd;
	struct wait_queue_head *queue;
	wait_queue_entry_t wait;
	poll_table table;
	u64 address; /* queue's lock */
	u32 data;    /* queue's lock */
};

/* Needs: the queue's lock. */
static void irqfd_raise(struct keel_irqfd *irqfd)
{
	struct keel_hc_irq block = {
	        .head.vm = irqfd->vm,
	        .address = irqfd->address,
	        .data = irqfd->data,
	};
	u64 count;

	eventfd_ctx_do_read(irqfd->eventfd, &count);
	keel_hypercall_quick(KEEL_HC_IRQ_MSI, &block, sizeof(block));
}

static int irqfd_wake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	if (!(key_to_poll(key) & EPOLLIN))
		return 0;
	irqfd_raise(container_of(wait, struct keel_irqfd, wait));
	return 1;
}

static void irqfd_queue(struct file *file, wait_queue_head_t *queue, poll_table *table)
{
	struct keel_irqfd *irqfd = container_of(table, struct keel_irqfd, table);

	irqfd->queue = queue;
	add_wait_queue(queue, &irqfd->wait);
}

static struct keel_irqfd *irqfd_find(struct keel_vm *vm, struct eventfd_ctx *eventfd)
{
	struct keel_irqfd *irqfd;

	list_for_each_entry(irqfd, &vm->irqfds, link) if (irqfd->eventfd == eventfd) return irqfd;
	return NULL;
}

/* Takes over the hold on the eventfd if it succeeds. Needs: irqfd_lock. */
static int irqfd_add(struct keel_vm *vm, struct file *file, struct eventfd_ctx *eventfd,
        const struct keel_ioc_irqfd *request)
{
	struct keel_irqfd *irqfd;

	if (vm->irqfd_count >= IRQFDS_MAX)
		return -ENOSPC;
	irqfd = kzalloc(sizeof(*irqfd), GFP_KERNEL_ACCOUNT);
	if (!irqfd)
		return -ENOMEM;
	irqfd->vm = vm->id;
	irqfd->eventfd = eventfd;
	irqfd->address = request->address;
	irqfd->data = request->data;
	init_waitqueue_func_entry(&irqfd->wait, irqfd_wake);
	init_poll_funcptr(&irqfd->table, irqfd_queue);
	list_add(&irqfd->link, &vm->irqfds);
	vm->irqfd_count++;
	/* Signals from before count too. */
	if (vfs_poll(file, &irqfd->table) & EPOLLIN) {
		spin_lock_irq(&irqfd->queue->lock);
		irqfd_raise(irqfd);
		spin_unlock_irq(&irqfd->queue->lock);
	}
	return 0;
}

/* Needs: irqfd_lock. Afterwards nothing raises for it any more. */
static void irqfd_remove(struct keel_vm *vm, struct keel_irqfd *irqfd)
{
	u64 count;

	eventfd_ctx_remove_wait_queue(irqfd->eventfd, &irqfd->wait, &count);
	eventfd_ctx_put(irqfd->eventfd);
	list_del(&irqfd->link);
	vm->irqfd_count--;
	kfree(irqfd);
}

int keel_irqfd_set(struct keel_vm *vm, const struct keel_ioc_irqfd *request)
{
	struct keel_irqfd *irqfd;
	struct eventfd_ctx *eventfd;
	struct file *file;
	int error = 0;

	if (request->remove > 1 || request->reserved)
		return -EINVAL;
	file = fget((unsigned int)request->fd);
	if (!file)
		return -EBADF;
	eventfd = eventfd_ctx_fileget(file);
	if (IS_ERR(eventfd)) {
		fput(file);
		return PTR_ERR(eventfd);
	}
	mutex_lock(&vm->irqfd_lock);
	irqfd = irqfd_find(vm, eventfd);
	if (!irqfd && !request->remove) {
		error = irqfd_add(vm, file, eventfd, request);
		if (!error)
			eventfd = NULL;
	} else if (!irqfd) {
		error = -ENOENT;
	} else if (request->remove) {
		irqfd_remove(vm, irqfd);
	} else {
		spin_lock_irq(&irqfd->queue->lock);
		irqfd->address = request->address;
		irqfd->data = request->data;
		spin_unlock_irq(&irqfd->queue->lock);
	}
	mutex_unlock(&vm->irqfd_lock);
	if (eventfd)
		eventfd_ctx_put(eventfd);
	fput(file);
	return error;
}

void keel_irqfds_drop(struct keel_vm *vm)
{
	struct keel_irqfd *irqfd, *next;

	mutex_lock(&vm->irqfd_lock);
	list_for_each_entry_safe(irqfd, next, &vm->irqfds, link) irqfd_remove(vm, irqfd);
	mutex_unlock(&vm->irqfd_lock);
}
