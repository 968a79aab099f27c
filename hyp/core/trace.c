/* SPDX-License-Identifier: BSD-2-Clause */
/* A short ring of exits for each CPU, and what a panic says of them. */

#include "hyp/core/trace.h"
#include "hyp/x86/x86.h"

#define TRACE_EXITS 64u /* a power of two */

struct trace_entry {
	uint64_t tsc, rip;
	uint32_t vendor_code;
	uint16_t partition, vcpu;
	uint8_t kind, cut_type, cut_vector, reserved[5];
};
KEEL_ASSERT_SIZE(struct trace_entry, 32);

/* (o) the owning CPU; a panic reads them while the others are stopped. */
static struct {
	struct trace_entry entries[TRACE_EXITS];
	uint64_t count;
} traces[CPU_MAX];

static const char *const kind_names[KEEL_KIND_COUNT] = {
#define KIND_NAME(name, text) [KEEL_KIND_##name] = text,
        KEEL_EXIT_KIND_LIST(KIND_NAME)
#undef KIND_NAME
};

void trace_exit(const struct vcpu *v)
{
	unsigned cpu = percpu()->index;
	struct trace_entry *e = &traces[cpu].entries[traces[cpu].count++ & (TRACE_EXITS - 1)];

	*e = (struct trace_entry){
	        .tsc = tsc_now(),
	        .rip = v->regs.rip,
	        .vendor_code = v->exit.vendor_code,
	        .partition = (uint16_t)v->partition->id,
	        .vcpu = (uint16_t)v->index,
	        .kind = (uint8_t)v->exit.kind,
	        .cut_type = v->exit.cut_type,
	        .cut_vector = v->exit.cut_vector,
	};
}

static void dump_cpu(unsigned cpu)
{
	uint64_t count = traces[cpu].count;
	uint64_t first = count > TRACE_EXITS ? count - TRACE_EXITS : 0;

	log_line("CPU %u: %llu exits, %u stray interrupts; the last:", cpu,
	        (unsigned long long)count, percpu_of(cpu)->stray_interrupts);
	for (uint64_t i = first; i < count; i++) {
		const struct trace_entry *e = &traces[cpu].entries[i & (TRACE_EXITS - 1)];

		log_line("  %llu us partition %u vCPU %u %s (%x) rip %llx%s",
		        (unsigned long long)(e->tsc / (tsc_hz / 1000000)), e->partition, e->vcpu,
		        kind_names[e->kind], e->vendor_code, (unsigned long long)e->rip,
		        e->cut_type == CPU_INJECT_NONE ? "" : " cutting an event short");
	}
}

void trace_tell(void)
{
	dump_cpu(percpu()->index);
}

void core_dump(void)
{
	for (unsigned cpu = 0; cpu < cpu_count; cpu++)
		dump_cpu(cpu);
}
