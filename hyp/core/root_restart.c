/* SPDX-License-Identifier: BSD-2-Clause */
/* Stopping a root, keeping its images, and starting the next. */

#include "hyp/core/root_restart.h"
#include "hyp/core/pool.h"
#include "hyp/core/root.h"
#include "hyp/core/root_vcpu.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/x86/linux_image.h"
#include "hyp/x86/quiesce.h"
#include "hyp/x86/x86.h"
#include "lib/string.h"

#define PIECE_BYTES (256u * 1024u) /* copied in one turn: about 50 us at 5 GB/s */
#define KEPT_OWNER  POOL_HYP_FOR(0)

enum phase {
	PHASE_RUNNING,
	PHASE_STOPPING,
	PHASE_COPYING,
};

struct kept_image {
	hpa_t start;
	uint64_t size_bytes;
};

/* (c) after boot, (a) atomic, (b) the boot CPU while COPYING. */
static struct {
	struct kept_image kernel, initrd; /* (c) */
	char cmdline[BOOT_CMDLINE_MAX];   /* (c) */
	uint64_t rsdp;                    /* (c) */
	uint32_t phase;                   /* (a) enum phase */
	uint32_t stopped;                 /* (a) CPUs that have put their root vCPU away */
	uint64_t copied_bytes;            /* (b) of the initramfs */
	uint64_t initrd_at;               /* (b) where it goes */
	uint64_t asked_tsc;               /* (b) */
} restart;

uint32_t root_starts = 1;

static void keep(struct kept_image *kept, const struct boot_module *module)
{
	uint32_t frames = (uint32_t)((module->size_bytes + LARGE_BYTES - 1) / LARGE_BYTES), first;

	if (!pool_take_run(KEPT_OWNER, frames, &first)) {
		log_line("root: the pool has no %u MiB in one piece to keep root's images: root "
		         "cannot be restarted",
		        frames * 2);
		return;
	}
	kept->start = HPA((uint64_t)first << 21);
	kept->size_bytes = module->size_bytes;
	memcpy(hpa_to_virt(kept->start), hpa_to_virt(module->start), module->size_bytes);
}

void root_restart_keep(const struct boot_info *info)
{
	if (info->module_count > 0)
		keep(&restart.kernel, &info->modules[0]);
	if (info->module_count > 1)
		keep(&restart.initrd, &info->modules[1]);
	memcpy(restart.cmdline, info->modules[0].cmdline, sizeof(restart.cmdline));
	restart.rsdp = info->rsdp;
}

bool root_restart_image(struct linux_image *image)
{
	image->kernel = restart.kernel.start;
	image->kernel_bytes = restart.kernel.size_bytes;
	image->initrd = restart.initrd.start;
	image->initrd_bytes = restart.initrd.size_bytes;
	image->cmdline = restart.cmdline;
	image->rsdp = restart.rsdp;
	return restart.kernel.size_bytes != 0;
}

static enum phase phase(void)
{
	return (enum phase)__atomic_load_n(&restart.phase, __ATOMIC_ACQUIRE);
}

void root_restart_request(const char *why)
{
	uint32_t running = PHASE_RUNNING;

	if (restart.kernel.size_bytes == 0) {
		log_line("root: %s; no kept kernel: the machine is reset", why);
		machine_reset();
	}
	if (!__atomic_compare_exchange_n(&restart.phase, &running, PHASE_STOPPING, false,
	            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return;
	log_line("root: %s: starting root again", why);
	for (unsigned i = 0; i < cpu_count; i++) {
		__atomic_store_n(&root_partition.vcpus[i].look, 1, __ATOMIC_SEQ_CST);
		if (i != percpu()->index)
			cpu_kick(i);
	}
}

bool root_restart_stops_us(void)
{
	return phase() == PHASE_STOPPING && !percpu()->root->root->stopped;
}

bool root_restart_is_loading(void)
{
	return phase() == PHASE_COPYING && percpu()->index == 0;
}

static void put_root_away(struct vcpu *v)
{
	struct root_vcpu *r = v->root;

	if (percpu()->current == v)
		vcpu_make_current(NULL);
	cpu_vcpu_reset(v->cpu_state, &v->regs, 0);
	v->exit.cut_type = CPU_INJECT_NONE;
	root_apic_init(r);
	apic_quiesce();
	__atomic_store_n(&r->nmi_pending, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->init_pending, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->sipi, 0, __ATOMIC_RELAXED);
	r->wait_sipi = true;
	r->stopped = true;
	if (v->state == VCPU_RUNNING)
		sched_put(v, VCPU_WAIT_SIPI);
	else
		v->state = VCPU_WAIT_SIPI;
}

static void begin_copying(void)
{
	unsigned masters = machine_quiesce();

	log_line("root: stopped on %u CPUs, %u devices quiesced", cpu_count, masters);
	root_pci_reset();
	__atomic_store_n(&root_shared->vm_pending, 0, __ATOMIC_RELEASE);
	restart.copied_bytes = 0;
	restart.initrd_at = 0;
	restart.asked_tsc = tsc_now();
	for (unsigned i = 0; i < cpu_count; i++)
		root_partition.vcpus[i].root->stopped = false;
	__atomic_store_n(&restart.stopped, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&restart.phase, PHASE_COPYING, __ATOMIC_RELEASE);
	if (percpu()->index != 0)
		cpu_kick(0);
}

void root_restart_poll(void)
{
	if (!root_restart_stops_us())
		return;
	put_root_away(percpu()->root);
	if (__atomic_add_fetch(&restart.stopped, 1, __ATOMIC_ACQ_REL) == cpu_count)
		begin_copying();
}

/* Where linux_load would put the initramfs; it leaves one that is there already. */
static uint64_t choose_place(const struct linux_image *image)
{
	struct linux_layout layout;
	const char *why = linux_image_parse(
	        hpa_to_virt(image->kernel), image->kernel_bytes, &layout);

	if (why == NULL)
		why = linux_image_place(image, &layout);
	if (why != NULL)
		panic("root cannot be started again: %s", why);
	return layout.initrd;
}

void root_restart_step(struct vcpu *v)
{
	struct linux_image image;
	uint64_t left, n;

	root_restart_image(&image);
	root_image_e820(&image);
	if (restart.initrd_at == 0)
		restart.initrd_at = choose_place(&image);
	left = image.initrd_bytes - restart.copied_bytes;
	n = left < PIECE_BYTES ? left : PIECE_BYTES;
	memcpy((uint8_t *)hpa_to_virt(HPA(restart.initrd_at)) + restart.copied_bytes,
	        (uint8_t *)hpa_to_virt(image.initrd) + restart.copied_bytes, n);
	restart.copied_bytes += n;
	if (restart.copied_bytes < image.initrd_bytes) {
		sched_put(v, VCPU_READY);
		return;
	}
	image.initrd = HPA(restart.initrd_at);
	apic_quiesce(); /* what devices sent between this CPU's stop and their quiescing */
	root_start(v, &image);
	root_starts++;
	log_line("root: start %u, %llu ms after the last one ended", root_starts,
	        (unsigned long long)((tsc_now() - restart.asked_tsc) / (tsc_hz / 1000)));
	__atomic_store_n(&restart.phase, PHASE_RUNNING, __ATOMIC_RELEASE);
}
