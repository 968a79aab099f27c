/* SPDX-License-Identifier: BSD-2-Clause */
/* Stopping a root, keeping its images, and starting the next. */

#include "hyp/core/root_restart.h"
#include "hyp/core/away.h"
#include "hyp/core/root.h"
#include "hyp/core/root_images.h"
#include "hyp/core/root_plan.h"
#include "hyp/core/root_vcpu.h"
#include "hyp/core/run.h"
#include "hyp/core/sched.h"
#include "hyp/x86/linux_image.h"
#include "hyp/x86/quiesce.h"
#include "hyp/x86/x86.h"
#include "lib/fmt.h"
#include "lib/spinlock.h"
#include "lib/string.h"

#define PIECE_BYTES (256u * 1024u) /* copied in one turn: about 50 us at 5 GB/s */

enum phase {
	PHASE_RUNNING,
	PHASE_STOPPING,
	PHASE_COPYING,
	PHASE_DOWN, /* for good */
};

/* (a) atomic, (b) the boot CPU while COPYING, (l) under lock. */
static struct {
	uint32_t phase;        /* (a) enum phase */
	uint32_t stopped;      /* (a) CPUs that have put their root vCPU away */
	uint64_t copied_bytes; /* (b) of the initramfs */
	uint64_t initrd_at;    /* (b) where it goes */
	struct spinlock lock;
	uint64_t started_tsc;   /* (l) when the current root was entered, or began to be laid out */
	uint64_t watch_tsc;     /* (a) when hyp gives root up; UINT64_MAX: never */
	uint32_t starts;        /* (l), constant while STOPPING */
	uint32_t history_count; /* (l) */
	struct keel_root_past history[KEEL_ROOT_HISTORY]; /* (l) newest first */
} restart = {.watch_tsc = UINT64_MAX, .starts = 1};

static enum phase phase(void)
{
	return (enum phase)__atomic_load_n(&restart.phase, __ATOMIC_ACQUIRE);
}

static uint64_t ms_since(uint64_t tsc)
{
	return (tsc_now() - tsc) / (tsc_hz / 1000);
}

/* The restart that begins now, for those who ask later; start and label follow when they are known.
 */
static void note(const char *why)
{
	struct keel_root_past *first = &restart.history[0];

	spin_lock(&restart.lock);
	memmove(first + 1, first, (KEEL_ROOT_HISTORY - 1) * sizeof(*first));
	if (restart.history_count < KEEL_ROOT_HISTORY)
		restart.history_count++;
	memset(first, 0, sizeof(*first));
	first->tsc = tsc_now();
	first->up_ms = ms_since(restart.started_tsc);
	first->was_ready = root_images_is_ready();
	fmt_print(first->reason, sizeof(first->reason), "%s", why);
	spin_unlock(&restart.lock);
}

void root_restart_request(const char *why)
{
	struct linux_image image;
	uint32_t running = PHASE_RUNNING;

	if (!root_images_current(&image)) {
		log_line("root: %s; no image was kept: the machine is reset", why);
		machine_reset();
	}
	if (!__atomic_compare_exchange_n(&restart.phase, &running, PHASE_STOPPING, false,
	            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return;
	log_line("root: %s%s", why, root_images_is_ready() ? "" : ", before it was ready");
	note(why);
	away_begin();
	__atomic_store_n(&restart.watch_tsc, UINT64_MAX, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < cpu_count; i++) {
		__atomic_store_n(&root_partition.vcpus[i].look, 1, __ATOMIC_SEQ_CST);
		if (i != percpu()->index)
			cpu_kick(i);
	}
}

/*
 * The watch is kept by the last CPU: it needs hyp's timer there all the time, and with it physical
 * interrupts of root's cost an exit on that CPU. So only one has it, and not the first, where most
 * of root's interrupts go.
 */
uint64_t root_restart_watch_tsc(void)
{
	uint64_t watch = __atomic_load_n(&restart.watch_tsc, __ATOMIC_ACQUIRE);
	uint64_t policies = away_deadline();

	if (percpu()->index != cpu_count - 1)
		return UINT64_MAX;
	return watch < policies ? watch : policies;
}

void root_restart_watch(void)
{
	uint64_t now = tsc_now();

	if (now < root_restart_watch_tsc())
		return;
	away_run(now);
	if (now < __atomic_load_n(&restart.watch_tsc, __ATOMIC_ACQUIRE))
		return;
	root_restart_request(root_images_is_ready() ? "no heartbeat" : "not ready in time");
}

static void watch_for(uint64_t ms)
{
	uint64_t tsc = ms == 0 ? UINT64_MAX : tsc_now() + ms * (tsc_hz / 1000);

	__atomic_store_n(&restart.watch_tsc, tsc, __ATOMIC_RELEASE);
	if (percpu()->index != cpu_count - 1)
		cpu_kick(cpu_count - 1);
}

void root_restart_ready(void)
{
	root_images_ready();
	away_end();
	watch_for(0);
}

void root_restart_beat(uint32_t timeout_ms)
{
	if (root_images_is_ready())
		watch_for(timeout_ms);
}

void root_restart_status(struct keel_hc_root_status *s)
{
	memset(s, 0, sizeof(*s));
	root_images_status(s);
	spin_lock(&restart.lock);
	s->start = restart.starts;
	s->started_tsc = restart.started_tsc;
	s->now_tsc = tsc_now();
	s->tsc_hz = tsc_hz;
	s->history_count = restart.history_count;
	memcpy(s->history, restart.history, sizeof(s->history));
	spin_unlock(&restart.lock);
}

bool root_restart_stops_us(void)
{
	return phase() == PHASE_STOPPING && percpu()->root->root->stopped_start != restart.starts;
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
	r->stopped_start = restart.starts;
	if (v->state == VCPU_RUNNING)
		sched_put(v, VCPU_WAIT_SIPI);
	else
		v->state = VCPU_WAIT_SIPI;
}

/* From the image that the plan says, if there is one left to try. */
static void begin_copying(void)
{
	restart.copied_bytes = 0;
	restart.initrd_at = 0;
	if (!root_images_next()) {
		log_line("root: its image failed %u times in a row and is given up: the VMs run on "
		         "without root",
		        ROOT_PLAN_TRIES);
		__atomic_store_n(&restart.phase, PHASE_DOWN, __ATOMIC_RELEASE);
		return;
	}
	__atomic_store_n(&restart.phase, PHASE_COPYING, __ATOMIC_RELEASE);
	if (percpu()->index != 0)
		cpu_kick(0);
}

static void end_stopping(void)
{
	unsigned reset, masters = machine_quiesce(&reset);

	log_line("root: stopped on %u CPUs, %u devices quiesced, %u of them reset", cpu_count,
	        masters, reset);
	root_pci_reset();
	__atomic_store_n(&root_shared->vm_pending, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&restart.stopped, 0, __ATOMIC_RELAXED);
	begin_copying();
}

void root_restart_poll(void)
{
	if (!root_restart_stops_us())
		return;
	put_root_away(percpu()->root);
	if (__atomic_add_fetch(&restart.stopped, 1, __ATOMIC_ACQ_REL) == cpu_count)
		end_stopping();
}

/* Where linux_load would put the initramfs; it leaves one that is there already. NULL, or why the
 * image does not fit. */
static const char *choose_place(const struct linux_image *image, uint64_t *at)
{
	struct linux_layout layout;
	const char *why = linux_image_parse(
	        hpa_to_virt(image->kernel), image->kernel_bytes, &layout);

	if (why == NULL)
		why = linux_image_place(image, &layout);
	if (why == NULL)
		*at = layout.initrd;
	return why;
}

/* One that does not fit root's memory counts as one that failed: the VMs run on. */
static void give_image_up(struct vcpu *v, const char *why)
{
	log_line("root: image \"%s\" cannot be started: %s", root_images_label(), why);
	sched_put(v, VCPU_WAIT_SIPI);
	begin_copying();
}

static void begin_life(void)
{
	struct keel_root_past *past = &restart.history[0];

	spin_lock(&restart.lock);
	restart.starts++;
	restart.started_tsc = tsc_now();
	past->start = restart.starts;
	fmt_print(past->label, sizeof(past->label), "%s", root_images_label());
	log_line("root: start %u from image \"%s\", %llu ms after the last one ended",
	        restart.starts, root_images_label(), (unsigned long long)ms_since(past->tsc));
	spin_unlock(&restart.lock);
	/* A good image may take its time: its failure leaves nothing to fall back to. */
	watch_for(root_images_trial_ms());
	__atomic_store_n(&restart.phase, PHASE_RUNNING, __ATOMIC_RELEASE);
}

void root_restart_step(struct vcpu *v)
{
	struct linux_image image;
	const char *why = NULL;
	uint64_t left, n;

	hyp_assert(root_images_current(&image));
	root_image_e820(&image);
	if (restart.initrd_at == 0)
		why = choose_place(&image, &restart.initrd_at);
	if (why != NULL) {
		give_image_up(v, why);
		return;
	}
	left = image.initrd_bytes - restart.copied_bytes;
	n = left < PIECE_BYTES ? left : PIECE_BYTES;
	memcpy((uint8_t *)hpa_to_virt(HPA(restart.initrd_at)) + restart.copied_bytes,
	        (uint8_t *)hpa_to_virt(image.initrd) + restart.copied_bytes, n);
	restart.copied_bytes += n;
	if (restart.copied_bytes < image.initrd_bytes || !machine_is_quiet()) {
		sched_put(v, VCPU_READY);
		return;
	}
	image.initrd = HPA(restart.initrd_at);
	apic_quiesce(); /* what devices sent between this CPU's stop and their quiescing */
	interrupts_sort();
	if (root_start(v, &image))
		begin_life();
	else
		give_image_up(v, "see above");
}
