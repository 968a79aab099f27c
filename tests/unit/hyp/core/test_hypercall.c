/* SPDX-License-Identifier: BSD-2-Clause */
/* Root's hypercalls with right, wrong and random blocks: what is refused has no effect. */
/* sources: hyp/core/doorbell.c hyp/core/oracle_off.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/core/hypercall.c"

static uint8_t memory[2 * 4096] __attribute__((aligned(4096))); /* root's, at GPA 0 */
static struct vm vm;
static struct vcpu vcpus[2];
static struct vcpu_vm vcpu_vms[2];
static uint32_t frames[5] = {0x800, 0x801, 0x900, 0x901, 0x902};
static unsigned users, effects;
static uint64_t last;
static bool dead, copy_out_fails;
static int64_t again_times;

uint64_t tsc_hz = 1000000000, hyp_entry_tsc = 5, root_entry_tsc = 6, root_refused;
unsigned cpu_count;
struct partition root_partition;

bool root_copy_in(void *to, uint64_t gpa, size_t bytes)
{
	if (gpa > sizeof(memory) || bytes > sizeof(memory) - gpa)
		return false;
	memcpy(to, memory + gpa, bytes);
	return true;
}
bool root_copy_out(uint64_t gpa, const void *from, size_t bytes)
{
	if (copy_out_fails || gpa > sizeof(memory) || bytes > sizeof(memory) - gpa)
		return false;
	memcpy(memory + gpa, from, bytes);
	return true;
}
struct vm *vm_get_next(uint32_t id)
{
	if (dead || id > 7)
		return NULL;
	users++;
	return &vm;
}
struct vm *vm_get(uint32_t id)
{
	return id == 7 ? vm_get_next(id) : NULL;
}
void vm_put(struct vm *v)
{
	assert_ptr_equal(v, &vm);
	users--;
}
uint32_t vm_count(void)
{
	return 1;
}
static int64_t effect(uint64_t value)
{
	if (again_times > 0) {
		again_times--;
		return HYPERCALL_AGAIN;
	}
	effects++;
	last = value;
	return 0;
}
int64_t vm_create_check(const struct keel_hc_vm_create *c)
{
	return c->vcpus == 0 ? -KEEL_EINVAL : 0;
}
int64_t vm_create(struct keel_hc_vm_create *c, uint64_t caller)
{
	int64_t r = effect(caller);

	if (r == 0)
		c->head.vm = 9;
	return r;
}
int64_t vm_destroy(struct vm *v)
{
	int64_t r = effect(v->id);

	if (r == 0)
		users--;
	return r;
}
int64_t vm_start(struct vm *v)
{
	return effect(v->id);
}
int64_t vm_pause(struct vm *v)
{
	return effect(v->id);
}
int64_t vm_reset(struct vm *v)
{
	return effect(v->id);
}
bool vm_is_still(struct vm *v)
{
	(void)v;
	return again_times-- <= 0;
}
int64_t access_complete(struct vm *v, uint32_t index, uint32_t sequence, uint64_t data)
{
	assert_true(index < v->partition.vcpu_count);
	effects++;
	last = data;
	return sequence == 3 ? 0 : -KEEL_EAGAIN;
}
void platform_msi(struct platform *p, uint64_t address, uint32_t data)
{
	(void)p, (void)address;
	effect(data);
}
void platform_pin(struct platform *p, unsigned pin, unsigned source, bool high)
{
	(void)p;
	assert_in_range(pin, 0, 23);
	assert_in_range(source, 1, 3);
	effect(high);
}
size_t platform_console_read(struct platform *p, uint64_t *position, uint8_t *out, size_t len)
{
	(void)p;
	assert_in_range(len, 0, KEEL_CONSOLE_CHUNK);
	memset(out, 'c', len);
	*position += len;
	return len;
}
size_t platform_console_write(struct platform *p, const uint8_t *in, size_t len)
{
	(void)p, (void)in;
	assert_in_range(len, 0, KEEL_CONSOLE_CHUNK);
	effects++;
	return len / 2;
}
size_t log_read(uint64_t *position, char *out, size_t len)
{
	return platform_console_read(NULL, position, (uint8_t *)out, len);
}
void cpu_state_get(struct cpu_vcpu *c, const struct cpu_regs *regs, struct keel_vcpu_state *out)
{
	(void)c;
	out->rip = regs->rip;
}
int cpu_state_set(struct cpu_vcpu *c, struct cpu_regs *regs, const struct keel_vcpu_state *in)
{
	(void)c;
	if (in->cr0 == 0xbad)
		return -KEEL_EINVAL;
	effects++;
	regs->rip = in->rip;
	return 0;
}
const struct boot_range *pool_ranges(unsigned *count)
{
	static const struct boot_range r = {.start = 0x100000000, .size = 0x40000000};

	*count = 1;
	return &r;
}
uint64_t pool_bytes(void)
{
	return 1 << 30;
}
uint64_t pool_free_bytes(void)
{
	return 1 << 29;
}
struct memory_figures memory_figures(void)
{
	return (struct memory_figures){1, 2, 3};
}
struct percpu *percpu_of(unsigned index)
{
	static struct percpu p;

	(void)index;
	return &p;
}
uint64_t idle_total_tsc(void)
{
	return 42;
}
int64_t root_images_stage(const struct keel_hc_root_stage *stage)
{
	(void)stage;
	return effect(0);
}
int64_t root_images_data(const struct keel_hc_root_data *d)
{
	(void)d;
	return effect(0);
}
int64_t root_images_commit(void)
{
	return effect(0);
}
void root_restart_ready(void)
{
	effect(0);
}
void root_restart_beat(uint32_t timeout_ms)
{
	effect(timeout_ms);
}
void root_restart_status(struct keel_hc_root_status *status)
{
	(void)status;
}
void panic(const char *format, ...)
{
	fail_msg("panic: %s", format);
	abort();
}

static int set_up(void **state)
{
	(void)state;
	memset(memory, 0, sizeof(memory));
	memset(&vm, 0, sizeof(vm));
	memset(vcpus, 0, sizeof(vcpus));
	memset(vcpu_vms, 0, sizeof(vcpu_vms));
	vm.id = 7;
	vm.state = KEEL_VM_STATE_PAUSED;
	vm.frames = frames;
	vm.ram_frames = 2;
	vm.vault_frames = 3;
	vm.partition.vcpus = vcpus;
	vm.partition.vcpu_count = 2;
	doorbell_init(&vm.doorbells);
	for (unsigned i = 0; i < 2; i++) {
		vcpus[i].vm = &vcpu_vms[i];
		vcpus[i].index = i;
		vcpu_vms[i].vm = &vm;
	}
	root_partition.vcpus = vcpus;
	root_partition.vcpu_count = 2;
	users = effects = 0;
	dead = copy_out_fails = false;
	again_times = 0;
	return 0;
}

static int64_t call(unsigned number, void *block, size_t bytes)
{
	int64_t r;

	memcpy(memory, block, bytes);
	r = hypercall_root(NULL, number, 0, bytes);
	memcpy(block, memory, bytes);
	assert_int_equal(users, 0);
	return r;
}

static void shape_of_the_call(void **state)
{
	struct keel_hc_vm v = {.head.vm = 7};

	(void)state;
	memcpy(memory, &v, sizeof(v));
	assert_int_equal(hypercall_root(NULL, 0, 0, 8), -KEEL_ENOSYS);
	assert_int_equal(hypercall_root(NULL, KEEL_HC_COUNT, 0, 8), -KEEL_ENOSYS);
	assert_int_equal(hypercall_root(NULL, UINT64_MAX, 0, 8), -KEEL_ENOSYS);
	assert_int_equal(hypercall_root(NULL, KEEL_HC_VM_RUN, 0, 16), -KEEL_EINVAL);
	assert_int_equal(hypercall_root(NULL, KEEL_HC_VM_RUN, 0, 0), -KEEL_EINVAL);
	assert_int_equal(hypercall_root(NULL, KEEL_HC_VM_RUN, 4, 8), -KEEL_EINVAL);
	assert_int_equal(hypercall_root(NULL, KEEL_HC_INFO, 4096 - 104, 208), -KEEL_EINVAL);
	assert_int_equal(hypercall_root(NULL, KEEL_HC_VM_RUN, 1ull << 40, 8), -KEEL_EFAULT);
	assert_int_equal(hypercall_root(NULL, KEEL_HC_VM_RUN, UINT64_MAX - 7, 8), -KEEL_EFAULT);
	assert_int_equal(effects, 0);
	assert_int_equal(hypercall_root(NULL, KEEL_HC_VM_RUN, 0, 8), 0);
	assert_int_equal(effects, 1);
	copy_out_fails = true;
	assert_int_equal(hypercall_root(NULL, KEEL_HC_VM_RUN, 0, 8), -KEEL_EFAULT);
	assert_int_equal(users, 0);
}

static void head_is_checked(void **state)
{
	struct keel_hc_vm v = {.head = {.vm = 7, .reserved = 1}};
	struct keel_hc_info i = {.head.vm = 7};

	(void)state;
	assert_int_equal(call(KEEL_HC_VM_RUN, &v, sizeof(v)), -KEEL_EINVAL);
	v.head = (struct keel_hc_head){.vm = 8};
	assert_int_equal(call(KEEL_HC_VM_RUN, &v, sizeof(v)), -KEEL_ENOENT);
	v.head.vm = 0;
	assert_int_equal(call(KEEL_HC_VM_RUN, &v, sizeof(v)), -KEEL_ENOENT);
	assert_int_equal(call(KEEL_HC_INFO, &i, sizeof(i)), -KEEL_EINVAL);
	assert_int_equal(effects, 0);
}

static void create_comes_again_until_done(void **state)
{
	struct keel_hc_vm_create c = {.vcpus = 1};

	(void)state;
	again_times = 2;
	assert_int_equal(call(KEEL_HC_VM_CREATE, &c, sizeof(c)), HYPERCALL_AGAIN);
	assert_int_equal(c.head.vm, 0); /* the block is as it was */
	assert_int_equal(call(KEEL_HC_VM_CREATE, &c, sizeof(c)), HYPERCALL_AGAIN);
	assert_int_equal(call(KEEL_HC_VM_CREATE, &c, sizeof(c)), 0);
	assert_int_equal(c.head.vm, 9);
	c = (struct keel_hc_vm_create){.vcpus = 0};
	assert_int_equal(call(KEEL_HC_VM_CREATE, &c, sizeof(c)), -KEEL_EINVAL);
	assert_int_equal(effects, 1);
}

static void destroy_takes_the_reference(void **state)
{
	struct keel_hc_vm v = {.head.vm = 7};

	(void)state;
	again_times = 1;
	assert_int_equal(call(KEEL_HC_VM_DESTROY, &v, sizeof(v)), HYPERCALL_AGAIN);
	assert_int_equal(call(KEEL_HC_VM_DESTROY, &v, sizeof(v)), 0);
}

/* What starts and stops vCPUs, and what touches the registers of one, excludes each other. */
static void one_at_a_time_where_vcpus_have_to_stand_still(void **state)
{
	static const unsigned calls[] = {
	        KEEL_HC_VM_RUN, KEEL_HC_VM_PAUSE, KEEL_HC_VM_RESET, KEEL_HC_VM_DESTROY};
	static struct keel_hc_vcpu x;
	struct keel_hc_vm v = {.head.vm = 7};
	struct keel_hc_vm_info i = {.head.vm = 7};

	(void)state;
	vm.control = 1; /* another CPU's call is under way */
	for (size_t n = 0; n < sizeof(calls) / sizeof(calls[0]); n++)
		assert_int_equal(call(calls[n], &v, sizeof(v)), HYPERCALL_AGAIN);
	x = (struct keel_hc_vcpu){.head.vm = 7};
	assert_int_equal(call(KEEL_HC_VCPU_GET, &x, sizeof(x)), HYPERCALL_AGAIN);
	assert_int_equal(call(KEEL_HC_VCPU_SET, &x, sizeof(x)), HYPERCALL_AGAIN);
	assert_int_equal(effects, 0);
	assert_int_equal(vm.control, 1);
	assert_int_equal(call(KEEL_HC_VM_INFO, &i, sizeof(i)), 0);
	vm.control = 0;
	assert_int_equal(call(KEEL_HC_VM_RUN, &v, sizeof(v)), 0);
	assert_int_equal(vm.control, 0);
	x.state.groups = UINT32_MAX; /* refused: nothing is held */
	assert_int_equal(call(KEEL_HC_VCPU_SET, &x, sizeof(x)), -KEEL_EINVAL);
	assert_int_equal(vm.control, 0);
}

static void memory_in_chunks(void **state)
{
	static struct keel_hc_vm_memory m;

	(void)state;
	m = (struct keel_hc_vm_memory){
	        .head.vm = 7, .region = KEEL_REGION_VAULT, .first = 1, .count = 256};
	assert_int_equal(call(KEEL_HC_VM_MEMORY, &m, sizeof(m)), 0);
	assert_int_equal(m.count, 2);
	assert_int_equal(m.hpa[0], 0x901ull << 21);
	assert_int_equal(m.hpa[1], 0x902ull << 21);
	assert_int_equal(m.hpa[2], 0);
	m.first = 3;
	m.count = 1;
	assert_int_equal(call(KEEL_HC_VM_MEMORY, &m, sizeof(m)), 0);
	assert_int_equal(m.count, 0);
	m.first = 4;
	assert_int_equal(call(KEEL_HC_VM_MEMORY, &m, sizeof(m)), -KEEL_EINVAL);
	m.first = 0;
	m.count = 257;
	assert_int_equal(call(KEEL_HC_VM_MEMORY, &m, sizeof(m)), -KEEL_EINVAL);
	m.count = 1;
	m.region = 2;
	assert_int_equal(call(KEEL_HC_VM_MEMORY, &m, sizeof(m)), -KEEL_EINVAL);
}

static void vcpu_state_needs_a_still_vcpu(void **state)
{
	static struct keel_hc_vcpu x;

	(void)state;
	x = (struct keel_hc_vcpu){.head.vm = 7, .vcpu = 1};
	x.state.groups = KEEL_VCPU_ALL;
	x.state.rip = 0x1234;
	x.state.run_state = KEEL_RUN_HALTED;
	vm.state = KEEL_VM_STATE_RUNNING;
	assert_int_equal(call(KEEL_HC_VCPU_SET, &x, sizeof(x)), -KEEL_EBUSY);
	assert_int_equal(effects, 0);
	vcpu_vms[1].parked = 1; /* a parked one may be read and changed while the others run */
	vcpu_vms[1].run_state = KEEL_RUN_EXIT;
	assert_int_equal(call(KEEL_HC_VCPU_SET, &x, sizeof(x)), 0);
	assert_int_equal(vcpu_vms[1].parked, 1);
	assert_int_equal(vcpu_vms[1].run_state, KEEL_RUN_EXIT);
	vcpu_vms[1].parked = 0;
	vcpu_vms[1].run_state = KEEL_RUN_READY;
	vm.state = KEEL_VM_STATE_PAUSED;
	again_times = 1; /* one still leaves its CPU */
	assert_int_equal(call(KEEL_HC_VCPU_SET, &x, sizeof(x)), HYPERCALL_AGAIN);
	assert_int_equal(call(KEEL_HC_VCPU_SET, &x, sizeof(x)), 0);
	assert_int_equal(vcpus[1].regs.rip, 0x1234);
	assert_int_equal(vcpu_vms[1].run_state, KEEL_RUN_HALTED);
	x.state.rip = 0;
	assert_int_equal(call(KEEL_HC_VCPU_GET, &x, sizeof(x)), 0);
	assert_int_equal(x.state.rip, 0x1234);
	x.vcpu = 2;
	assert_int_equal(call(KEEL_HC_VCPU_GET, &x, sizeof(x)), -KEEL_EINVAL);
	x.vcpu = 1;
	x.state.run_state = KEEL_RUN_EXIT;
	assert_int_equal(call(KEEL_HC_VCPU_SET, &x, sizeof(x)), -KEEL_EINVAL);
	x.state.run_state = 0;
	x.state.reserved[7] = 1;
	assert_int_equal(call(KEEL_HC_VCPU_SET, &x, sizeof(x)), -KEEL_EINVAL);
	x.state.reserved[7] = 0;
	x.state.cr0 = 0xbad;
	assert_int_equal(call(KEEL_HC_VCPU_SET, &x, sizeof(x)), -KEEL_EINVAL);
}

static void interrupts_and_exits(void **state)
{
	struct keel_hc_irq i = {.head.vm = 7, .data = 0x31};
	struct keel_hc_exit e = {.head.vm = 7, .vcpu = 1, .sequence = 3, .data = 0x55};

	(void)state;
	assert_int_equal(call(KEEL_HC_IRQ_MSI, &i, sizeof(i)), 0);
	assert_int_equal(last, 0x31);
	i.pin = 23;
	i.level = 1;
	i.source = 3;
	assert_int_equal(call(KEEL_HC_IRQ_PIN, &i, sizeof(i)), 0);
	effects = 0;
	for (unsigned bad = 0; bad < 4; bad++) {
		i = (struct keel_hc_irq){.head.vm = 7,
		        .pin = bad == 0 ? 24 : 0,
		        .level = bad == 1 ? 2 : 0,
		        .source = bad == 2   ? 0
		                  : bad == 3 ? 4
		                             : 1};
		assert_int_equal(call(KEEL_HC_IRQ_PIN, &i, sizeof(i)), -KEEL_EINVAL);
	}
	assert_int_equal(effects, 0);
	assert_int_equal(call(KEEL_HC_EXIT_COMPLETE, &e, sizeof(e)), 0);
	assert_int_equal(last, 0x55);
	e.sequence = 2;
	assert_int_equal(call(KEEL_HC_EXIT_COMPLETE, &e, sizeof(e)), -KEEL_EAGAIN);
	e.vcpu = 2;
	assert_int_equal(call(KEEL_HC_EXIT_COMPLETE, &e, sizeof(e)), -KEEL_EINVAL);
}

static void console_in_chunks(void **state)
{
	static struct keel_hc_console k;

	(void)state;
	k = (struct keel_hc_console){.head.vm = 7, .position = 10, .bytes = 2048};
	assert_int_equal(call(KEEL_HC_CONSOLE_READ, &k, sizeof(k)), 0);
	assert_int_equal(k.position, 2058);
	assert_int_equal(k.data[2047], 'c');
	k.bytes = 2049;
	assert_int_equal(call(KEEL_HC_CONSOLE_READ, &k, sizeof(k)), -KEEL_EINVAL);
	k.bytes = 10;
	assert_int_equal(call(KEEL_HC_CONSOLE_WRITE, &k, sizeof(k)), 0);
	assert_int_equal(k.bytes, 5);
	assert_int_equal(call(KEEL_HC_LOG_READ, &k, sizeof(k)), -KEEL_EINVAL); /* names a VM */
	k.head.vm = 0;
	assert_int_equal(call(KEEL_HC_LOG_READ, &k, sizeof(k)), 0);
}

static void figures(void **state)
{
	struct keel_hc_info i = {0};
	struct keel_hc_ranges r = {0};
	struct keel_hc_vm_info v = {.head.vm = 1};
	struct keel_hc_counters c = {.vcpu = KEEL_COUNTERS_SUM};

	(void)state;
	assert_int_equal(call(KEEL_HC_INFO, &i, sizeof(i)), 0);
	assert_int_equal(i.pool_free_bytes, 1 << 29);
	assert_int_equal(i.heap_free_bytes, 3);
	assert_true(memchr(i.version, 0, sizeof(i.version)) != NULL);
	assert_int_equal(call(KEEL_HC_POOL_RANGES, &r, sizeof(r)), 0);
	assert_int_equal(r.count, 1);
	assert_int_equal(call(KEEL_HC_VM_INFO, &v, sizeof(v)), 0);
	assert_int_equal(v.head.vm, 7);
	assert_int_equal(v.vcpus, 2);
	v = (struct keel_hc_vm_info){.head.vm = 8};
	assert_int_equal(call(KEEL_HC_VM_INFO, &v, sizeof(v)), -KEEL_ENOENT);
	vcpus[0].counters.run_tsc = 1000;
	vcpus[0].counters.exits[KEEL_KIND_PIO] = 3;
	vcpus[1].counters.exits[KEEL_KIND_PIO] = 4;
	assert_int_equal(call(KEEL_HC_COUNTERS, &c, sizeof(c)), 0);
	assert_int_equal(c.run_ns, 1000);
	assert_int_equal(c.exits[KEEL_KIND_PIO], 7);
	assert_int_equal(c.idle_ns, 42);
	c.head.vm = 7;
	c.vcpu = 1;
	assert_int_equal(call(KEEL_HC_COUNTERS, &c, sizeof(c)), 0);
	assert_int_equal(c.exits[KEEL_KIND_PIO], 4);
	assert_int_equal(c.idle_ns, 0);
	c.vcpu = 2;
	assert_int_equal(call(KEEL_HC_COUNTERS, &c, sizeof(c)), -KEEL_EINVAL);
}

static void heartbeat(void **state)
{
	struct keel_hc_root_beat b = {.timeout_ms = 900};

	(void)state;
	assert_int_equal(call(KEEL_HC_ROOT_BEAT, &b, sizeof(b)), 0);
	assert_int_equal(last, 900);
	b.reserved = 1;
	assert_int_equal(call(KEEL_HC_ROOT_BEAT, &b, sizeof(b)), -KEEL_EINVAL);
}

/* Random blocks for every number: the answer is one of the known ones and no reference is lost. */
static void rubbish_blocks(void **state)
{
	static uint8_t block[4096];

	(void)state;
	srand(5);
	for (unsigned round = 0; round < 60000; round++) {
		unsigned number = (unsigned)rand() % (KEEL_HC_COUNT + 3);
		size_t bytes = number < KEEL_HC_COUNT && rand() % 8 ? entries[number].size
		                                                    : (size_t)rand() % 4096;
		int64_t r;

		for (size_t i = 0; i < bytes; i++)
			block[i] = rand() % 4 ? 0 : (uint8_t)rand();
		if (rand() % 4) {
			memset(block, 0, 8);
			block[0] = rand() % 2 ? 7 : 0;
		}
		vm.state = 1 + (unsigned)rand() % 4;
		again_times = rand() % 16 == 0;
		r = call(number, block, bytes);
		assert_true(r == 0 || r == HYPERCALL_AGAIN || (r < 0 && r >= -KEEL_ENOSYS));
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, set_up)
	const struct CMUnitTest tests[] = {
	        T(shape_of_the_call),
	        T(head_is_checked),
	        T(create_comes_again_until_done),
	        T(one_at_a_time_where_vcpus_have_to_stand_still),
	        T(destroy_takes_the_reference),
	        T(memory_in_chunks),
	        T(vcpu_state_needs_a_still_vcpu),
	        T(interrupts_and_exits),
	        T(console_in_chunks),
	        T(figures),
	        T(heartbeat),
	        T(rubbish_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
