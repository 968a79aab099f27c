/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptor tables, exceptions and interrupts, further vCPUs. */

#include "tests/guest/lib/guest.h"
#include "tests/guest/lib/internal.h"

#define TRAMPOLINE  0x8000u
#define MSR_GS_BASE 0xc0000101u
/* NMI and #DF on one stack, #PF on another: a guest may fault with a stack that is no good. */
#define IST(n) ((n) == 2 || (n) == VECTOR_DF ? 1ull : (n) == VECTOR_PF ? 2ull : 0ull)

struct table_register {
	uint16_t limit;
	uint64_t base;
} __attribute__((packed));

/* `self` is what this_cpu() reads. */
static struct {
	struct guest_cpu *self;
} gs_area[GUEST_CPUS_MAX];

struct guest_cpu guest_cpus[GUEST_CPUS_MAX];
static uint64_t idt[512] __attribute__((aligned(16)));
static vector_fn handlers[256];

static void make_idt(void)
{
	for (uint64_t i = 0; i < 256; i++) {
		uint64_t entry = (uint64_t)guest_entries + i * 16;

		idt[i * 2] = (entry & 0xffff) | 8ull << 16 | IST(i) << 32 | 0x8e00ull << 32 |
		             (entry >> 16 & 0xffff) << 48;
		idt[i * 2 + 1] = entry >> 32;
	}
}

void guest_cpu_setup(uint64_t index)
{
	struct guest_cpu *c = &guest_cpus[index];
	uint64_t tss = (uint64_t)c->tss;
	struct table_register gdtr = {sizeof(c->gdt) - 1, (uint64_t)c->gdt};
	struct table_register idtr = {sizeof(idt) - 1, (uint64_t)idt};
	uint8_t *t = (uint8_t *)c->tss;
	uint64_t ist = (uint64_t)(c->fault_stack + sizeof(c->fault_stack));

	c->index = (uint32_t)index;
	memcpy(t + 0x24, &ist, sizeof(ist));
	ist -= sizeof(c->fault_stack) / 2;
	memcpy(t + 0x2c, &ist, sizeof(ist));
	c->gdt[1] = 0x00af9b000000ffff;
	c->gdt[2] = 0x00cf93000000ffff;
	c->gdt[3] = 0x00cff3000000ffff; /* user data, selector 1bh */
	c->gdt[4] = 0x00affb000000ffff; /* user code, selector 23h */
	c->gdt[6] = 0x67 | (tss & 0xffffff) << 16 | 0x89ull << 40 | (tss >> 24 & 0xff) << 56;
	c->gdt[7] = tss >> 32;
	if (index == 0)
		make_idt();
	__asm__ volatile("lgdt %0" : : "m"(gdtr));
	__asm__ volatile("lidt %0" : : "m"(idtr));
	__asm__ volatile("ltr %w0" : : "r"(0x30));
	gs_area[index].self = c;
	wrmsr(MSR_GS_BASE, (uint64_t)&gs_area[index]);
}

void on_vector(unsigned vector, vector_fn fn)
{
	__atomic_store_n(&handlers[vector], fn, __ATOMIC_RELEASE);
}

static void unexpected(const struct frame *f)
{
	print("FAIL: unexpected exception %lu, error %lx, rip %lx, cr2 %lx, vCPU %u\n", f->vector,
	        f->error, f->rip, READ_CR(2), this_cpu()->index);
	guest_exit(98);
}

void guest_trap(struct frame *f)
{
	struct guest_cpu *c = this_cpu();
	vector_fn fn = __atomic_load_n(&handlers[f->vector], __ATOMIC_ACQUIRE);
	uint64_t rsp = c->catch_rsp;

	c->interrupts[f->vector]++;
	if (f->vector < 32 && f->vector != 2 && rsp != 0) {
		c->catch_rsp = 0;
		c->caught_vector = (uint32_t)f->vector;
		c->caught_error = (uint32_t)f->error;
		c->caught_cr2 = READ_CR(2);
		c->caught_rip = f->rip;
		guest_uncatch(rsp, (uint32_t)f->vector);
	}
	if (fn != NULL)
		fn(f);
	else if (f->vector < 32 && f->vector != 2)
		unexpected(f);
}

int catch (void (*fn)(void *), void *argument)
{
	struct guest_cpu *c = this_cpu();
	int vector = catch_call(fn, argument, &c->catch_rsp);

	c->catch_rsp = 0;
	return vector;
}

void guest_ap_begin(uint64_t index)
{
	struct guest_cpu *c = &guest_cpus[index];

	__atomic_add_fetch(&c->started, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		void (*work)(void) = __atomic_exchange_n(&c->work, NULL, __ATOMIC_ACQ_REL);

		if (work == NULL) {
			pause();
			continue;
		}
		work();
		__atomic_add_fetch(&c->work_done, 1, __ATOMIC_SEQ_CST);
	}
}

static void place_trampoline(unsigned index)
{
	uint8_t *to = (uint8_t *)(uintptr_t)TRAMPOLINE;
	uint32_t value = index;

	memcpy(to, trampoline, (size_t)(trampoline_end - trampoline));
	memcpy(to + (trampoline_index - trampoline), &value, sizeof(value));
}

uint64_t cpu_prepare(unsigned index)
{
	uint64_t none;

	place_trampoline(index);
	/* Not a constant: compilers know no object at 0. */
	__asm__("xorl %k0, %k0" : "=r"(none));
	return none;
}

bool cpu_start(unsigned index)
{
	struct guest_cpu *c = &guest_cpus[index];
	uint32_t before = __atomic_load_n(&c->started, __ATOMIC_SEQ_CST);

	__atomic_store_n(&c->work, NULL, __ATOMIC_SEQ_CST); /* of its life before */
	place_trampoline(index);
	apic_ipi(index, ICR_INIT | ICR_ASSERT);
	apic_ipi(index, ICR_SIPI | ICR_ASSERT | (TRAMPOLINE >> 12));
	return wait_for(__atomic_load_n(&c->started, __ATOMIC_SEQ_CST) == before + 1, 10000000);
}

void cpu_run(unsigned index, void (*fn)(void))
{
	__atomic_store_n(&guest_cpus[index].work_done, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&guest_cpus[index].work, fn, __ATOMIC_SEQ_CST);
}

bool cpu_wait(unsigned index)
{
	return wait_for(load(&guest_cpus[index].work_done) != 0, 30000000);
}
