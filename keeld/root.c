/* SPDX-License-Identifier: BSD-2-Clause */
/* Reporting ready, and beating, on the daemon's loop. */
#include "keeld/root.h"

#include <string.h>
#include <time.h>

#include "keeld/log.h"
#include "keeld/vm.h"

#define MS           1000000ull
#define LOOK_NS      (100 * MS)
#define READY_MAX_NS (120000 * MS)

static struct {
	struct keeld *keeld;
	struct loop_timer timer;
	uint64_t begun_ns;
	uint32_t beat_ms;
	bool ready;
} root;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool all_served(const struct keeld *keeld)
{
	for (const struct vm *vm = keeld->vms; vm != NULL; vm = vm->next)
		if (vm->id != 0 && (vm->state == VM_STARTING || vm->state == VM_WAITING))
			return false;
	return true;
}

static void beat(void)
{
	int rc = root.keeld->hyp->root_beat(root.keeld->hyp, root.beat_ms);

	if (rc != 0)
		log_line("hyp does not take root's heartbeat: %s", strerror(-rc));
}

static void report_when_ready(void)
{
	int rc;

	if (!all_served(root.keeld) && now_ns() - root.begun_ns < READY_MAX_NS)
		return;
	rc = root.keeld->hyp->root_ready(root.keeld->hyp);
	root.ready = true;
	if (rc == 0) {
		log_line("root is ready");
		return;
	}
	log_line("hyp does not take the report that root is ready: %s", strerror(-rc));
	root.beat_ms = 0; /* nor a heartbeat */
}

/* Beats from the first moment: this root may have been ready before, under a daemon that is gone.
 * hyp minds no beat of one that was not. */
static void fire(struct loop_timer *timer)
{
	if (!root.ready)
		report_when_ready();
	if (root.beat_ms != 0)
		beat();
	if (!root.ready)
		loop_timer_set(&root.keeld->loop, timer, LOOK_NS);
	else if (root.beat_ms != 0)
		loop_timer_set(&root.keeld->loop, timer, root.beat_ms * MS / 3);
}

void root_begin(struct keeld *keeld, uint32_t beat_ms)
{
	root.keeld = keeld;
	root.beat_ms = beat_ms;
	root.ready = false;
	root.begun_ns = now_ns();
	root.timer.fire = fire;
	loop_timer_set(&keeld->loop, &root.timer, 1);
}

void root_end(struct keeld *keeld)
{
	loop_timer_clear(&keeld->loop, &root.timer);
	if (root.beat_ms != 0)
		keeld->hyp->root_beat(keeld->hyp, 0);
}
