/* SPDX-License-Identifier: BSD-2-Clause */
/* Root's calls: a table of sizes and handlers; each block is copied once, decoded without effect,
 * then committed. */

#include "abi/cpuid.h"
#include "hyp/core/access.h"
#include "hyp/core/oracle.h"
#include "hyp/core/pool.h"
#include "hyp/core/root.h"
#include "hyp/core/root_images.h"
#include "hyp/core/root_restart.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/core/version.h"
#include "hyp/core/vm.h"
#include "hyp/x86/x86.h"
#include "lib/muldiv.h"
#include "lib/string.h"

#define IOAPIC_PINS  24u
#define ROOT_SOURCES 3u
#define VENDOR_AMD   1u
#define VENDOR_INTEL 2u

union block {
	struct keel_hc_head head;
	struct keel_hc_info info;
	struct keel_hc_ranges ranges;
	struct keel_hc_vm_create create;
	struct keel_hc_vm_info vm_info;
	struct keel_hc_vm_memory memory;
	struct keel_hc_vcpu vcpu;
	struct keel_hc_doorbell doorbell;
	struct keel_hc_irq irq;
	struct keel_hc_exit exit;
	struct keel_hc_console console;
	struct keel_hc_counters counters;
	struct keel_hc_root_stage root_stage;
	struct keel_hc_root_data root_data;
	struct keel_hc_root_beat root_beat;
	struct keel_hc_root_status root_status;
};
_Static_assert(sizeof(union block) <= 2144, "a block fits the stack");

struct call {
	union block b;
	uint64_t gpa;
	struct vm *vm; /* of head.vm, with a reference; NULL if none is meant */
};

/* What head.vm has to be. */
enum target {
	TARGET_NONE,   /* 0 */
	TARGET_VM,     /* a VM */
	TARGET_EITHER, /* 0 or a VM */
	TARGET_FROM,   /* any number: where to look from */
};

struct entry {
	uint32_t size;
	enum target target;
	int64_t (*decode)(
	        const struct call *c); /* checks, changes nothing; NULL: nothing to check */
	int64_t (*commit)(struct call *c);
};

static int64_t info_commit(struct call *c)
{
	struct keel_hc_info *i = &c->b.info;
	struct memory_figures m = memory_figures();

	memset(i, 0, sizeof(*i));
	memcpy(i->version, KEEL_VERSION, sizeof(KEEL_VERSION));
	i->abi_version = KEEL_ABI_VERSION;
	i->cpus = cpu_count;
	i->vms = vm_count();
	i->vendor = cpuid(0, 0).ebx == 0x756e6547 /* "Genu" */ ? VENDOR_INTEL : VENDOR_AMD;
	i->tsc_hz = tsc_hz;
	i->pool_bytes = pool_bytes();
	i->pool_free_bytes = pool_free_bytes();
	i->image_bytes = m.image_bytes;
	i->heap_bytes = m.heap_bytes;
	i->heap_free_bytes = m.heap_free_bytes;
	i->entry_tsc = hyp_entry_tsc;
	i->root_entry_tsc = root_entry_tsc;
	i->now_tsc = tsc_now();
	i->refused_accesses = root_refused;
	for (unsigned n = 0; n < cpu_count; n++)
		i->stray_interrupts += percpu_of(n)->stray_interrupts;
	return 0;
}

static int64_t ranges_commit(struct call *c)
{
	struct keel_hc_ranges *r = &c->b.ranges;
	unsigned count;
	const struct boot_range *pool = pool_ranges(&count);

	memset(r, 0, sizeof(*r));
	r->count = count;
	for (unsigned i = 0; i < count; i++) {
		r->ranges[i].start = pool[i].start;
		r->ranges[i].bytes = pool[i].size;
	}
	return 0;
}

static int64_t create_decode(const struct call *c)
{
	return vm_create_check(&c->b.create);
}

static int64_t create_commit(struct call *c)
{
	return vm_create(&c->b.create, c->gpa);
}

static int64_t destroy_commit(struct call *c)
{
	int64_t result = vm_destroy(c->vm);

	if (result == 0)
		c->vm = NULL; /* with our reference */
	return result;
}

/* Of vCPUs that park or go on at this moment one may be told wrong; it is a figure to look at. */
static void count_waiting(struct vm *vm, uint32_t by_kind[4])
{
	for (uint32_t i = 0; i < vm->partition.vcpu_count; i++) {
		const struct vcpu_vm *x = vm_vcpu(vm, i)->vm;
		uint32_t kind = x->access.kind;

		if (__atomic_load_n(&x->parked, __ATOMIC_ACQUIRE) != 0 && kind >= 1 && kind <= 4)
			by_kind[kind - 1]++;
	}
}

static int64_t vm_info_commit(struct call *c)
{
	struct keel_hc_vm_info *i = &c->b.vm_info;
	struct vm *vm = vm_get_next(i->head.vm);

	if (vm == NULL)
		return -KEEL_ENOENT;
	memset(i, 0, sizeof(*i));
	i->head.vm = vm->id;
	memcpy(i->name, vm->name, sizeof(i->name));
	memcpy(i->uuid, vm->uuid, sizeof(i->uuid));
	i->ram_bytes = vm->ram_bytes;
	i->vault_bytes = vm->vault_bytes;
	i->firmware_bytes = (uint32_t)vm->firmware_bytes;
	i->vcpus = vm->partition.vcpu_count;
	i->flags = vm->flags;
	i->weight = vm->weight;
	i->state = __atomic_load_n(&vm->state, __ATOMIC_ACQUIRE);
	i->created_tsc = vm->created_tsc;
	i->tsc_offset = vm->tsc_offset;
	i->exits_waiting = __atomic_load_n(&vm->exits_waiting, __ATOMIC_RELAXED);
	i->resets = __atomic_load_n(&vm->resets, __ATOMIC_RELAXED);
	i->away_policy = vm->away_policy;
	i->away_ms = vm->away_ms;
	i->away_exits = __atomic_load_n(&vm->away_exits, __ATOMIC_RELAXED);
	count_waiting(vm, i->waiting_by_kind);
	vm_put(vm);
	return 0;
}

static int64_t memory_decode(const struct call *c)
{
	const struct keel_hc_vm_memory *m = &c->b.memory;
	uint32_t frames = m->region == KEEL_REGION_RAM ? c->vm->ram_frames : c->vm->vault_frames;

	if (m->region > KEEL_REGION_VAULT || m->reserved != 0 || m->count > KEEL_MEMORY_CHUNKS ||
	        m->first > frames)
		return -KEEL_EINVAL;
	return 0;
}

static int64_t memory_commit(struct call *c)
{
	struct keel_hc_vm_memory *m = &c->b.memory;
	bool ram = m->region == KEEL_REGION_RAM;
	const uint32_t *frames = ram ? c->vm->frames : c->vm->frames + c->vm->ram_frames;
	uint32_t left = (ram ? c->vm->ram_frames : c->vm->vault_frames) - m->first;

	if (m->count > left)
		m->count = left;
	memset(m->hpa, 0, sizeof(m->hpa));
	for (uint32_t i = 0; i < m->count; i++)
		m->hpa[i] = (uint64_t)frames[m->first + i] * LARGE_BYTES;
	return 0;
}

static int64_t run_commit(struct call *c)
{
	return vm_start(c->vm);
}

static int64_t pause_commit(struct call *c)
{
	return vm_pause(c->vm);
}

static int64_t reset_commit(struct call *c)
{
	return vm_reset(c->vm);
}

static int64_t vcpu_decode(const struct call *c)
{
	const struct keel_hc_vcpu *x = &c->b.vcpu;

	if (x->vcpu >= c->vm->partition.vcpu_count || x->reserved != 0 ||
	        (x->state.groups & ~KEEL_VCPU_ALL))
		return -KEEL_EINVAL;
	return 0;
}

static int64_t vcpu_set_decode(const struct call *c)
{
	const struct keel_vcpu_state *s = &c->b.vcpu.state;

	for (size_t i = 0; i < sizeof(s->reserved) / sizeof(s->reserved[0]); i++)
		if (s->reserved[i] != 0)
			return -KEEL_EINVAL;
	if (s->groups & KEEL_VCPU_RUN && s->run_state > KEEL_RUN_HALTED)
		return -KEEL_EINVAL;
	return vcpu_decode(c);
}

/*
 * The vCPU stands still while its state is read or changed: the VM does, or it is parked and no
 * answer is taken meanwhile. *parked says which, for hold_end.
 */
static int64_t hold_begin(struct vm *vm, struct vcpu *v, bool *parked)
{
	*parked = __atomic_exchange_n(&v->vm->parked, 0u, __ATOMIC_ACQ_REL) != 0;
	if (*parked)
		return 0;
	if (__atomic_load_n(&vm->state, __ATOMIC_ACQUIRE) == KEEL_VM_STATE_RUNNING)
		return -KEEL_EBUSY;
	return vm_is_still(vm) ? 0 : HYPERCALL_AGAIN;
}

static void hold_end(struct vcpu *v, bool parked)
{
	if (parked)
		__atomic_store_n(&v->vm->parked, 1u, __ATOMIC_RELEASE);
}

static int64_t vcpu_get_commit(struct call *c)
{
	struct keel_hc_vcpu *x = &c->b.vcpu;
	struct vcpu *v = vm_vcpu(c->vm, x->vcpu);
	bool parked;
	int64_t result = hold_begin(c->vm, v, &parked);

	if (result != 0)
		return result;
	memset(&x->state, 0, sizeof(x->state));
	cpu_state_get(v->cpu_state, &v->regs, &x->state);
	x->state.groups = KEEL_VCPU_ALL;
	x->state.run_state = v->vm->run_state;
	hold_end(v, parked);
	return 0;
}

static int64_t vcpu_set_commit(struct call *c)
{
	struct keel_hc_vcpu *x = &c->b.vcpu;
	struct vcpu *v = vm_vcpu(c->vm, x->vcpu);
	bool parked;
	int64_t result = hold_begin(c->vm, v, &parked);

	if (result != 0)
		return result;
	result = cpu_state_set(v->cpu_state, &v->regs, &x->state);
	/* What waits for root keeps waiting. */
	if (result == 0 && x->state.groups & KEEL_VCPU_RUN && !parked &&
	        v->vm->run_state != KEEL_RUN_EXIT)
		v->vm->run_state = x->state.run_state;
	hold_end(v, parked);
	return result;
}

static int64_t doorbell_decode(const struct call *c)
{
	return doorbell_check(&c->b.doorbell);
}

static int64_t doorbell_add_commit(struct call *c)
{
	return doorbell_add(&c->vm->doorbells, &c->b.doorbell);
}

static int64_t doorbell_remove_commit(struct call *c)
{
	return doorbell_remove(&c->vm->doorbells, c->b.doorbell.index);
}

static int64_t msi_commit(struct call *c)
{
	platform_msi(c->vm->platform, c->b.irq.address, c->b.irq.data);
	return 0;
}

static int64_t pin_decode(const struct call *c)
{
	const struct keel_hc_irq *i = &c->b.irq;

	return i->pin >= IOAPIC_PINS || i->level > 1 || i->source == 0 || i->source > ROOT_SOURCES
	               ? -KEEL_EINVAL
	               : 0;
}

static int64_t pin_commit(struct call *c)
{
	const struct keel_hc_irq *i = &c->b.irq;

	platform_pin(c->vm->platform, i->pin, i->source, i->level != 0);
	return 0;
}

static int64_t exit_decode(const struct call *c)
{
	return c->b.exit.vcpu >= c->vm->partition.vcpu_count ? -KEEL_EINVAL : 0;
}

static int64_t exit_commit(struct call *c)
{
	return access_complete(c->vm, c->b.exit.vcpu, c->b.exit.sequence, c->b.exit.data);
}

static int64_t console_decode(const struct call *c)
{
	return c->b.console.bytes > KEEL_CONSOLE_CHUNK || c->b.console.reserved != 0 ? -KEEL_EINVAL
	                                                                             : 0;
}

static int64_t console_read_commit(struct call *c)
{
	struct keel_hc_console *k = &c->b.console;
	size_t wanted = k->bytes;

	memset(k->data, 0, sizeof(k->data));
	k->bytes = (uint32_t)platform_console_read(c->vm->platform, &k->position, k->data, wanted);
	return 0;
}

static int64_t console_write_commit(struct call *c)
{
	struct keel_hc_console *k = &c->b.console;

	k->bytes = (uint32_t)platform_console_write(c->vm->platform, k->data, k->bytes);
	return 0;
}

static int64_t log_read_commit(struct call *c)
{
	struct keel_hc_console *k = &c->b.console;
	size_t wanted = k->bytes;

	memset(k->data, 0, sizeof(k->data));
	k->bytes = (uint32_t)log_read(&k->position, (char *)k->data, wanted);
	return 0;
}

static uint64_t to_ns(uint64_t ticks)
{
	return muldiv_u64(ticks, 1000000000ull, tsc_hz);
}

static void counters_add(struct keel_hc_counters *out, const struct vcpu_counters *in)
{
	out->run_ns += to_ns(in->run_tsc);
	for (unsigned i = 0; i < KEEL_EXIT_KINDS; i++)
		out->exits[i] += in->exits[i];
	out->interrupts += in->interrupts;
	out->ipis += in->ipis;
	out->halts += in->halts;
	out->doorbells += in->doorbells;
	out->root_exits += in->root_exits;
	out->root_wait_ns += to_ns(in->root_wait_tsc);
	out->migrations += in->migrations;
}

static const struct partition *counters_partition(const struct call *c)
{
	return c->vm != NULL ? &c->vm->partition : &root_partition;
}

static int64_t counters_decode(const struct call *c)
{
	const struct keel_hc_counters *k = &c->b.counters;

	return k->reserved0 != 0 || (k->vcpu != KEEL_COUNTERS_SUM &&
	                                    k->vcpu >= counters_partition(c)->vcpu_count)
	               ? -KEEL_EINVAL
	               : 0;
}

static int64_t counters_commit(struct call *c)
{
	const struct partition *p = counters_partition(c);
	uint32_t vcpu = c->b.counters.vcpu;
	struct keel_hc_counters *k = &c->b.counters;
	struct keel_hc_head head = k->head;

	memset(k, 0, sizeof(*k));
	k->head = head;
	k->vcpu = vcpu;
	for (uint32_t i = 0; i < p->vcpu_count; i++)
		if (vcpu == KEEL_COUNTERS_SUM || vcpu == i)
			counters_add(k, &p->vcpus[i].counters);
	if (c->vm == NULL)
		k->idle_ns = to_ns(idle_total_tsc());
	return 0;
}

#define SIZE(type) (uint32_t)sizeof(struct keel_hc_##type)

static int64_t root_stage_commit(struct call *c)
{
	return root_images_stage(&c->b.root_stage);
}

static int64_t root_data_commit(struct call *c)
{
	return root_images_data(&c->b.root_data);
}

static int64_t root_commit_commit(struct call *c)
{
	(void)c;
	return root_images_commit();
}

static int64_t root_ready_commit(struct call *c)
{
	(void)c;
	root_restart_ready();
	return 0;
}

static int64_t root_beat_decode(const struct call *c)
{
	return c->b.root_beat.reserved == 0 ? 0 : -KEEL_EINVAL;
}

static int64_t root_beat_commit(struct call *c)
{
	root_restart_beat(c->b.root_beat.timeout_ms);
	return 0;
}

static int64_t root_status_commit(struct call *c)
{
	root_restart_status(&c->b.root_status);
	return 0;
}

static const struct entry entries[KEEL_HC_COUNT] = {
        [KEEL_HC_INFO] = {SIZE(info), TARGET_NONE, NULL, info_commit},
        [KEEL_HC_POOL_RANGES] = {SIZE(ranges), TARGET_NONE, NULL, ranges_commit},
        [KEEL_HC_VM_CREATE] = {SIZE(vm_create), TARGET_NONE, create_decode, create_commit},
        [KEEL_HC_VM_DESTROY] = {SIZE(vm), TARGET_VM, NULL, destroy_commit},
        [KEEL_HC_VM_INFO] = {SIZE(vm_info), TARGET_FROM, NULL, vm_info_commit},
        [KEEL_HC_VM_MEMORY] = {SIZE(vm_memory), TARGET_VM, memory_decode, memory_commit},
        [KEEL_HC_VM_RUN] = {SIZE(vm), TARGET_VM, NULL, run_commit},
        [KEEL_HC_VM_PAUSE] = {SIZE(vm), TARGET_VM, NULL, pause_commit},
        [KEEL_HC_VM_RESET] = {SIZE(vm), TARGET_VM, NULL, reset_commit},
        [KEEL_HC_VCPU_GET] = {SIZE(vcpu), TARGET_VM, vcpu_decode, vcpu_get_commit},
        [KEEL_HC_VCPU_SET] = {SIZE(vcpu), TARGET_VM, vcpu_set_decode, vcpu_set_commit},
        [KEEL_HC_DOORBELL_ADD] = {SIZE(doorbell), TARGET_VM, doorbell_decode, doorbell_add_commit},
        [KEEL_HC_DOORBELL_REMOVE] = {SIZE(doorbell), TARGET_VM, NULL, doorbell_remove_commit},
        [KEEL_HC_IRQ_MSI] = {SIZE(irq), TARGET_VM, NULL, msi_commit},
        [KEEL_HC_IRQ_PIN] = {SIZE(irq), TARGET_VM, pin_decode, pin_commit},
        [KEEL_HC_EXIT_COMPLETE] = {SIZE(exit), TARGET_VM, exit_decode, exit_commit},
        [KEEL_HC_CONSOLE_READ] = {SIZE(console), TARGET_VM, console_decode, console_read_commit},
        [KEEL_HC_CONSOLE_WRITE] = {SIZE(console), TARGET_VM, console_decode, console_write_commit},
        [KEEL_HC_COUNTERS] = {SIZE(counters), TARGET_EITHER, counters_decode, counters_commit},
        [KEEL_HC_LOG_READ] = {SIZE(console), TARGET_NONE, console_decode, log_read_commit},
        [KEEL_HC_ROOT_STAGE] = {SIZE(root_stage), TARGET_NONE, NULL, root_stage_commit},
        [KEEL_HC_ROOT_DATA] = {SIZE(root_data), TARGET_NONE, NULL, root_data_commit},
        [KEEL_HC_ROOT_COMMIT] = {SIZE(vm), TARGET_NONE, NULL, root_commit_commit},
        [KEEL_HC_ROOT_READY] = {SIZE(vm), TARGET_NONE, NULL, root_ready_commit},
        [KEEL_HC_ROOT_BEAT] = {SIZE(root_beat), TARGET_NONE, root_beat_decode, root_beat_commit},
        [KEEL_HC_ROOT_STATUS] = {SIZE(root_status), TARGET_NONE, NULL, root_status_commit},
};

/* One at a time for each VM: they start or stop its vCPUs, or rely on one that stands still. Two at
 * once would let a vCPU run whose registers are being written. */
static const bool is_alone[KEEL_HC_COUNT] = {
        [KEEL_HC_VM_DESTROY] = true,
        [KEEL_HC_VM_RUN] = true,
        [KEEL_HC_VM_PAUSE] = true,
        [KEEL_HC_VM_RESET] = true,
        [KEEL_HC_VCPU_GET] = true,
        [KEEL_HC_VCPU_SET] = true,
};

static int64_t find_target(struct call *c, enum target target)
{
	uint32_t id = c->b.head.vm;

	if (c->b.head.reserved != 0 || (target == TARGET_NONE && id != 0))
		return -KEEL_EINVAL;
	if (target == TARGET_NONE || target == TARGET_FROM || (target == TARGET_EITHER && id == 0))
		return 0;
	c->vm = vm_get(id);
	return c->vm == NULL ? -KEEL_ENOENT : 0;
}

static int64_t commit(struct call *c, const struct entry *e)
{
	int64_t result;

	if (!is_alone[e - entries])
		return e->commit(c);
	if (__atomic_exchange_n(&c->vm->control, 1u, __ATOMIC_ACQUIRE) != 0)
		return HYPERCALL_AGAIN;
	result = e->commit(c);
	if (c->vm != NULL) /* else destroyed */
		__atomic_store_n(&c->vm->control, 0u, __ATOMIC_RELEASE);
	return result;
}

static int64_t perform(struct call *c, const struct entry *e)
{
	int64_t result = find_target(c, e->target);

	if (result == 0 && e->decode != NULL)
		result = e->decode(c);
	if (result == 0)
		result = commit(c, e);
	if (c->vm != NULL)
		vm_put(c->vm);
	return result;
}

int64_t hypercall_root(struct vcpu *v, uint64_t number, uint64_t block_gpa, uint64_t bytes)
{
	const struct entry *e;
	struct call c;
	int64_t result;

	(void)v;
	if (number >= KEEL_HC_COUNT || entries[number].commit == NULL)
		return -KEEL_ENOSYS;
	e = &entries[number];
	if (bytes != e->size || block_gpa % 8 != 0 || block_gpa % PAGE_BYTES + bytes > PAGE_BYTES)
		return -KEEL_EINVAL;
	c.gpa = block_gpa;
	c.vm = NULL;
	if (!root_copy_in(&c.b, block_gpa, bytes))
		return -KEEL_EFAULT;
	result = perform(&c, e);
	oracle_check();
	if (result == 0 && !root_copy_out(block_gpa, &c.b, bytes))
		return -KEEL_EFAULT;
	return result;
}
