/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's only loop: descriptors and timers, one event after another on one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/*
 * A handler may add and remove any source or timer, also its own. One event is taken from the
 * kernel at a time, so none is ever delivered to a source that is gone.
 */
struct loop_source {
	int fd;
	void (*ready)(struct loop_source *source, uint32_t events);
};

struct loop_timer {
	uint64_t due_ns; /* CLOCK_MONOTONIC; 0: not set */
	void (*fire)(struct loop_timer *timer);
	struct loop_timer *next;
};

struct loop {
	int epoll;
	struct loop_timer *timers;
	bool timers_turn;
	bool over;
};

int loop_open(struct loop *loop); /* 0 or -errno */
void loop_close(struct loop *loop);
int loop_add(struct loop *loop, struct loop_source *source);     /* readable; 0 or -errno */
void loop_remove(struct loop *loop, struct loop_source *source); /* does not close it */
/* Again: moves it. The timer is unset when it fires. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns);
void loop_timer_clear(struct loop *loop, struct loop_timer *timer);
/* Waits for an event or a timer, at most limit_ms (-1: no limit), and handles that one. They take
 * turns, so that a source that is always ready keeps no timer from firing. */
void loop_step(struct loop *loop, int limit_ms);
/* Until loop->over. */
void loop_run(struct loop *loop);
uint64_t loop_now_ns(void);
