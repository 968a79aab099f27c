/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of VMs, and how one is made and taken apart with nothing half-made left behind. */

#include "abi/cpuid.h"
#include "hyp/core/pool.h"
#include "hyp/core/root.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/core/vm.h"
#include "hyp/dev/platform_state.h"
#include "hyp/x86/x86.h"
#include "lib/string.h"

/* What the vendor's part of a vCPU may take from the arena, and slack for nested tables. */
#define CPU_STATE_PAGES   20u
#define TABLE_SLACK_PAGES 16u
#define GIB               (1ull << 30)
/* No call keeps root's CPU longer than this. */
#define ZERO_BUDGET_US 1000u
/* A creation whose caller does not come again (it died in the middle) is given up after this. */
#define ABANDONED_S 2u

struct slot {
	enum vm_life life;
	uint32_t users;
	struct vm *vm;
};

/* All under lock, but `vm`'s content: that is the creator's while `working`. */
static struct {
	struct spinlock lock;
	struct slot slots[KEEL_MAX_VMS]; /* id - 1 */
	/* One creation at a time. */
	struct vm *making;
	uint64_t caller;
	uint64_t last_tsc;
	uint32_t zeroed; /* frames */
	bool working;    /* a CPU is at it */
} table;

struct vm *vm_get_next(uint32_t id)
{
	struct vm *vm = NULL;

	spin_lock(&table.lock);
	for (uint32_t i = id == 0 ? 0 : id - 1; i < KEEL_MAX_VMS && vm == NULL; i++) {
		if (table.slots[i].life != VM_ALIVE)
			continue;
		table.slots[i].users++;
		vm = table.slots[i].vm;
	}
	spin_unlock(&table.lock);
	return vm;
}

struct vm *vm_get(uint32_t id)
{
	struct vm *vm;

	if (id == 0 || id > KEEL_MAX_VMS)
		return NULL;
	vm = vm_get_next(id);
	if (vm != NULL && vm->id != id) {
		vm_put(vm);
		vm = NULL;
	}
	return vm;
}

void vm_put(struct vm *vm)
{
	spin_lock(&table.lock);
	hyp_assert(table.slots[vm->id - 1].users > 0);
	table.slots[vm->id - 1].users--;
	spin_unlock(&table.lock);
}

uint32_t vm_count(void)
{
	uint32_t n = 0;

	spin_lock(&table.lock);
	for (uint32_t i = 0; i < KEEL_MAX_VMS; i++)
		n += table.slots[i].life == VM_ALIVE;
	spin_unlock(&table.lock);
	return n;
}

int64_t vm_create_check(const struct keel_hc_vm_create *c)
{
	size_t length = strnlen(c->name, sizeof(c->name));

	if (length == 0 || length == sizeof(c->name))
		return -KEEL_EINVAL;
	for (size_t i = 0; i < length; i++)
		if (c->name[i] <= ' ' || c->name[i] > '~')
			return -KEEL_EINVAL;
	if (c->vcpus == 0 || c->vcpus > KEEL_MAX_VCPUS || (c->flags & ~KEEL_VM_PINNED) ||
	        c->weight > 10000)
		return -KEEL_EINVAL;
	if (c->flags & KEEL_VM_PINNED && c->vcpus > cpu_count)
		return -KEEL_EINVAL;
	if (c->ram_bytes == 0 || c->ram_bytes % LARGE_BYTES || c->vault_bytes % LARGE_BYTES ||
	        c->vault_bytes < KEEL_VM_VAULT_MIN || c->wall_clock_s < 0 ||
	        c->firmware_bytes % LARGE_BYTES || c->firmware_bytes > KEEL_FIRMWARE_MAX ||
	        c->firmware_bytes >= c->ram_bytes)
		return -KEEL_EINVAL;
	if (c->away_policy > KEEL_AWAY_STOP ||
	        (c->away_ms == 0) != (c->away_policy == KEEL_AWAY_WAIT))
		return -KEEL_EINVAL;
	for (size_t i = 0; i < sizeof(c->reserved) / sizeof(c->reserved[0]); i++)
		if (c->reserved[i] != 0)
			return -KEEL_EINVAL;
	/* Sums of these two cannot overflow, nor can the RAM reach what the CPU cannot address. */
	if (c->ram_bytes > (1ull << memory_phys_bits()) - 4 * GIB ||
	        c->vault_bytes > pool_bytes() || c->ram_bytes > pool_bytes())
		return -KEEL_ENOMEM;
	return 0;
}

static size_t pages_of(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
}

/* Frames of hyp's own for this VM. */
static uint32_t hyp_frames(const struct keel_hc_vm_create *c)
{
	uint64_t frames = (c->ram_bytes + c->vault_bytes) / LARGE_BYTES;
	size_t vcpu_pages = pages_of(sizeof(struct vcpu_vm)) + CPU_STATE_PAGES;
	size_t pages = pages_of(sizeof(struct vm)) + pages_of(sizeof(struct platform)) +
	               pages_of(PLATFORM_CONSOLE_BYTES) + pages_of(frames * sizeof(uint32_t)) +
	               pages_of(c->vcpus * sizeof(struct vcpu)) + c->vcpus * vcpu_pages +
	               c->ram_bytes / GIB + c->ram_bytes / (512 * GIB) + TABLE_SLACK_PAGES;

	return (uint32_t)((pages * PAGE_BYTES + LARGE_BYTES - 1) / LARGE_BYTES);
}

static uint32_t run_length(const uint32_t *frames, uint32_t left)
{
	uint32_t n = 1;

	while (n < left && frames[n] == frames[0] + n)
		n++;
	return n;
}

/* One stretch of guest-physical addresses onto its frames, run by run. */
static bool map_stretch(
        struct vm *vm, uint64_t gpa, const uint32_t *frames, uint32_t count, unsigned flags)
{
	for (uint32_t i = 0, n; i < count; i += n) {
		n = run_length(frames + i, count - i);
		if (cpu_nested_map(&vm->partition.nested, GPA(gpa + i * LARGE_BYTES),
		            HPA((uint64_t)frames[i] * LARGE_BYTES), n * LARGE_BYTES, flags) != 0)
			return false;
	}
	return true;
}

static bool map_ram(struct vm *vm)
{
	const uint32_t below = (uint32_t)(KEEL_RAM_BELOW_4G / LARGE_BYTES);
	uint32_t firmware = (uint32_t)(vm->firmware_bytes / LARGE_BYTES);
	uint32_t ram = vm->ram_frames - firmware, low = ram < below ? ram : below;

	return cpu_nested_create(&vm->partition.nested, &vm->partition.arena) == 0 &&
	       map_stretch(vm, 0, vm->frames, low, CPU_NESTED_RWX) &&
	       map_stretch(vm, 4 * GIB - vm->firmware_bytes, vm->frames + ram, firmware,
	               CPU_NESTED_READ | CPU_NESTED_EXECUTE) &&
	       map_stretch(vm, 4 * GIB, vm->frames + low, ram - low, CPU_NESTED_RWX);
}

static bool make_vcpus(struct vm *vm)
{
	struct arena *a = &vm->partition.arena;
	uint32_t count = vm->partition.vcpu_count;

	vm->partition.vcpus = arena_object(a, count * sizeof(struct vcpu));
	if (vm->partition.vcpus == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		struct vcpu *v = &vm->partition.vcpus[i];

		v->partition = &vm->partition;
		v->index = i;
		v->vm = arena_object(a, sizeof(*v->vm));
		v->cpu_state = cpu_vcpu_create(a, CPU_ROLE_VM, &vm->partition.nested);
		if (v->vm == NULL || v->cpu_state == NULL)
			return false;
		v->vm->vm = vm;
		cpu_vcpu_reset(v->cpu_state, &v->regs, -1);
		vcpu_vm_reset(v, false);
	}
	return true;
}

static void set_platform_config(struct vm *vm)
{
	uint64_t ram = vm->ram_bytes - vm->firmware_bytes;
	uint64_t low = ram < KEEL_RAM_BELOW_4G ? ram : KEEL_RAM_BELOW_4G;

	vm->config.ops = &vm_platform_ops;
	vm->config.ctx = vm;
	vm->config.vcpus = vm->partition.vcpu_count;
	vm->config.phys_bits = memory_phys_bits();
	vm->config.tsc_hz = tsc_hz;
	vm->config.ram_below_4g_bytes = low;
	vm->config.ram_above_4g_bytes = ram - low;
	vm->config.console = vm->console;
}

static void set_identity(struct vm *vm, uint32_t id, const struct keel_hc_vm_create *c)
{
	uint64_t now = tsc_now();

	vm->id = id;
	vm->partition.id = id;
	vm->partition.vm = vm;
	vm->partition.vcpu_count = c->vcpus;
	memcpy(vm->name, c->name, sizeof(vm->name));
	memcpy(vm->uuid, c->uuid, sizeof(vm->uuid));
	vm->flags = c->flags;
	vm->weight = c->weight == 0 ? 100 : c->weight;
	vm->away_policy = c->away_policy;
	vm->away_ms = c->away_ms;
	vm->ram_bytes = c->ram_bytes;
	vm->vault_bytes = c->vault_bytes;
	vm->firmware_bytes = c->firmware_bytes;
	vm->ram_frames = (uint32_t)(c->ram_bytes / LARGE_BYTES);
	vm->vault_frames = (uint32_t)(c->vault_bytes / LARGE_BYTES);
	vm->created_tsc = now;
	vm->tsc_offset = 0 - now; /* guest TSC 0 is now */
	vm->config.wall_clock_s = c->wall_clock_s != 0
	                                  ? c->wall_clock_s
	                                  : wall_clock_at_boot_s() + (int64_t)(now / tsc_hz);
	vm->state = KEEL_VM_STATE_PAUSED;
}

/* All of a VM but the content of its memory, or NULL with the pool as it was. */
static struct vm *build(uint32_t id, const struct keel_hc_vm_create *c)
{
	uint32_t own = hyp_frames(c), first, count;
	struct arena arena;
	struct vm *vm;

	if (!pool_take_run(POOL_HYP_FOR(id), own, &first))
		return NULL;
	arena.next = hpa_to_virt(HPA((uint64_t)first * LARGE_BYTES));
	arena.pages_left = own * (LARGE_BYTES / PAGE_BYTES);
	arena.heap_fallback = false;
	vm = arena_object(&arena, sizeof(*vm));
	if (vm == NULL)
		goto fail;
	vm->partition.arena = arena;
	set_identity(vm, id, c);
	count = vm->ram_frames + vm->vault_frames;
	vm->frames = arena_object(&vm->partition.arena, count * sizeof(uint32_t));
	vm->platform = arena_object(&vm->partition.arena, sizeof(*vm->platform));
	vm->console = arena_object(&vm->partition.arena, PLATFORM_CONSOLE_BYTES);
	if (vm->frames == NULL || vm->platform == NULL || vm->console == NULL ||
	        !pool_take(POOL_VM(id), count, vm->frames))
		goto fail;
	if (!map_ram(vm) || !make_vcpus(vm))
		goto fail_memory;
	set_platform_config(vm);
	platform_init(vm->platform, &vm->config, false);
	doorbell_init(&vm->doorbells);
	return vm;

fail_memory:
	pool_give_all(POOL_VM(id));
fail:
	pool_give_all(POOL_HYP_FOR(id));
	return NULL;
}

/* Zeroes for as long as one call may take. True: all is zero. */
static bool zero_some(struct vm *vm)
{
	uint32_t count = vm->ram_frames + vm->vault_frames;
	uint64_t until = tsc_now() + tsc_hz / 1000000 * ZERO_BUDGET_US;

	while (table.zeroed < count) {
		void *p = hpa_to_virt(HPA((uint64_t)vm->frames[table.zeroed] * LARGE_BYTES));
		uint64_t quads = LARGE_BYTES / 8;

		__asm__ volatile("rep stosq" : "+D"(p), "+c"(quads) : "a"(0ull) : "memory");
		table.zeroed++;
		if (tsc_now() >= until)
			break;
	}
	return table.zeroed == count;
}

static void show_to_root(struct vm *vm, bool visible)
{
	uint32_t count = vm->ram_frames + vm->vault_frames;

	for (uint32_t i = 0, n; i < count; i += n) {
		n = run_length(vm->frames + i, count - i);
		root_map_pool(HPA((uint64_t)vm->frames[i] * LARGE_BYTES), n * LARGE_BYTES, visible);
	}
}

/* Its memory is zero: from here on it exists. */
static void bring_alive(struct vm *vm)
{
	uint32_t vault = vm->frames[vm->ram_frames];

	vm->shared = hpa_to_virt(HPA((uint64_t)vault * LARGE_BYTES));
	vm->shared->version = KEEL_ABI_VERSION;
	vm->shared->vcpus = vm->partition.vcpu_count;
	vm->shared->magic = KEEL_VM_SHARED_MAGIC;
	for (uint32_t i = 0; i < vm->partition.vcpu_count; i++)
		sched_add(vm_vcpu(vm, i));
	vm->home_cpu = vm_vcpu(vm, 0)->cpu;
	show_to_root(vm, true);
}

static void slot_set(uint32_t id, enum vm_life life, struct vm *vm)
{
	spin_lock(&table.lock);
	table.slots[id - 1].life = life;
	table.slots[id - 1].vm = vm;
	spin_unlock(&table.lock);
}

static void free_frames(uint32_t id, enum vm_life life)
{
	slot_set(id, life, NULL);
	pool_give_all(POOL_VM(id));
	pool_give_all(POOL_HYP_FOR(id)); /* struct vm is in these */
	slot_set(id, VM_FREE, NULL);
}

/* A free id under lock, or -KEEL_E*. The slot is CREATING then. */
static int64_t reserve_slot(const char *name)
{
	int64_t id = -KEEL_ENOSPC;

	for (uint32_t i = KEEL_MAX_VMS; i-- > 0;) {
		struct slot *s = &table.slots[i];

		if (s->life == VM_FREE)
			id = i + 1;
		else if (s->vm != NULL && strcmp(s->vm->name, name) == 0)
			return -KEEL_EEXIST;
	}
	if (id > 0)
		table.slots[id - 1].life = VM_CREATING;
	return id;
}

/*
 * Claims the one creation under way for this call. True: go on with *vm. False: *result tells the
 * caller (0: begin a new one, which is claimed too).
 */
static bool claim_creation(
        const struct keel_hc_vm_create *c, uint64_t caller, struct vm **vm, int64_t *result)
{
	bool mine, abandoned;

	*result = HYPERCALL_AGAIN;
	*vm = table.making;
	if (table.working)
		return false;
	mine = *vm != NULL && table.caller == caller && strcmp((*vm)->name, c->name) == 0;
	abandoned = *vm != NULL && !mine && tsc_now() - table.last_tsc > ABANDONED_S * tsc_hz;
	if (*vm != NULL && !mine && !abandoned)
		return false;
	table.working = true;
	if (mine)
		return true;
	*result = 0;
	return false;
}

static void release_creation(struct vm *making, uint64_t caller)
{
	spin_lock(&table.lock);
	table.making = making;
	table.caller = caller;
	table.last_tsc = tsc_now();
	table.working = false;
	spin_unlock(&table.lock);
}

static int64_t begin_creation(const struct keel_hc_vm_create *c, struct vm **vm)
{
	int64_t id;

	if (table.making != NULL)
		free_frames(
		        table.making->id, VM_CREATING); /* abandoned: root never saw its memory */
	table.making = NULL;
	spin_lock(&table.lock);
	id = reserve_slot(c->name);
	spin_unlock(&table.lock);
	if (id < 0)
		return id;
	*vm = build((uint32_t)id, c);
	if (*vm == NULL) {
		slot_set((uint32_t)id, VM_FREE, NULL);
		return -KEEL_ENOMEM;
	}
	slot_set((uint32_t)id, VM_CREATING, *vm);
	table.zeroed = 0;
	return 0;
}

int64_t vm_create(struct keel_hc_vm_create *c, uint64_t caller)
{
	struct vm *vm;
	int64_t result;
	bool mine;

	spin_lock(&table.lock);
	mine = claim_creation(c, caller, &vm, &result);
	spin_unlock(&table.lock);
	if (!mine) {
		if (result != 0)
			return result;
		result = begin_creation(c, &vm);
		if (result != 0) {
			release_creation(NULL, 0);
			return result;
		}
	}
	if (!zero_some(vm)) {
		release_creation(vm, caller);
		return HYPERCALL_AGAIN;
	}
	bring_alive(vm);
	c->head.vm = vm->id;
	log_line("vm %u: \"%s\" created: %llu MiB, %u vCPU%s", vm->id, vm->name,
	        (unsigned long long)(vm->ram_bytes >> 20), vm->partition.vcpu_count,
	        vm->partition.vcpu_count == 1 ? "" : "s");
	slot_set(vm->id, VM_ALIVE, vm);
	release_creation(NULL, 0);
	return 0;
}

/* The only user may take it apart. */
static bool claim_destruction(struct vm *vm)
{
	struct slot *s = &table.slots[vm->id - 1];
	bool claimed;

	spin_lock(&table.lock);
	claimed = s->users == 1;
	if (claimed) {
		s->life = VM_DYING;
		s->users = 0;
	}
	spin_unlock(&table.lock);
	return claimed;
}

int64_t vm_destroy(struct vm *vm)
{
	uint32_t id = vm->id;

	if (vm_pause(vm) != 0 || !claim_destruction(vm))
		return HYPERCALL_AGAIN;
	for (uint32_t i = 0; i < vm->partition.vcpu_count; i++)
		sched_remove(vm_vcpu(vm, i));
	show_to_root(vm, false); /* returns when no CPU has a translation left */
	log_line("vm %u: \"%s\" destroyed", id, vm->name);
	free_frames(id, VM_DYING);
	return 0;
}
