/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll and a list of timers (loop.h); there are a few timers per VM, so a list is enough. */
#include "keeld/loop.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

uint64_t loop_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int loop_open(struct loop *loop)
{
	*loop = (struct loop){.epoll = epoll_create1(EPOLL_CLOEXEC)};
	return loop->epoll < 0 ? -errno : 0;
}

void loop_close(struct loop *loop)
{
	close(loop->epoll);
}

int loop_add(struct loop *loop, struct loop_source *source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

	return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event) == 0 ? 0 : -errno;
}

void loop_remove(struct loop *loop, struct loop_source *source)
{
	epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
}

void loop_timer_clear(struct loop *loop, struct loop_timer *timer)
{
	struct loop_timer **at = &loop->timers;

	timer->due_ns = 0;
	while (*at != NULL && *at != timer)
		at = &(*at)->next;
	if (*at != NULL)
		*at = timer->next;
	timer->next = NULL;
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns)
{
	struct loop_timer **at = &loop->timers;

	loop_timer_clear(loop, timer);
	timer->due_ns = loop_now_ns() + delay_ns;
	while (*at != NULL && (*at)->due_ns <= timer->due_ns)
		at = &(*at)->next;
	timer->next = *at;
	*at = timer;
}

/* Milliseconds until the first timer, rounded up, so that it is due then. */
static int timeout_ms(const struct loop *loop, int limit_ms)
{
	uint64_t now = loop_now_ns(), wait_ms;

	if (loop->timers == NULL)
		return limit_ms;
	if (loop->timers->due_ns <= now)
		return 0;
	wait_ms = (loop->timers->due_ns - now + 999999) / 1000000;
	if (limit_ms >= 0 && wait_ms > (uint64_t)limit_ms)
		return limit_ms;
	return wait_ms > 3600000 ? 3600000 : (int)wait_ms;
}

static bool fire_due(struct loop *loop)
{
	struct loop_timer *timer = loop->timers;

	if (timer == NULL || timer->due_ns > loop_now_ns())
		return false;
	loop_timer_clear(loop, timer);
	timer->fire(timer);
	return true;
}

void loop_step(struct loop *loop, int limit_ms)
{
	struct epoll_event event;
	bool timers_turn = loop->timers_turn;
	struct loop_source *source;

	loop->timers_turn = false;
	if (timers_turn && fire_due(loop))
		return;
	if (epoll_wait(loop->epoll, &event, 1, timeout_ms(loop, limit_ms)) != 1) {
		fire_due(loop);
		return;
	}
	loop->timers_turn = true;
	source = event.data.ptr;
	source->ready(source, event.events);
}

void loop_run(struct loop *loop)
{
	while (!loop->over)
		loop_step(loop, -1);
}
