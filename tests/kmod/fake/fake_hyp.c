// SPDX-License-Identifier: BSD-2-Clause
/* A hyp in a kernel thread, so that the module is tested on any Linux: a pool of reserved memory,
 * VMs without CPUs. */
#define pr_fmt(fmt) "keel_fake: " fmt

#include <linux/delay.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mm.h>

#include "abi/cpuid.h"
#include "kmod/keel.h"
#include "tests/kmod/guest.h"

/*
 * In the place of hypercall.c and pci.c. The pool is memory that the command line keeps from Linux
 * (memmap=SIZE$START). A VM has no CPU: while it runs, the thread does to its memory what the
 * tests' guest program does (tests/kmod/guest.h). The interrupt is a call.
 */
static ulong pool_start;
module_param(pool_start, ulong, 0400);
static ulong pool_bytes;
module_param(pool_bytes, ulong, 0400);

#define FRAMES_MAX 1024u

struct fake_vm {
	struct keel_hc_vm_create made;
	u32 state;
	u32 frames[2][FRAMES_MAX];
	struct keel_hc_doorbell doorbells[KEEL_MAX_DOORBELLS];
	bool rings[KEEL_MAX_DOORBELLS];
};

phys_addr_t keel_root_shared_address;
static struct keel_root_shared *root_shared;
static DEFINE_SPINLOCK(lock);
static struct fake_vm *vms[KEEL_MAX_VMS + 1];
static u32 frame_owner[FRAMES_MAX];
static u32 interrupts[KEEL_MAX_VMS + 1];
static struct task_struct *thread;

static u32 frames(void)
{
	return min_t(u32, pool_bytes >> KEEL_FRAME_SHIFT, FRAMES_MAX);
}

static void *frame_address(u32 frame)
{
	return __va(pool_start + ((u64)frame << KEEL_FRAME_SHIFT));
}

static struct keel_vm_shared *shared_of(const struct fake_vm *vm)
{
	return frame_address(vm->frames[KEEL_REGION_VAULT][0]);
}

static int take_frames(u32 id, u32 *to, u64 bytes)
{
	u32 i, count = 0, wanted = bytes >> KEEL_FRAME_SHIFT;

	for (i = 0; i < frames() && count < wanted; i++) {
		if (frame_owner[i])
			continue;
		frame_owner[i] = id;
		to[count++] = i;
	}
	return count == wanted ? 0 : -ENOMEM;
}

static void free_frames(u32 id)
{
	u32 i;

	for (i = 0; i < frames(); i++)
		if (frame_owner[i] == id)
			frame_owner[i] = 0;
}

static u32 free_count(void)
{
	u32 i, count = 0;

	for (i = 0; i < frames(); i++)
		count += !frame_owner[i];
	return count;
}

static int create(struct keel_hc_vm_create *c, struct fake_vm **spare)
{
	struct fake_vm *vm = *spare;
	u32 id, i;
	int error;

	for (id = 1; id <= KEEL_MAX_VMS; id++)
		if (vms[id] && !strcmp(vms[id]->made.name, c->name))
			return -EEXIST;
	for (id = 1; id <= KEEL_MAX_VMS && vms[id]; id++)
		;
	if (id > KEEL_MAX_VMS)
		return -ENOSPC;
	if (c->vcpus < 1 || c->vcpus > KEEL_MAX_VCPUS || !c->ram_bytes || !c->vault_bytes ||
	        !IS_ALIGNED(c->ram_bytes | c->vault_bytes, KEEL_FRAME_BYTES))
		return -EINVAL;
	if (c->ram_bytes + c->vault_bytes > pool_bytes)
		return -ENOMEM;
	error = take_frames(id, vm->frames[KEEL_REGION_RAM], c->ram_bytes);
	if (!error)
		error = take_frames(id, vm->frames[KEEL_REGION_VAULT], c->vault_bytes);
	if (error) {
		free_frames(id);
		return error;
	}
	c->head.vm = id;
	vm->made = *c;
	vm->state = KEEL_VM_STATE_PAUSED;
	for (i = 0; i < frames(); i++)
		if (frame_owner[i] == id)
			memset(frame_address(i), 0, KEEL_FRAME_BYTES);
	shared_of(vm)->magic = KEEL_VM_SHARED_MAGIC;
	shared_of(vm)->version = KEEL_ABI_VERSION;
	shared_of(vm)->vcpus = c->vcpus;
	vms[id] = vm;
	interrupts[id] = 0;
	*spare = NULL;
	return 0;
}

static int vm_info(struct keel_hc_vm_info *info)
{
	u32 id = info->head.vm;

	for (; id <= KEEL_MAX_VMS; id++) {
		if (!id || !vms[id])
			continue;
		info->head.vm = id;
		memcpy(info->name, vms[id]->made.name, sizeof(info->name));
		info->ram_bytes = vms[id]->made.ram_bytes;
		info->vault_bytes = vms[id]->made.vault_bytes;
		info->vcpus = vms[id]->made.vcpus;
		info->state = vms[id]->state;
		return 0;
	}
	return -ENOENT;
}

static int memory(const struct fake_vm *vm, struct keel_hc_vm_memory *m)
{
	u32 i, count;

	if (m->region > KEEL_REGION_VAULT || m->count > KEEL_MEMORY_CHUNKS)
		return -EINVAL;
	count = (m->region ? vm->made.vault_bytes : vm->made.ram_bytes) >> KEEL_FRAME_SHIFT;
	if (m->first >= count)
		return -EINVAL;
	m->count = min(m->count, count - m->first);
	for (i = 0; i < m->count; i++)
		m->hpa[i] = pool_start +
		            ((u64)vm->frames[m->region][m->first + i] << KEEL_FRAME_SHIFT);
	return 0;
}

static int doorbell_add(struct fake_vm *vm, const struct keel_hc_doorbell *d)
{
	if (d->index >= KEEL_MAX_DOORBELLS || d->space > KEEL_DOORBELL_MMIO || d->reserved)
		return -EINVAL;
	if (vm->rings[d->index])
		return -EBUSY;
	vm->rings[d->index] = true;
	vm->doorbells[d->index] = *d;
	return 0;
}

/* As hyp does it: the bit, then the VM's bit, then the interrupt if that word was 0. Needs: lock
 * not held. */
static void raise_event(u32 id)
{
	u64 bit = 1ull << (id - 1);

	if (atomic64_fetch_or(bit, (atomic64_t *)&root_shared->vm_pending))
		return;
	local_irq_disable();
	keel_events_take();
	local_irq_enable();
}

/* A write of the guest's: a doorbell rings, anything else waits for root. Returns whether to raise
 * the event. */
static bool guest_writes(struct fake_vm *vm, u16 port)
{
	struct keel_vm_shared *shared = shared_of(vm);
	struct keel_exit_slot *slot = &shared->slots[0];
	u32 i;

	for (i = 0; i < KEEL_MAX_DOORBELLS; i++) {
		if (!vm->rings[i] || vm->doorbells[i].address != port)
			continue;
		atomic64_fetch_or(1ull << i % 64, (atomic64_t *)&shared->doorbells[i / 64]);
		return true;
	}
	slot->kind = KEEL_EXIT_PIO_WRITE;
	slot->sequence++;
	slot->size = 1;
	slot->address = port;
	smp_store_release(&slot->state, KEEL_SLOT_PENDING);
	atomic64_fetch_or(1, (atomic64_t *)&shared->exit_pending);
	return true;
}

/* The guest program: looks at its command word, writes to that port, counts interrupts. */
static bool guest_step(u32 id)
{
	struct fake_vm *vm = vms[id];
	u32 *word;
	bool event = false;

	if (!vm || vm->state != KEEL_VM_STATE_RUNNING || shared_of(vm)->slots[0].state)
		return false;
	word = frame_address(vm->frames[KEEL_REGION_RAM][0]) + GUEST_COMMAND;
	if (READ_ONCE(*word)) {
		event = guest_writes(vm, (u16)READ_ONCE(*word));
		smp_store_release(word, 0);
	}
	word = frame_address(vm->frames[KEEL_REGION_RAM][0]) + GUEST_INTERRUPTS;
	WRITE_ONCE(*word, READ_ONCE(interrupts[id]));
	return event;
}

static int guests(void *unused)
{
	u32 id;

	while (!kthread_should_stop()) {
		for (id = 1; id <= KEEL_MAX_VMS; id++) {
			bool event;

			spin_lock_irq(&lock);
			event = guest_step(id);
			spin_unlock_irq(&lock);
			if (event)
				raise_event(id);
		}
		usleep_range(100, 200);
	}
	return 0;
}

static int exit_complete(struct fake_vm *vm, const struct keel_hc_exit *e)
{
	struct keel_exit_slot *slot;

	if (e->vcpu >= vm->made.vcpus)
		return -EINVAL;
	slot = &shared_of(vm)->slots[e->vcpu];
	if (slot->state != KEEL_SLOT_PENDING || slot->sequence != e->sequence)
		return -EAGAIN;
	slot->state = KEEL_SLOT_IDLE;
	return 0;
}

static int call_vm(u32 number, u32 id, void *block)
{
	struct fake_vm *vm = id <= KEEL_MAX_VMS ? vms[id] : NULL;
	struct keel_hc_doorbell *d = block;

	if (!vm)
		return -ENOENT;
	switch (number) {
	case KEEL_HC_VM_DESTROY:
		vms[id] = NULL;
		free_frames(id);
		kfree(vm);
		return 0;
	case KEEL_HC_VM_MEMORY: return memory(vm, block);
	case KEEL_HC_VM_RUN: vm->state = KEEL_VM_STATE_RUNNING; return 0;
	case KEEL_HC_VM_PAUSE: vm->state = KEEL_VM_STATE_PAUSED; return 0;
	case KEEL_HC_VCPU_SET: return 0;
	case KEEL_HC_DOORBELL_ADD: return doorbell_add(vm, d);
	case KEEL_HC_DOORBELL_REMOVE:
		if (d->index >= KEEL_MAX_DOORBELLS || !vm->rings[d->index])
			return -ENOENT;
		vm->rings[d->index] = false;
		return 0;
	case KEEL_HC_IRQ_MSI: interrupts[id]++; return 0;
	case KEEL_HC_EXIT_COMPLETE: return exit_complete(vm, block);
	default: return -ENOSYS;
	}
}

static int call(u32 number, void *block, struct fake_vm **spare)
{
	struct keel_hc_head *head = block;
	struct keel_hc_ranges *ranges = block;
	struct keel_hc_info *info = block;

	switch (number) {
	case KEEL_HC_INFO:
		strscpy(info->version, "fake", sizeof(info->version));
		info->cpus = 1;
		info->pool_bytes = (u64)frames() << KEEL_FRAME_SHIFT;
		info->pool_free_bytes = (u64)free_count() << KEEL_FRAME_SHIFT;
		return 0;
	case KEEL_HC_POOL_RANGES:
		/* Two ranges, as they lie below and above 4 GiB on a real machine. */
		ranges->count = 2;
		ranges->ranges[0].start = pool_start;
		ranges->ranges[0].bytes = KEEL_FRAME_BYTES * (frames() / 2);
		ranges->ranges[1].start = pool_start + ranges->ranges[0].bytes;
		ranges->ranges[1].bytes = KEEL_FRAME_BYTES * frames() - ranges->ranges[0].bytes;
		return 0;
	case KEEL_HC_VM_CREATE: return create(block, spare);
	case KEEL_HC_VM_INFO: return vm_info(block);
	case KEEL_HC_COUNTERS: return head->vm && !vms[head->vm] ? -ENOENT : 0;
	default: return call_vm(number, head->vm, block);
	}
}

int keel_hypercall(u32 number, void *block, u32 bytes)
{
	struct fake_vm *spare = NULL;
	unsigned long flags;
	int error;

	if (number == KEEL_HC_VM_CREATE)
		spare = kzalloc(sizeof(*spare), GFP_KERNEL);
	if (number == KEEL_HC_VM_CREATE && !spare)
		return -ENOMEM;
	spin_lock_irqsave(&lock, flags);
	error = call(number, block, &spare);
	spin_unlock_irqrestore(&lock, flags);
	kfree(spare);
	return error;
}

int keel_hypercall_quick(u32 number, void *args, u32 bytes)
{
	unsigned long flags;
	int error;

	spin_lock_irqsave(&lock, flags);
	error = call(number, args, NULL);
	spin_unlock_irqrestore(&lock, flags);
	return error;
}

int keel_hypercall_setup(void)
{
	return 0;
}

void keel_hypercall_teardown(void)
{
}

static int __init fake_init(void)
{
	int error;

	if (!frames() || !IS_ALIGNED(pool_start, KEEL_FRAME_BYTES))
		return -EINVAL;
	root_shared = (void *)get_zeroed_page(GFP_KERNEL);
	if (!root_shared)
		return -ENOMEM;
	root_shared->magic = KEEL_ROOT_SHARED_MAGIC;
	root_shared->version = KEEL_ABI_VERSION;
	keel_root_shared_address = virt_to_phys(root_shared);
	error = keel_start();
	if (error)
		goto not_started;
	thread = kthread_run(guests, NULL, "keel_fake");
	if (!IS_ERR(thread))
		return 0;
	error = PTR_ERR(thread);
	keel_stop();
not_started:
	free_page((unsigned long)root_shared);
	return error;
}

static void __exit fake_exit(void)
{
	u32 id;

	kthread_stop(thread);
	keel_stop();
	for (id = 1; id <= KEEL_MAX_VMS; id++)
		kfree(vms[id]);
	free_page((unsigned long)root_shared);
}

module_init(fake_init);
module_exit(fake_exit);
MODULE_DESCRIPTION("keelOS: the module's tests without hyp");
MODULE_LICENSE("Dual BSD/GPL");
