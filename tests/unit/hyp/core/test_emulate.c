/* SPDX-License-Identifier: BSD-2-Clause */
/* Emulated instructions end to end: real decoder, page walk, doorbells; a made-up device; root
 * played by the test. */
/* sources: hyp/core/access.c hyp/core/doorbell.c hyp/core/guest_walk.c */
/* sources: lib/insn_decode.c lib/insn_exec.c lib/insn_alu.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hyp/x86/x86.h"

static uint8_t ram[1 << 21] __attribute__((aligned(4096)));
static void *fake_direct_map(hpa_t hpa)
{
	return ram + hpa.value;
}
#define hpa_to_virt fake_direct_map
#include "hyp/core/guest_memory.c"
#undef hpa_to_virt
#include "hyp/core/access.h"
#include "hyp/core/emulate.c"
#include "hyp/core/root.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"

/* ---- the machine around ---- */

static struct vm vm;
static struct vcpu vcpu;
static struct vcpu_vm vcpu_vm;
static struct cpu_mode mode;
static struct keel_vm_shared shared;
static uint32_t frames[1];
static bool shadow_ended;

/* The device: 16 MMIO registers of 4 bytes at FE00_0000h, and a FIFO at port 3F8h, answered in hyp.
 */
#define DEVICE 0xfe000000ull
static uint8_t device[64];
static uint8_t fifo[16];
static unsigned fifo_count, fifo_reads;
static struct {
	uint64_t address, data;
	unsigned size;
	bool write;
} seen[64];
static unsigned seen_count;
/* A port that only counts what is written to it. */
#define COUNTER 0x3f9
static unsigned counted;

uint64_t tsc_hz = 1000000000;
unsigned cpu_count = 1;

void log_line(const char *format, ...)
{
	(void)format;
}
void panic(const char *format, ...)
{
	fail_msg("panic: %s", format);
	abort();
}
bool vm_log_once(struct vm *v, uint32_t key)
{
	(void)v, (void)key;
	return true;
}
void sched_vm_timer(struct vm *v)
{
	(void)v;
}
void sched_put(struct vcpu *v, enum vcpu_state state)
{
	v->state = state;
}
bool sched_unpark(struct vcpu *v)
{
	v->state = VCPU_READY;
	return true;
}
static unsigned notified;
bool away_is(void)
{
	return true;
}
void root_notify_vm(uint32_t id)
{
	assert_int_equal(id, 1);
	notified++;
}
void vcpu_make_current(struct vcpu *v)
{
	(void)v;
}

static void note(uint64_t address, unsigned size, bool write, uint64_t data)
{
	assert_in_range(seen_count, 0, 63);
	seen[seen_count].address = address;
	seen[seen_count].size = size;
	seen[seen_count].write = write;
	seen[seen_count++].data = data;
}

bool platform_pio(struct platform *p, unsigned i, uint16_t port, unsigned size, bool write,
        uint32_t *value, uint64_t now)
{
	(void)p, (void)i, (void)now;
	if (port == COUNTER && write) {
		counted++;
		return true;
	}
	if (port != 0x3f8)
		return false;
	if (!write) {
		assert_true(fifo_reads + size <= fifo_count);
		*value = 0;
		memcpy(value, fifo + fifo_reads, size);
		fifo_reads += size;
	}
	note(port, size, write, *value);
	return true;
}

bool platform_mmio(struct platform *p, unsigned i, uint64_t gpa, unsigned size, bool write,
        uint64_t *value, uint64_t now)
{
	(void)p, (void)i, (void)now;
	if (gpa < DEVICE || gpa + size > DEVICE + sizeof(device))
		return false;
	if (write) {
		memcpy(device + (gpa - DEVICE), value, size);
	} else {
		*value = 0;
		memcpy(value, device + (gpa - DEVICE), size);
	}
	note(gpa, size, write, *value);
	return true;
}

void cpu_mode_get(struct cpu_vcpu *c, struct cpu_mode *out)
{
	(void)c;
	*out = mode;
}
void cpu_state_get(struct cpu_vcpu *c, const struct cpu_regs *regs, struct keel_vcpu_state *out)
{
	(void)c, (void)regs;
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < 8; i++)
		out->segs[i] = (struct keel_segment){.limit = 0xffffffff, .attr = 0xc93};
	out->segs[KEEL_CS].attr = 0xc9b;
}
bool cpu_skip(struct cpu_vcpu *c, struct cpu_regs *regs, unsigned length)
{
	(void)c;
	regs->rip += length;
	shadow_ended = true;
	return regs->rflags & 0x100;
}
void vcpu_step_over(struct vcpu *v, unsigned length)
{
	if (cpu_skip(v->cpu_state, &v->regs, length))
		vcpu_raise(v, VECTOR_DB, false, 0);
}
static uint64_t cr2;
void vcpu_raise(struct vcpu *v, uint8_t vector, bool has_error, uint32_t error)
{
	if (v->vm->fault)
		return;
	v->vm->fault = true;
	v->vm->fault_vector = vector;
	v->vm->fault_has_error = has_error;
	v->vm->fault_error = error;
}
void vcpu_raise_gp(struct vcpu *v)
{
	vcpu_raise(v, VECTOR_GP, true, 0);
}
void vcpu_raise_ud(struct vcpu *v)
{
	vcpu_raise(v, VECTOR_UD, false, 0);
}
void vcpu_raise_pf(struct vcpu *v, uint64_t linear, uint32_t error)
{
	cr2 = linear;
	vcpu_raise(v, VECTOR_PF, true, error);
}

/* ---- the guest ---- */

#define CODE 0x8000ull
#define BUF  0x20000ull

static uint64_t *pte(uint64_t linear)
{
	return (uint64_t *)(void *)(ram + 0x4000 + ((linear >> 12) & 511) * 8);
}

/* Linear 0-2 MiB: 4 KiB pages, one to one. Linear 2-4 MiB: FE00_0000h and on, 4 KiB pages too
 * (table at 5000h). */
static int set_up(void **state)
{
	(void)state;
	memset(ram, 0, sizeof(ram));
	memset(&vm, 0, sizeof(vm));
	memset(&vcpu, 0, sizeof(vcpu));
	memset(&vcpu_vm, 0, sizeof(vcpu_vm));
	memset(&shared, 0, sizeof(shared));
	memset(device, 0, sizeof(device));
	seen_count = fifo_count = fifo_reads = notified = 0;
	shadow_ended = false;
	vm.id = 1;
	vm.ram_bytes = sizeof(ram);
	vm.frames = frames;
	vm.shared = &shared;
	vm.partition.vcpus = &vcpu;
	vm.partition.vcpu_count = 1;
	doorbell_init(&vm.doorbells);
	vcpu.vm = &vcpu_vm;
	vcpu_vm.vm = &vm;
	vcpu_vm.run_state = KEEL_RUN_READY;
	mode = (struct cpu_mode){.cr0 = 1ull << 31 | 1ull << 16 | 1,
	        .cr3 = 0x1000,
	        .cr4 = 1ull << 5,
	        .efer = 1ull << 10 | 1ull << 11,
	        .long_mode = true};
	memcpy(ram + 0x1000, &(uint64_t){0x2007}, 8);
	memcpy(ram + 0x2000, &(uint64_t){0x3007}, 8);
	memcpy(ram + 0x3000, &(uint64_t){0x4007}, 8);
	memcpy(ram + 0x3008, &(uint64_t){0x5007}, 8);
	for (uint64_t i = 0; i < 512; i++) {
		*pte(i << 12) = i << 12 | 7;
		memcpy(ram + 0x5000 + i * 8, &(uint64_t){(DEVICE + (i << 12)) | 7}, 8);
	}
	vcpu.regs.rip = CODE;
	vcpu.regs.rflags = 2;
	return 0;
}

static void code(const char *bytes, size_t n)
{
	memcpy(ram + vcpu.regs.rip, bytes, n);
}
#define CODE_BYTES(s) code(s, sizeof(s) - 1)

/* A nested page fault at gpa. */
static void exit_mmio(uint64_t gpa)
{
	vcpu.exit = (struct cpu_exit){
	        .kind = KEEL_KIND_MMIO, .gpa = gpa, .cut_type = CPU_INJECT_NONE};
	emulate_start(&vcpu);
}

static void exit_string_pio(void)
{
	vcpu.exit = (struct cpu_exit){
	        .kind = KEEL_KIND_PIO, .string = true, .port = 0x3f8, .cut_type = CPU_INJECT_NONE};
	emulate_start(&vcpu);
}

/* Root answers what waits. */
static void answer(uint64_t data)
{
	uint32_t sequence;

	assert_int_equal(vcpu_vm.run_state, KEEL_RUN_EXIT);
	access_park(&vcpu);
	assert_int_equal(vcpu.state, VCPU_EXIT);
	sequence = shared.slots[0].sequence;
	assert_int_equal(shared.slots[0].state, KEEL_SLOT_PENDING);
	assert_int_equal(shared.exit_pending, 1);
	memset(&shared.slots[0], 0xee,
	        sizeof(shared.slots[0])); /* root may write there what it likes */
	assert_int_equal(access_complete(&vm, 0, sequence + 1, data), -KEEL_EAGAIN);
	assert_int_equal(access_complete(&vm, 0, sequence, data), 0);
	assert_int_equal(access_complete(&vm, 0, sequence, data), -KEEL_EAGAIN);
	assert_int_equal(shared.slots[0].state, KEEL_SLOT_IDLE);
	assert_true(vcpu_vm.answered);
	assert_int_equal(vcpu_vm.pending, PENDING_STEP);
	emulate_resume(&vcpu);
}

#define LINEAR_DEVICE 0x200000ull
#define G(reg)        vcpu.regs.gpr[KEEL_##reg]

static void load_and_store(void **state)
{
	(void)state;
	memcpy(device + 8, &(uint32_t){0x8086cafe}, 4);
	G(RBX) = LINEAR_DEVICE;
	G(RAX) = ~0ull;
	CODE_BYTES("\x8b\x43\x08"); /* mov eax, [rbx+8] */
	exit_mmio(DEVICE + 8);
	assert_int_equal(G(RAX), 0x8086cafe); /* the high half is cleared */
	assert_int_equal(vcpu.regs.rip, CODE + 3);
	assert_true(shadow_ended);
	CODE_BYTES("\x66\x89\x43\x10"); /* mov [rbx+10h], ax */
	exit_mmio(DEVICE + 0x10);
	assert_int_equal(seen_count, 2);
	assert_int_equal(seen[1].size, 2);
	assert_int_equal(seen[1].data, 0xcafe);
	assert_false(vcpu_vm.fault);
}

/* C-42: flags come from the device's value, rip from the decoder. */
static void compare_sets_flags(void **state)
{
	(void)state;
	memcpy(device, &(uint32_t){0x8086}, 4);
	G(RBX) = LINEAR_DEVICE;
	G(RAX) = 0x8086;
	CODE_BYTES("\x39\x03\x74\x00"); /* cmp [rbx], eax; je */
	vcpu.exit.length = 9;           /* rubbish by the hardware */
	exit_mmio(DEVICE);
	assert_true(vcpu.regs.rflags & 0x40);
	assert_int_equal(vcpu.regs.rip, CODE + 2);
	assert_int_equal(seen_count, 1);
}

/* C-42: the instruction lies across a page border. */
static void instruction_across_pages(void **state)
{
	(void)state;
	vcpu.regs.rip = CODE + 0xffe;
	G(RBX) = LINEAR_DEVICE;
	CODE_BYTES("\x8b\x43\x08");
	device[8] = 0x77;
	exit_mmio(DEVICE + 8);
	assert_int_equal(G(RAX), 0x77);
	vcpu.regs.rip = CODE + 0xffe;
	*pte(CODE + 0x1000) = 0;
	exit_mmio(DEVICE + 8);
	assert_true(vcpu_vm.fault);
	assert_int_equal(vcpu_vm.fault_vector, VECTOR_PF);
	assert_int_equal(vcpu_vm.fault_error, PF_FETCH);
	assert_int_equal(cr2, CODE + 0x1000);
	assert_int_equal(seen_count, 1);
	assert_int_equal(vcpu.regs.rip, CODE + 0xffe);
}

/* A page border that leaves 3 and 5 bytes: each access to root has a size of the ABI's. */
static void odd_pieces(void **state)
{
	static const struct {
		uint32_t at, size;
		uint64_t data;
	} wanted[] = {
	        {0x5ffd, 2, 0x7788}, {0x5fff, 1, 0x66}, {0x6000, 4, 0x22334455}, {0x6004, 1, 0x11}};

	(void)state;
	G(RBX) = LINEAR_DEVICE + 0x5ffd;
	G(RAX) = 0x1122334455667788;
	CODE_BYTES("\x48\x89\x03"); /* mov [rbx], rax */
	exit_mmio(DEVICE + 0x5ffd);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(vcpu_vm.access.address, DEVICE + wanted[i].at);
		assert_int_equal(vcpu_vm.access.size, wanted[i].size);
		assert_int_equal(vcpu_vm.access.data, wanted[i].data);
		answer(~0ull);
	}
	assert_int_equal(vcpu.regs.rip, CODE + 3);
	CODE_BYTES("\x48\x8b\x03"); /* mov rax, [rbx] */
	vcpu.regs.rip = CODE;
	exit_mmio(DEVICE + 0x5ffd);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(vcpu_vm.access.size, wanted[i].size);
		answer(0xeeeeeeee00000000ull | wanted[i].data);
	}
	assert_int_equal(G(RAX), 0x1122334455667788);
	assert_int_equal(vcpu.counters.root_exits, 8);
}

static void root_answers_a_read(void **state)
{
	(void)state;
	G(RBX) = LINEAR_DEVICE + 0x5000;
	G(RAX) = 0xffff;
	CODE_BYTES("\x0f\xb6\x43\x01"); /* movzx eax, byte [rbx+1] */
	exit_mmio(DEVICE + 0x5001);
	assert_int_equal(vcpu_vm.access.kind, KEEL_EXIT_MMIO_READ);
	assert_int_equal(vcpu_vm.access.address, DEVICE + 0x5001);
	assert_int_equal(vcpu_vm.access.size, 1);
	assert_int_equal(vcpu.regs.rip, CODE); /* nothing done yet */
	answer(0x123456789abcdefull);
	assert_int_equal(G(RAX), 0xef); /* cut to the size asked for */
	assert_int_equal(vcpu.regs.rip, CODE + 4);
	assert_int_equal(notified, 1);
}

static void read_modify_write_asks_twice(void **state)
{
	(void)state;
	G(RBX) = LINEAR_DEVICE + 0x5000;
	CODE_BYTES("\x80\x0b\x81"); /* or byte [rbx], 81h */
	exit_mmio(DEVICE + 0x5000);
	assert_int_equal(vcpu_vm.access.kind, KEEL_EXIT_MMIO_READ);
	answer(0x10);
	assert_int_equal(vcpu_vm.access.kind, KEEL_EXIT_MMIO_WRITE);
	assert_int_equal(vcpu_vm.access.data, 0x91);
	answer(0);
	assert_int_equal(vcpu_vm.run_state, KEEL_RUN_READY);
	assert_true(vcpu.regs.rflags & 0x80); /* SF */
	assert_int_equal(vcpu.regs.rip, CODE + 3);
}

static void doorbell_does_not_stop(void **state)
{
	struct keel_hc_doorbell d = {
	        .index = 65, .space = KEEL_DOORBELL_MMIO, .address = DEVICE + 0x6000, .size = 2};

	(void)state;
	assert_int_equal(doorbell_add(&vm.doorbells, &d), 0);
	G(RBX) = LINEAR_DEVICE + 0x6000;
	CODE_BYTES("\x66\x89\x03\x66\x89\x03\x8b\x03"); /* mov [rbx], ax; again; mov eax, [rbx] */
	exit_mmio(DEVICE + 0x6000);
	assert_int_equal(vcpu_vm.run_state, KEEL_RUN_READY);
	assert_int_equal(shared.doorbells[1], 2);
	assert_int_equal(notified, 1);
	exit_mmio(DEVICE + 0x6000);
	assert_int_equal(notified, 1); /* root has not looked yet */
	assert_int_equal(vcpu.counters.doorbells, 2);
	exit_mmio(DEVICE + 0x6000); /* a read rings nothing */
	assert_int_equal(vcpu_vm.access.kind, KEEL_EXIT_MMIO_READ);
}

/* C-43 (a), (d): both pages emulated, each half seen once and right, with root away in between. */
static void store_over_two_pages(void **state)
{
	(void)state;
	G(RBX) = LINEAR_DEVICE + 0x5ffc;
	G(RAX) = 0x1122334455667788;
	CODE_BYTES("\x48\x89\x03"); /* mov [rbx], rax */
	exit_mmio(DEVICE + 0x5ffc);
	assert_int_equal(vcpu_vm.access.address, DEVICE + 0x5ffc);
	assert_int_equal(vcpu_vm.access.size, 4);
	assert_int_equal(vcpu_vm.access.data, 0x55667788);
	answer(0xdead);
	assert_int_equal(vcpu_vm.access.address, DEVICE + 0x6000);
	assert_int_equal(vcpu_vm.access.data, 0x11223344);
	answer(0xbeef);
	assert_int_equal(vcpu.regs.rip, CODE + 3);
	assert_int_equal(vcpu.counters.root_exits, 2);
}

/* C-43 (b), (c): RAM then device, and device then nothing. */
static void store_over_ram_and_device(void **state)
{
	uint64_t *first = (uint64_t *)(void *)(ram + 0x5000);

	(void)state;
	G(RBX) = LINEAR_DEVICE - 4;
	G(RAX) = 0x1122334455667788;
	CODE_BYTES("\x48\x89\x03");
	exit_mmio(DEVICE);
	assert_int_equal(vcpu.regs.rip, CODE + 3);
	assert_memory_equal(ram + LINEAR_DEVICE - 4, "\x88\x77\x66\x55", 4);
	assert_memory_equal(device, "\x44\x33\x22\x11", 4);

	vcpu.regs.rip = CODE;
	seen_count = 0;
	memset(device, 0, sizeof(device));
	first[0] = (DEVICE & ~0xfffull) | 7; /* page 0: the device's end lies within it */
	first[1] = 0;
	G(RBX) = LINEAR_DEVICE + 0xffc;
	exit_mmio(DEVICE + 0xffc);
	assert_int_equal(vcpu_vm.fault_vector, VECTOR_PF);
	assert_int_equal(cr2, LINEAR_DEVICE + 0x1000);
	assert_int_equal(vcpu_vm.fault_error, PF_WRITE);
	assert_int_equal(vcpu_vm.run_state, KEEL_RUN_READY); /* the first half was not sent */
	assert_int_equal(seen_count, 0);
	assert_int_equal(vcpu.regs.rip, CODE);
}

/* C-45: five bytes in the FIFO, the buffer is not there. */
static void ins_faults_before_the_port_is_read(void **state)
{
	(void)state;
	memcpy(fifo, "ABCDE", 5);
	fifo_count = 5;
	G(RCX) = 5;
	G(RDX) = 0x3f8;
	G(RDI) = BUF;
	CODE_BYTES("\xf3\x6c"); /* rep insb */
	*pte(BUF) = 0;
	exit_string_pio();
	assert_int_equal(vcpu_vm.fault_vector, VECTOR_PF);
	assert_int_equal(vcpu_vm.fault_error, PF_WRITE);
	assert_int_equal(fifo_reads, 0);
	assert_int_equal(G(RCX), 5);
	vcpu_vm.fault = false;
	*pte(BUF) = BUF | 5; /* read-only */
	exit_string_pio();
	assert_int_equal(vcpu_vm.fault_error, PF_PRESENT | PF_WRITE);
	assert_int_equal(fifo_reads, 0);
	vcpu_vm.fault = false;
	*pte(BUF) = BUF | 7;
	exit_string_pio();
	assert_false(vcpu_vm.fault);
	assert_memory_equal(ram + BUF, "ABCDE", 6);
	assert_int_equal(G(RCX), 0);
	assert_int_equal(G(RDI), BUF + 5);
	assert_int_equal(vcpu.regs.rip, CODE + 2);
}

/* C-45: the third byte falls into a page that is not there. */
static void ins_stops_at_the_page_border(void **state)
{
	(void)state;
	memcpy(fifo, "ABCDE", 5);
	fifo_count = 5;
	G(RCX) = 5;
	G(RDX) = 0x3f8;
	G(RDI) = BUF + 0xffe;
	CODE_BYTES("\xf3\x6c");
	*pte(BUF + 0x1000) = 0;
	exit_string_pio();
	assert_int_equal(vcpu_vm.fault_vector, VECTOR_PF);
	assert_int_equal(cr2, BUF + 0x1000);
	assert_int_equal(fifo_reads, 2);
	assert_int_equal(G(RCX), 3);
	assert_int_equal(G(RDI), BUF + 0x1000);
	assert_int_equal(vcpu.regs.rip, CODE);
	vcpu_vm.fault = false;
	*pte(BUF + 0x1000) = (BUF + 0x1000) | 7;
	exit_string_pio();
	assert_memory_equal(ram + BUF + 0xffe, "ABCDE", 5);
}

static void outs_from_a_missing_page(void **state)
{
	(void)state;
	G(RCX) = 2;
	G(RDX) = 0x3f8;
	G(RSI) = BUF + 0xffe;
	memcpy(ram + BUF + 0xffe, "xyz", 3);
	CODE_BYTES("\xf3\x66\x6f"); /* rep outsw */
	*pte(BUF + 0x1000) = 0;
	exit_string_pio();
	assert_int_equal(vcpu_vm.fault_vector, VECTOR_PF);
	assert_int_equal(G(RCX), 1);
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].data, 'x' | 'y' << 8);
}

static void moves_from_device_to_ram(void **state)
{
	(void)state;
	memcpy(device, "0123456789abcdef", 16);
	G(RCX) = 4;
	G(RSI) = LINEAR_DEVICE;
	G(RDI) = BUF;
	CODE_BYTES("\xf3\xa5"); /* rep movsd */
	exit_mmio(DEVICE);
	assert_memory_equal(ram + BUF, "0123456789abcdef", 16);
	assert_int_equal(seen_count, 4);
	assert_int_equal(G(RCX), 0);
	assert_int_equal(vcpu.regs.rip, CODE + 2);
}

/* A long repeat lets interrupts in: the loop ends as soon as there is something to look at. */
static void repeat_ends_for_an_interrupt(void **state)
{
	(void)state;
	G(RCX) = 1000;
	G(RDI) = LINEAR_DEVICE;
	vcpu.regs.rflags |=
	        0x400; /* DF: stays on the device for one iteration and then leaves it */
	vcpu.look = 1;
	CODE_BYTES("\xf3\xab"); /* rep stosd */
	exit_mmio(DEVICE);
	assert_int_equal(G(RCX), 999);
	assert_int_equal(seen_count, 1);
	assert_int_equal(vcpu.regs.rip, CODE);
}

/* Where one exit's work ends, no iteration is begun and then done again in the next. */
static void repeat_does_each_iteration_once(void **state)
{
	(void)state;
	counted = 0;
	G(RCX) = 1000;
	G(RDX) = COUNTER;
	G(RSI) = BUF;
	CODE_BYTES("\xf3\x6e"); /* rep outsb */
	for (unsigned exits = 0; G(RCX) != 0 && exits < 100; exits++) {
		exit_string_pio();
		assert_int_equal(counted, 1000 - G(RCX));
	}
	assert_int_equal(counted, 1000);
	assert_int_equal(G(RSI), BUF + 1000);
	assert_int_equal(vcpu.regs.rip, CODE + 2);
}

/* The register image that goes back to the CPU holds what the device gave. */
static void sse_load(void **state)
{
	(void)state;
	G(RBX) = LINEAR_DEVICE;
	memcpy(device, "0123456789abcdef", 16);
	CODE_BYTES("\x0f\x10\x1b"); /* movups xmm3, [rbx] */
	exit_mmio(DEVICE);
	assert_false(vcpu_vm.fault);
	assert_int_equal(vcpu.regs.rip, CODE + 3);
	assert_memory_equal((uint8_t *)vcpu_vm.fx + 160 + 3 * 16, "0123456789abcdef", 16);
}

static void refused_instructions(void **state)
{
	(void)state;
	G(RBX) = LINEAR_DEVICE;
	CODE_BYTES(
	        "\x0f\x0b"); /* ud2 cannot touch memory: a guest that changed its code meanwhile */
	exit_mmio(DEVICE);
	assert_int_equal(vcpu_vm.fault_vector, VECTOR_UD);
	vcpu_vm.fault = false;
	CODE_BYTES("\xc5\xf8\x10\x03"); /* vmovups xmm0, [rbx] */
	exit_mmio(DEVICE);
	assert_int_equal(vcpu_vm.fault_vector, VECTOR_UD);
	vcpu_vm.fault = false;
	vcpu.regs.rip = 0x1ffff0; /* 15 prefixes and no end */
	memset(ram + 0x1ffff0, 0x66, 16);
	exit_mmio(DEVICE);
	assert_int_equal(vcpu_vm.fault_vector, VECTOR_GP);
	assert_int_equal(seen_count, 0);
}

static void code_outside_of_ram(void **state)
{
	(void)state;
	vcpu.regs.rip = LINEAR_DEVICE + 0x7000;
	exit_mmio(DEVICE);
	assert_int_equal(vcpu_vm.fault_vector, VECTOR_UD);
}

static void dropped_exit_cannot_be_answered(void **state)
{
	uint32_t sequence;

	(void)state;
	G(RBX) = LINEAR_DEVICE + 0x5000;
	CODE_BYTES("\x8b\x03");
	exit_mmio(DEVICE + 0x5000);
	access_park(&vcpu);
	sequence = vcpu_vm.sequence;
	assert_int_equal(vm.exits_waiting, 1);
	assert_int_equal(vm.away_exits, 1);
	access_drop(&vcpu);
	assert_int_equal(vm.exits_waiting, 0);
	assert_int_equal(vcpu_vm.pending, PENDING_NONE);
	assert_int_equal(access_complete(&vm, 0, sequence, 0), -KEEL_EAGAIN);
	access_drop(&vcpu); /* also when nothing waits */
	assert_int_equal(vm.exits_waiting, 0);
}

/* Random bytes as code, random registers: whatever happens, it ends, and every fault is a guest's
 * fault. */
static void rubbish_code(void **state)
{
	(void)state;
	srand(3);
	for (unsigned round = 0; round < 30000; round++) {
		set_up(NULL);
		vcpu.exit.insn_bytes = 0;
		mode.cpl = rand() & 1 ? 3 : 0;
		if (rand() & 1) {
			mode.long_mode = false;
			mode.efer = 0;
			mode.cr0 = 1;
			mode.default_32 = rand() & 1;
		}
		for (unsigned i = 0; i < 15; i++)
			ram[CODE + i] = (uint8_t)rand();
		for (unsigned i = 0; i < 16; i++)
			vcpu.regs.gpr[i] = rand() & 1 ? LINEAR_DEVICE + (unsigned)rand() % 0x9000
			                              : (uint64_t)rand() << 33;
		fifo_count = 0;
		exit_mmio(DEVICE + (unsigned)rand() % 0x9000);
		for (unsigned i = 0; i < 16 && vcpu_vm.run_state == KEEL_RUN_EXIT; i++)
			answer((uint64_t)rand());
		if (seen_count > 48)
			seen_count = 0;
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, set_up)
	const struct CMUnitTest tests[] = {
	        T(load_and_store),
	        T(compare_sets_flags),
	        T(instruction_across_pages),
	        T(odd_pieces),
	        T(root_answers_a_read),
	        T(read_modify_write_asks_twice),
	        T(doorbell_does_not_stop),
	        T(store_over_two_pages),
	        T(store_over_ram_and_device),
	        T(ins_faults_before_the_port_is_read),
	        T(ins_stops_at_the_page_border),
	        T(outs_from_a_missing_page),
	        T(moves_from_device_to_ram),
	        T(repeat_ends_for_an_interrupt),
	        T(repeat_does_each_iteration_once),
	        T(sse_load),
	        T(refused_instructions),
	        T(code_outside_of_ram),
	        T(dropped_exit_cannot_be_answered),
	        T(rubbish_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
