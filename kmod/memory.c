// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The pool as pages that Linux knows, and a VM's memory and vault as a mapping made of them. */
#define pr_fmt(fmt) "keel: " fmt

#include <linux/delay.h>
#include <linux/file.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "kmod/compat.h"
#include "kmod/keel.h"

/*
 * Each 2 MiB frame of the pool is one compound page of device memory (MEMORY_DEVICE_GENERIC, as
 * device-dax has it). They are mapped as ordinary pages: the fault handler returns the page and
 * Linux puts one 2 MiB entry, with the mapping and the reference counted. So O_DIRECT, vmsplice and
 * io_uring take them as they take any memory, a whole frame by one reference. (device-dax's own
 * way, entries marked as devmap, costs a reference a 4 KiB page and is being removed from Linux.)
 *
 * Making the pages writes to their descriptors and to the kernel's page tables, never to the pool
 * itself, where hyp refuses root anything that is not a VM's.
 */
static struct dev_pagemap *pool;

#define FRAME_ORDER (KEEL_FRAME_SHIFT - PAGE_SHIFT)

static int pool_add_range(u64 start, u64 bytes)
{
	struct range *range = &pool->ranges[pool->nr_range];

	if (!IS_ALIGNED(start | bytes, KEEL_FRAME_BYTES) || !bytes) {
		pr_err("pool range %#llx+%#llx is not made of 2 MiB frames\n", start, bytes);
		return -EINVAL;
	}
	if (!request_mem_region(start, bytes, "keelOS pool")) {
		pr_err("pool range %#llx+%#llx is taken by something else in root\n", start, bytes);
		return -EBUSY;
	}
	range->start = start;
	range->end = start + bytes - 1;
	pool->nr_range++;
	return 0;
}

static void pool_release_ranges(void)
{
	int i;

	for (i = 0; i < pool->nr_range; i++)
		release_mem_region(pool->ranges[i].start, range_len(&pool->ranges[i]));
}

static int pool_read_ranges(void)
{
	struct keel_hc_ranges block = {};
	int error = keel_hypercall(KEEL_HC_POOL_RANGES, &block, sizeof(block));
	u32 i;

	if (!error && (block.count < 1 || block.count > KEEL_MAX_POOL_RANGES))
		error = -EIO;
	for (i = 0; !error && i < block.count; i++)
		error = pool_add_range(block.ranges[i].start, block.ranges[i].bytes);
	return error;
}

static struct page *frame_page(u64 frame)
{
	return pfn_to_page(frame << FRAME_ORDER);
}

static bool pool_has_frame(u64 frame)
{
	u64 start = frame << KEEL_FRAME_SHIFT;
	int i;

	for (i = 0; i < pool->nr_range; i++)
		if (start >= pool->ranges[i].start && start < pool->ranges[i].end)
			return true;
	return false;
}

/* One reference is the pool's own; mappings and users of the memory have more. */
static bool frame_is_busy(u64 frame)
{
	return page_ref_count(frame_page(frame)) != 1;
}

/* Some kernels leave tail pages undone where a range shares a 128 MiB section with RAM: refuse to
 * run on them. */
static bool frame_is_unready(u64 frame)
{
	struct page *head = frame_page(frame), *last = head + KEEL_FRAME_BYTES / PAGE_SIZE - 1;

	return frame_is_busy(frame) || compound_order(head) != FRAME_ORDER ||
	       compound_head(last) != head;
}

/* The first frame of the pool that is so; 0: none. */
static u64 pool_find(bool (*is)(u64 frame))
{
	int i;
	u64 frame;

	for (i = 0; i < pool->nr_range; i++)
		for (frame = pool->ranges[i].start >> KEEL_FRAME_SHIFT;
		        frame <= pool->ranges[i].end >> KEEL_FRAME_SHIFT; frame++)
			if (is(frame))
				return frame;
	return 0;
}

int keel_pool_setup(void)
{
	void *mapped;
	int error;

	pool = kzalloc(struct_size(pool, ranges, KEEL_MAX_POOL_RANGES), GFP_KERNEL);
	if (!pool)
		return -ENOMEM;
	pool->type = MEMORY_DEVICE_GENERIC;
	pool->vmemmap_shift = FRAME_ORDER;
	error = pool_read_ranges();
	if (error)
		goto no_ranges;
	mapped = memremap_pages(pool, NUMA_NO_NODE);
	if (IS_ERR(mapped)) {
		error = PTR_ERR(mapped);
		pr_err("cannot make pages of the pool (%d)\n", error);
		goto no_ranges;
	}
	if (!pool_find(frame_is_unready))
		return 0;
	pr_err("this kernel did not set up the pages of the pool at frame %#llx\n",
	        pool_find(frame_is_unready));
	error = -EIO;
	memunmap_pages(pool);
no_ranges:
	pool_release_ranges();
	kfree(pool);
	return error;
}

/* I/O of a process that is gone may still hold pages: their descriptors must stay until it is done.
 */
void keel_pool_teardown(void)
{
	while (pool_find(frame_is_busy))
		msleep(10);
	memunmap_pages(pool);
	pool_release_ranges();
	kfree(pool);
}

int keel_memory_wait_idle(struct keel_vm *vm, unsigned int timeout_ms)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(timeout_ms);
	unsigned int i;
	u32 n;

	for (i = 0; i < ARRAY_SIZE(vm->regions); i++) {
		for (n = 0; n < vm->regions[i].count; n++) {
			while (frame_is_busy(vm->regions[i].frames[n])) {
				if (time_after(jiffies, deadline))
					return -EBUSY;
				if (fatal_signal_pending(current))
					return -EINTR;
				usleep_range(500, 2000);
			}
		}
	}
	return 0;
}

static int region_read_chunk(struct keel_region *region, struct keel_hc_vm_memory *block, u32 first)
{
	u32 i, wanted = min(region->count - first, KEEL_MEMORY_CHUNKS);
	int error;

	block->first = first;
	block->count = wanted;
	error = keel_hypercall(KEEL_HC_VM_MEMORY, block, sizeof(*block));
	if (error)
		return error;
	if (block->count != wanted)
		return -EIO;
	for (i = 0; i < wanted; i++) {
		u64 frame = block->hpa[i] >> KEEL_FRAME_SHIFT;

		if (!IS_ALIGNED(block->hpa[i], KEEL_FRAME_BYTES) || !pool_has_frame(frame))
			return -EIO;
		region->frames[first + i] = (u32)frame;
	}
	return 0;
}

static int region_read(struct keel_vm *vm, u32 index, u64 bytes)
{
	struct keel_hc_vm_memory *block = kzalloc(sizeof(*block), GFP_KERNEL);
	struct keel_region *region = &vm->regions[index];
	int error = -ENOMEM;
	u32 first;

	if (!block)
		return -ENOMEM;
	region->count = (u32)(bytes >> KEEL_FRAME_SHIFT);
	region->frames = kvmalloc_array(region->count, sizeof(*region->frames), GFP_KERNEL);
	if (!region->frames)
		goto out;
	block->head.vm = vm->id;
	block->region = index;
	error = 0;
	for (first = 0; !error && first < region->count; first += KEEL_MEMORY_CHUNKS)
		error = region_read_chunk(region, block, first);
out:
	kfree(block);
	return error;
}

int keel_memory_attach(struct keel_vm *vm, u64 ram_bytes, u64 vault_bytes)
{
	u64 limit = KEEL_MMAP_VAULT;
	int error = -EIO;

	BUILD_BUG_ON(sizeof(struct keel_hc_vm_memory) > PAGE_SIZE);
	BUILD_BUG_ON(sizeof(struct keel_vm_shared) > KEEL_VM_SHARED_BYTES);
	BUILD_BUG_ON(KEEL_VM_SHARED_BYTES > KEEL_FRAME_BYTES);
	if (!ram_bytes || !vault_bytes || ram_bytes > limit || vault_bytes > limit ||
	        !IS_ALIGNED(ram_bytes | vault_bytes, KEEL_FRAME_BYTES))
		return error;
	error = region_read(vm, KEEL_REGION_RAM, ram_bytes);
	if (!error)
		error = region_read(vm, KEEL_REGION_VAULT, vault_bytes);
	if (error) {
		pr_err("VM %u: cannot find its memory (%d)\n", vm->id, error);
		keel_memory_detach(vm);
		return error;
	}
	vm->shared = page_address(frame_page(vm->regions[KEEL_REGION_VAULT].frames[0]));
	return 0;
}

void keel_memory_detach(struct keel_vm *vm)
{
	kvfree(vm->regions[KEEL_REGION_RAM].frames);
	kvfree(vm->regions[KEEL_REGION_VAULT].frames);
}

/* The region that a page offset of the mapping lies in, and the offset in it. */
static struct keel_region *region_of(struct keel_vm *vm, pgoff_t *page_offset)
{
	pgoff_t vault = KEEL_MMAP_VAULT >> PAGE_SHIFT;

	if (*page_offset < vault)
		return &vm->regions[KEEL_REGION_RAM];
	*page_offset -= vault;
	return &vm->regions[KEEL_REGION_VAULT];
}

static struct keel_vm *vma_vm(const struct vm_area_struct *vma)
{
	const struct file *file = vma->vm_private_data;
	const struct keel_vm_file *open = file->private_data;

	return open->vm;
}

/*
 * A write to what is not mapped yet is answered by a read fault of the same place: the entry it
 * makes is writable, since the mapping is shared and nobody asked to hear of first writes. Linux'
 * own way for a write fault would go on to the mapping's file, and there is none
 * (keel_memory_mmap). With soft-dirty tracking (clear_refs) entries start read-only: that is
 * refused, else it would fault for ever.
 */
static vm_fault_t map_for_write(struct vm_fault *vmf)
{
	vm_fault_t result;

	if (!(pgprot_val(vmf->vma->vm_page_prot) & _PAGE_RW))
		return VM_FAULT_SIGBUS;
	result = handle_mm_fault(vmf->vma, vmf->address, vmf->flags & FAULT_FLAG_REMOTE, NULL);
	return result & VM_FAULT_ERROR ? result : VM_FAULT_NOPAGE;
}

static vm_fault_t memory_fault(struct vm_fault *vmf)
{
	struct keel_region *region;
	pgoff_t offset = vmf->pgoff;

	if (vmf->flags & FAULT_FLAG_WRITE)
		return map_for_write(vmf);
	region = region_of(vma_vm(vmf->vma), &offset);
	if (offset >> FRAME_ORDER >= region->count)
		return VM_FAULT_SIGBUS;
	vmf->page = frame_page(region->frames[offset >> FRAME_ORDER]) +
	            (offset & ((1ul << FRAME_ORDER) - 1));
	get_page(vmf->page);
	return 0;
}

/* A part of a mapping that was unmapped or protected: another one, with its own hold on the file.
 */
static void memory_open(struct vm_area_struct *vma)
{
	atomic_inc(&vma_vm(vma)->mappings);
	get_file(vma->vm_private_data);
}

static void memory_close(struct vm_area_struct *vma)
{
	atomic_dec(&vma_vm(vma)->mappings);
	fput(vma->vm_private_data);
}

static int memory_may_split(struct vm_area_struct *vma, unsigned long address)
{
	return IS_ALIGNED(address, KEEL_FRAME_BYTES) ? 0 : -EINVAL;
}

/* Moving could end at an address where frames do not fit. */
static int memory_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static const char *memory_name(struct vm_area_struct *vma)
{
	return vma->vm_pgoff < KEEL_MMAP_VAULT >> PAGE_SHIFT ? "[keel-ram]" : "[keel-vault]";
}

static const struct vm_operations_struct memory_ops = {
        .open = memory_open,
        .close = memory_close,
        .may_split = memory_may_split,
        .mremap = memory_mremap,
        .fault = memory_fault,
        .name = memory_name,
};

int keel_memory_mmap(struct file *file, struct vm_area_struct *vma)
{
	const struct keel_vm_file *open = file->private_data;
	pgoff_t pages = vma_pages(vma), offset = vma->vm_pgoff;
	const struct keel_region *region = region_of(open->vm, &offset);

	if (!open->device)
		return -EPERM;
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EINVAL;
	if (!IS_ALIGNED(vma->vm_start | vma->vm_end | offset << PAGE_SHIFT, KEEL_FRAME_BYTES) ||
	        (offset + pages) >> FRAME_ORDER > region->count)
		return -EINVAL;
	if (!atomic_inc_unless_negative(&open->vm->mappings))
		return -ENODEV;
	/* Not inherited: memory that is a VM's is not to be kept by a child that nobody counts on.
	 */
	keel_vma_flags(vma, VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY | VM_HUGEPAGE, VM_MAYEXEC);
	vma->vm_ops = &memory_ops;
	/*
	 * The mapping has no file, like anonymous memory; its hold on the file is ours. io_uring
	 * before 6.5 registers no buffer in the mapping of a file, and later kernels map no huge
	 * page beyond a file's size, which an anonymous inode cannot have.
	 */
	vma->vm_private_data = vma->vm_file;
	vma->vm_file = NULL;
	return 0;
}
