// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A VM as a descriptor: opening with or without the right to serve it, its ioctls, its end. */
#define pr_fmt(fmt) "keel: " fmt

#include <linux/anon_inodes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "kmod/keel.h"

/* How long opening and destroying wait for I/O that a dead process left behind. */
#define IDLE_WAIT_MS 2000u

DEFINE_MUTEX(keel_vms_lock);
/* Index: the VM's bit in the event page, id - 1. Written under keel_vms_lock, read by the
 * interrupt under RCU. */
static struct keel_vm __rcu *vms[KEEL_MAX_VMS];

struct keel_vm *keel_vm_find(u32 id)
{
	return rcu_dereference(vms[id - 1]);
}

static void vm_publish(struct keel_vm *vm)
{
	rcu_assign_pointer(vms[vm->id - 1], vm);
}

/* Afterwards no interrupt looks at the VM's shared area any more. */
static void vm_unpublish(struct keel_vm *vm)
{
	if (rcu_access_pointer(vms[vm->id - 1]) != vm)
		return;
	RCU_INIT_POINTER(vms[vm->id - 1], NULL);
	synchronize_rcu();
}

static struct keel_vm *vm_new(u32 id)
{
	struct keel_vm *vm = kzalloc(sizeof(*vm), GFP_KERNEL);

	if (!vm)
		return NULL;
	vm->id = id;
	init_rwsem(&vm->alive);
	spin_lock_init(&vm->signal_lock);
	mutex_init(&vm->irqfd_lock);
	INIT_LIST_HEAD(&vm->irqfds);
	return vm;
}

/* Makes the module's picture of a VM from what hyp says. Needs: keel_vms_lock. */
static struct keel_vm *vm_attach(u32 id)
{
	struct keel_hc_vm_info info = {.head.vm = id};
	int error = keel_hypercall(KEEL_HC_VM_INFO, &info, sizeof(info));
	struct keel_vm *vm;

	if (error || info.head.vm != id)
		return ERR_PTR(error ? error : -ENOENT);
	vm = vm_new(id);
	if (!vm)
		return ERR_PTR(-ENOMEM);
	error = keel_memory_attach(vm, info.ram_bytes, info.vault_bytes);
	if (error) {
		kfree(vm);
		return ERR_PTR(error);
	}
	vm_publish(vm);
	return vm;
}

/* Counts one more open; with the right to serve the VM only if nobody has it. */
static struct keel_vm *vm_take(u32 id, bool device)
{
	struct keel_vm *vm;

	mutex_lock(&keel_vms_lock);
	vm = rcu_dereference_protected(vms[id - 1], lockdep_is_held(&keel_vms_lock));
	if (!vm)
		vm = vm_attach(id);
	else if (device && vm->device_held)
		vm = ERR_PTR(-EBUSY);
	if (!IS_ERR(vm)) {
		vm->opens++;
		vm->device_held |= device;
	}
	mutex_unlock(&keel_vms_lock);
	return vm;
}

static void vm_put(struct keel_vm *vm, bool device)
{
	bool last;

	mutex_lock(&keel_vms_lock);
	if (device)
		vm->device_held = false;
	last = --vm->opens == 0;
	if (last)
		vm_unpublish(vm);
	mutex_unlock(&keel_vms_lock);
	if (!last)
		return;
	keel_memory_detach(vm);
	kfree(vm);
}

/*
 * Ends a VM. Its pages belong to somebody else as soon as hyp has it freed: so first no new mapping
 * can be made, then none is left and no I/O refers to a page, then the interrupt has let go of the
 * shared area. If hyp refuses, everything is as before.
 */
static int vm_destroy(struct keel_vm *vm)
{
	struct keel_hc_vm block = {.head.vm = vm->id};
	int error = -ENODEV;

	down_write(&vm->alive);
	if (vm->destroyed)
		goto out;
	error = -EBUSY;
	if (atomic_cmpxchg(&vm->mappings, 0, INT_MIN) != 0)
		goto out;
	error = keel_memory_wait_idle(vm, IDLE_WAIT_MS);
	if (!error) {
		/* Held until nothing of ours can reach a new VM of the same id. */
		mutex_lock(&keel_vms_lock);
		vm_unpublish(vm);
		error = keel_hypercall(KEEL_HC_VM_DESTROY, &block, sizeof(block));
		if (error) {
			vm_publish(vm);
			keel_events_look(vm);
		} else {
			keel_irqfds_drop(vm);
		}
		mutex_unlock(&keel_vms_lock);
	}
	if (error)
		atomic_set(&vm->mappings, 0);
	else
		vm->destroyed = true;
out:
	up_write(&vm->alive);
	return error;
}

static int vm_listen(struct keel_vm *vm, unsigned int command, void __user *user)
{
	union {
		struct keel_ioc_doorbell doorbell;
		struct keel_ioc_irqfd irqfd;
		struct keel_ioc_notify notify;
	} request;
	int error = -ENODEV;

	if (copy_from_user(&request, user, _IOC_SIZE(command)))
		return -EFAULT;
	down_read(&vm->alive);
	if (vm->destroyed)
		goto out;
	switch (command) {
	case KEEL_IOC_DOORBELL: error = keel_doorbell_set(vm, &request.doorbell); break;
	case KEEL_IOC_IRQFD: error = keel_irqfd_set(vm, &request.irqfd); break;
	default: error = keel_notify_set(vm, &request.notify);
	}
out:
	up_read(&vm->alive);
	return error;
}

static long vm_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	const struct keel_vm_file *open = file->private_data;
	const struct keel_call *call = keel_call_find(command, KEEL_ON_VM);
	void __user *user = (void __user *)arg;

	if (call && (call->flags & KEEL_ON_DEVICE) && !open->device)
		return -EPERM;
	if (call)
		return keel_call_forward(call, open->vm, user);
	switch (command) {
	case KEEL_IOC_VM_DESTROY: return open->device ? vm_destroy(open->vm) : -EPERM;
	case KEEL_IOC_DOORBELL:
	case KEEL_IOC_IRQFD:
	case KEEL_IOC_NOTIFY: return open->device ? vm_listen(open->vm, command, user) : -EPERM;
	default: return -ENOTTY;
	}
}

static int vm_release(struct inode *inode, struct file *file)
{
	struct keel_vm_file *open = file->private_data;

	if (open->device) {
		keel_listeners_drop(open->vm);
		keel_irqfds_drop(open->vm);
	}
	vm_put(open->vm, open->device);
	kfree(open);
	return 0;
}

static const struct file_operations vm_fops = {
        .owner = THIS_MODULE,
        .release = vm_release,
        .unlocked_ioctl = vm_ioctl,
        .compat_ioctl = compat_ptr_ioctl,
        .mmap = keel_memory_mmap,
        .get_unmapped_area = thp_get_unmapped_area,
        .llseek = noop_llseek,
};

long keel_vm_open(u32 id, u32 flags)
{
	bool device = flags & KEEL_OPEN_DEVICE;
	struct keel_vm_file *open;
	struct keel_vm *vm;
	int fd;

	if (flags & ~KEEL_OPEN_DEVICE || id < 1 || id > KEEL_MAX_VMS)
		return -EINVAL;
	open = kzalloc(sizeof(*open), GFP_KERNEL);
	if (!open)
		return -ENOMEM;
	vm = vm_take(id, device);
	if (IS_ERR(vm)) {
		kfree(open);
		return PTR_ERR(vm);
	}
	open->vm = vm;
	open->device = device;
	/* A write of a dead process that is still on its way must not land after what its successor
	 * writes. */
	fd = device ? keel_memory_wait_idle(vm, IDLE_WAIT_MS) : 0;
	if (!fd)
		fd = anon_inode_getfd("[keel-vm]", &vm_fops, open, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		vm_put(vm, device);
		kfree(open);
	}
	return fd;
}

int keel_vm_create(void __user *user)
{
	struct keel_hc_vm_create block;
	int error;

	if (copy_from_user(&block, user, sizeof(block)))
		return -EFAULT;
	block.head.vm = 0;
	mutex_lock(&keel_vms_lock);
	error = keel_hypercall(KEEL_HC_VM_CREATE, &block, sizeof(block));
	mutex_unlock(&keel_vms_lock);
	if (!error && copy_to_user(user, &block, sizeof(block)))
		error = -EFAULT;
	return error;
}
