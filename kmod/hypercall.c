// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Finds hyp and calls it. */
#define pr_fmt(fmt) "keel: " fmt

#include <linux/io.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <asm/alternative.h>
#include <asm/cpufeatures.h>
#include <asm/processor.h>

#include "abi/cpuid.h"
#include "kmod/keel.h"

/*
 * An argument block for each CPU, used with interrupts off, for the calls that come from atomic
 * context (an eventfd's wake-up) and for those that are too frequent to allocate. In the direct
 * map; 64-byte aligned, so never across a page.
 */
struct quick_block {
	u8 bytes[KEEL_QUICK_BYTES];
} __aligned(64);

static struct quick_block *quick_blocks;
phys_addr_t keel_root_shared_address;

static int hyp_enter(u32 number, phys_addr_t block, u32 bytes)
{
	long result;

	asm volatile(ALTERNATIVE("vmcall", "vmmcall", X86_FEATURE_VMMCALL)
	             : "=a"(result)
	             : "a"((u64)KEEL_HC_BASE + number), "b"(block), "c"((u64)bytes)
	             : "memory");
	if (result > 0 || result < -MAX_ERRNO)
		return -EIO;
	return (int)result;
}

int keel_hypercall(u32 number, void *args, u32 bytes)
{
	void *block = (void *)__get_free_page(GFP_KERNEL);
	int error;

	if (!block)
		return -ENOMEM;
	memcpy(block, args, bytes);
	error = hyp_enter(number, virt_to_phys(block), bytes);
	memcpy(args, block, bytes);
	free_page((unsigned long)block);
	return error;
}

int keel_hypercall_quick(u32 number, void *args, u32 bytes)
{
	struct quick_block *block;
	unsigned long flags;
	int error;

	if (WARN_ON_ONCE(bytes > KEEL_QUICK_BYTES))
		return -EINVAL;
	local_irq_save(flags);
	block = &quick_blocks[smp_processor_id()];
	memcpy(block->bytes, args, bytes);
	error = hyp_enter(number, virt_to_phys(block), bytes);
	memcpy(args, block->bytes, bytes);
	local_irq_restore(flags);
	return error;
}

int keel_hyp_detect(void)
{
	u32 highest, ebx, ecx, edx, version, role;

	cpuid(KEEL_CPUID_BASE, &highest, &ebx, &ecx, &edx);
	if (ebx != KEEL_CPUID_SIGNATURE_EBX || ecx != ebx || edx != ebx ||
	        highest < KEEL_CPUID_INFO) {
		pr_err("not running on keelOS (CPUID leaf %#x has no \"KeelKeelKeel\"): nothing to "
		       "do here\n",
		        KEEL_CPUID_BASE);
		return -ENODEV;
	}
	cpuid(KEEL_CPUID_INFO, &version, &role, &ecx, &edx);
	if (role != KEEL_ROLE_ROOT) {
		pr_err("this is a VM of keelOS, not its root: the module is for root alone\n");
		return -ENODEV;
	}
	if (version != KEEL_ABI_VERSION) {
		pr_err("hyp speaks version %u of the interface, this module %u: install the module "
		       "of hyp's release\n",
		        version, KEEL_ABI_VERSION);
		return -ENODEV;
	}
	keel_root_shared_address = ((phys_addr_t)edx << 32) | ecx;
	return 0;
}

int keel_hypercall_setup(void)
{
	BUILD_BUG_ON(sizeof(struct keel_hc_doorbell) > KEEL_QUICK_BYTES);
	/* A power of two, since kmalloc aligns those and no others. */
	quick_blocks = kcalloc(roundup_pow_of_two(nr_cpu_ids), sizeof(*quick_blocks), GFP_KERNEL);
	return quick_blocks ? 0 : -ENOMEM;
}

void keel_hypercall_teardown(void)
{
	kfree(quick_blocks);
}
