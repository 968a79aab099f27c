/* SPDX-License-Identifier: BSD-2-Clause */
/* A load on interrupts alone: wake-ups from CPU to CPU, IPIs that are waited for, and timers. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lab/guest/load.h"

#define TIMER_NS    200000u
#define STUCK_NS    20000000000ull
#define BARRIER_PER 8u

static int there[2], back[2];
static atomic_ullong rounds; /* of the ball between the CPUs */

static void stay_on(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* The other side of the ball: an idle CPU is woken by an IPI each time. */
static void *answer(void *unused)
{
	char ball;

	(void)unused;
	stay_on(1);
	while (read(there[0], &ball, 1) == 1 && write(back[1], &ball, 1) == 1)
		;
	return NULL;
}

static void *timer(void *cpu)
{
	stay_on((unsigned)(uintptr_t)cpu);
	while (!over)
		sleep_ns(TIMER_NS);
	return NULL;
}

/* A ball that does not come back means that a wake-up was lost: then nothing would ever end. */
static void *watch(void *argument)
{
	unsigned long long last = 0;
	uint64_t since = now_ns();

	while (!over) {
		sleep_ns(100000000u);
		if (rounds != last)
			since = now_ns();
		last = rounds;
		if (now_ns() - since > STUCK_NS) {
			errno = ETIMEDOUT;
			seen_error(argument, "a wake-up was lost");
			give_up("the ball did not come back");
		}
	}
	return NULL;
}

static void start_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, argument) != 0)
		give_up("no thread");
}

void load_storm(int argc, char **argv, struct seen *seen)
{
	char ball = 1;

	(void)argc, (void)argv;
	if (pipe(there) != 0 || pipe(back) != 0 ||
	        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0)
		give_up("storm");
	start_thread(answer, NULL);
	start_thread(watch, seen);
	for (uintptr_t cpu = 0; cpu < 2; cpu++)
		start_thread(timer, (void *)cpu);
	stay_on(0);
	while (!over) {
		uint64_t start = now_ns();

		if (write(there[1], &ball, 1) != 1 || read(back[0], &ball, 1) != 1) {
			seen_error(seen, "the ball");
			break;
		}
		seen_time(seen, start);
		seen->records = ++rounds;
		/* Waits until each CPU that runs a thread of ours has taken an IPI. */
		if (rounds % BARRIER_PER == 0 &&
		        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
			seen_error(seen, "membarrier");
	}
}
