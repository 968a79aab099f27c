// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* /dev/keel, and the table of the ioctls that are a hypercall's own block. */
#define pr_fmt(fmt) "keel: " fmt

#include <linux/capability.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "kmod/keel.h"

/* Number and size of the hypercall are in the command. What creates, ends or takes a descriptor is
 * not here but in vm.c. */
static const struct keel_call calls[] = {
        {KEEL_IOC_INFO, KEEL_ON_ROOT},
        {KEEL_IOC_POOL_RANGES, KEEL_ON_ROOT},
        {KEEL_IOC_LOG_READ, KEEL_ON_ROOT},
        {KEEL_IOC_ROOT_STAGE, KEEL_ON_ROOT},
        {KEEL_IOC_ROOT_DATA, KEEL_ON_ROOT},
        {KEEL_IOC_ROOT_COMMIT, KEEL_ON_ROOT},
        {KEEL_IOC_ROOT_READY, KEEL_ON_ROOT},
        {KEEL_IOC_ROOT_BEAT, KEEL_ON_ROOT},
        {KEEL_IOC_ROOT_STATUS, KEEL_ON_ROOT},
        {KEEL_IOC_VM_INFO, KEEL_ON_ROOT | KEEL_ANY_VM | KEEL_ON_VM},
        {KEEL_IOC_COUNTERS, KEEL_ON_ROOT | KEEL_ON_VM},
        {KEEL_IOC_CONSOLE_READ, KEEL_ON_VM},
        {KEEL_IOC_CONSOLE_WRITE, KEEL_ON_VM},
        {KEEL_IOC_VM_RUN, KEEL_ON_VM | KEEL_ON_DEVICE},
        {KEEL_IOC_VM_PAUSE, KEEL_ON_VM | KEEL_ON_DEVICE},
        {KEEL_IOC_VM_RESET, KEEL_ON_VM | KEEL_ON_DEVICE},
        {KEEL_IOC_VCPU_GET, KEEL_ON_VM | KEEL_ON_DEVICE},
        {KEEL_IOC_VCPU_SET, KEEL_ON_VM | KEEL_ON_DEVICE},
        {KEEL_IOC_IRQ_MSI, KEEL_ON_VM | KEEL_ON_DEVICE | KEEL_QUICK},
        {KEEL_IOC_IRQ_PIN, KEEL_ON_VM | KEEL_ON_DEVICE | KEEL_QUICK},
        {KEEL_IOC_EXIT_COMPLETE, KEEL_ON_VM | KEEL_ON_DEVICE | KEEL_QUICK},
};

const struct keel_call *keel_call_find(u32 command, u32 place)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].command == command && (calls[i].flags & place))
			return &calls[i];
	return NULL;
}

/* Under the VM's lock: a call for one that is gone must not reach another that has got its id
 * since. */
static int call_hyp(const struct keel_call *call, struct keel_vm *vm, void *block)
{
	u32 number = _IOC_NR(call->command), bytes = _IOC_SIZE(call->command);
	int error;

	if (vm)
		down_read(&vm->alive);
	if (vm && vm->destroyed)
		error = -ENODEV;
	else if (call->flags & KEEL_QUICK)
		error = keel_hypercall_quick(number, block, bytes);
	else
		error = keel_hypercall(number, block, bytes);
	if (vm)
		up_read(&vm->alive);
	return error;
}

long keel_call_forward(const struct keel_call *call, struct keel_vm *vm, void __user *arg)
{
	u32 bytes = _IOC_SIZE(call->command), id = vm ? vm->id : 0;
	u8 small[KEEL_QUICK_BYTES] __aligned(8);
	struct keel_hc_head *head;
	void *block = small;
	long error = -EFAULT;

	if (!(call->flags & KEEL_QUICK))
		block = kmalloc(bytes, GFP_KERNEL);
	if (!block)
		return -ENOMEM;
	if (copy_from_user(block, arg, bytes))
		goto out;
	head = block;
	if (vm || !(call->flags & KEEL_ANY_VM))
		head->vm = id;
	error = call_hyp(call, vm, block);
	/* VM_INFO answers with the next VM when there is none of that id. */
	if (!error && vm && head->vm != id)
		error = -ENODEV;
	if (!error && copy_to_user(arg, block, bytes))
		error = -EFAULT;
out:
	if (block != small)
		kfree(block);
	return error;
}

static int root_open(struct inode *inode, struct file *file)
{
	return capable(CAP_SYS_ADMIN) ? 0 : -EPERM;
}

static long root_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	struct keel_ioc_open request;
	const struct keel_call *call;

	switch (command) {
	case KEEL_IOC_VM_CREATE: return keel_vm_create(user);
	case KEEL_IOC_VM_OPEN:
		if (copy_from_user(&request, user, sizeof(request)))
			return -EFAULT;
		return keel_vm_open(request.vm, request.flags);
	default: call = keel_call_find(command, KEEL_ON_ROOT);
	}
	return call ? keel_call_forward(call, NULL, user) : -ENOTTY;
}

static const struct file_operations root_fops = {
        .owner = THIS_MODULE,
        .open = root_open,
        .unlocked_ioctl = root_ioctl,
        .compat_ioctl = compat_ptr_ioctl,
        .llseek = noop_llseek,
};

static struct miscdevice root_device = {
        .minor = MISC_DYNAMIC_MINOR,
        .name = "keel",
        .fops = &root_fops,
        .mode = 0600,
};

/* One line that says what was found; also proves that the calls work before anything is offered. */
static int announce(void)
{
	struct keel_hc_info info = {};
	int error = keel_hypercall(KEEL_HC_INFO, &info, sizeof(info));

	if (error)
		pr_err("hyp refuses to say what it is (%d)\n", error);
	else
		pr_info("hyp %.*s, %u CPUs, pool %llu MiB, %u VMs\n", (int)sizeof(info.version),
		        info.version, info.cpus, info.pool_bytes >> 20, info.vms);
	return error;
}

int keel_start(void)
{
	int error = keel_hypercall_setup();

	if (error)
		return error;
	error = announce();
	if (error)
		goto no_hyp;
	error = keel_pool_setup();
	if (error)
		goto no_hyp;
	error = keel_events_setup();
	if (error)
		goto no_events;
	error = misc_register(&root_device);
	if (error)
		goto no_device;
	return 0;

no_device:
	keel_events_teardown();
no_events:
	keel_pool_teardown();
no_hyp:
	keel_hypercall_teardown();
	return error;
}

void keel_stop(void)
{
	misc_deregister(&root_device);
	keel_events_teardown();
	keel_pool_teardown();
	keel_hypercall_teardown();
}
