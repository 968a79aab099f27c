/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs in a guest while root or its device process comes and goes: ticks every 10 ms, puts a load
 * on a device, and tells what it saw. */
#include "lab/guest/load.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * usage: keel-load LOAD [ARGUMENT]...
 *
 * One thread sleeps to every 10 ms of the guest's own clock and keeps the gaps between wake-ups,
 * beside the load. On SIGTERM both stop, the load verifies all that it has written, and one line of
 * JSON says what was seen. Exit code 1: something is not as it has to be.
 */
#define TICK_NS      10000000ull
#define GAPS_MAX     200000u /* over half an hour */
#define TELL_AT_MOST 8u

static const struct {
	const char *name, *arguments;
	load_fn *run;
} loads[] = {
        {"idle", "", load_idle},
        {"records", "FILE SLOTS", load_records},
        {"verify", "FILE SLOTS", load_verify},
        {"fsync", "FILE", load_fsync},
        {"receive", "", load_receive},
        {"send", "ADDRESS", load_send},
        {"storm", "", load_storm},
        {"hear", "", load_hear},
};

atomic_bool over;
static uint32_t gaps_us[GAPS_MAX];
static unsigned gap_count;
static atomic_uint told;

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sleep_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
}

void seen_time(struct seen *seen, uint64_t start_ns)
{
	uint64_t took = now_ns() - start_ns;

	if (took > seen->longest_ns)
		seen->longest_ns = took;
}

void seen_add(struct seen *to, const struct seen *from)
{
	to->records += from->records;
	to->checked += from->checked;
	to->bad += from->bad;
	to->errors += from->errors;
	to->doubled += from->doubled;
	to->late += from->late;
	to->packets += from->packets;
	if (from->longest_ns > to->longest_ns)
		to->longest_ns = from->longest_ns;
}

void seen_error(struct seen *seen, const char *what)
{
	if (told++ < TELL_AT_MOST)
		fprintf(stderr, "keel-load: %s: %s\n", what, strerror(errno));
	seen->errors++;
}

void seen_bad(struct seen *seen, const char *what, uint64_t number)
{
	if (told++ < TELL_AT_MOST)
		fprintf(stderr, "keel-load: %s: %llu\n", what, (unsigned long long)number);
	seen->bad++;
}

_Noreturn void give_up(const char *what)
{
	fprintf(stderr, "keel-load: %s: %s\n", what, strerror(errno));
	exit(2);
}

uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

uint64_t pattern_fill(uint64_t *words, size_t count, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1, sum = seed;

	for (size_t i = 0; i < count; i++) {
		words[i] = random_next(&x);
		sum = sum * 31 + words[i];
	}
	return sum;
}

void load_idle(int argc, char **argv, struct seen *seen)
{
	(void)argc, (void)argv, (void)seen;
	while (!over)
		sleep_ns(TICK_NS);
}

static void *tick(void *unused)
{
	uint64_t next = now_ns(), last = next;

	(void)unused;
	while (!over) {
		struct timespec until;
		uint64_t now;

		next += TICK_NS;
		until.tv_sec = (time_t)(next / 1000000000u);
		until.tv_nsec = (long)(next % 1000000000u);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		now = now_ns();
		if (gap_count < GAPS_MAX)
			gaps_us[gap_count++] = (uint32_t)((now - last) / 1000);
		last = now;
		if (next + TICK_NS < now)
			next = now;
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static double percentile_ms(unsigned per_mille)
{
	return gap_count == 0 ? 0 : gaps_us[(uint64_t)(gap_count - 1) * per_mille / 1000] / 1000.0;
}

static void tell(const struct seen *seen)
{
	qsort(gaps_us, gap_count, sizeof(gaps_us[0]), compare);
	printf("keel-load {\"ticks\": %u, \"gap_ms_p50\": %.2f, \"gap_ms_p99\": %.2f, "
	       "\"gap_ms_max\": %.2f, ",
	        gap_count, percentile_ms(500), percentile_ms(990), percentile_ms(1000));
	printf("\"records\": %llu, \"checked\": %llu, \"bad\": %llu, \"errors\": %llu, "
	       "\"packets\": %llu, \"doubled\": %llu, \"late\": %llu, \"io_stall_ms\": %.1f}\n",
	        (unsigned long long)seen->records, (unsigned long long)seen->checked,
	        (unsigned long long)seen->bad, (unsigned long long)seen->errors,
	        (unsigned long long)seen->packets, (unsigned long long)seen->doubled,
	        (unsigned long long)seen->late, (double)seen->longest_ns / 1e6);
}

static void on_term(int signal)
{
	(void)signal;
	over = true;
}

static load_fn *find_load(int argc, char **argv)
{
	for (size_t i = 0; argc >= 2 && i < sizeof(loads) / sizeof(loads[0]); i++)
		if (strcmp(argv[1], loads[i].name) == 0)
			return loads[i].run;
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
		fprintf(stderr, "usage: keel-load %s %s\n", loads[i].name, loads[i].arguments);
	exit(2);
}

int main(int argc, char **argv)
{
	load_fn *load = find_load(argc, argv);
	struct seen seen = {0};
	pthread_t ticker;

	signal(SIGTERM, on_term);
	signal(SIGPIPE, SIG_IGN);
	if (pthread_create(&ticker, NULL, tick, NULL) != 0)
		give_up("no thread");
	load(argc - 2, argv + 2, &seen);
	over = true;
	pthread_join(ticker, NULL);
	tell(&seen);
	return seen.bad != 0 || seen.errors != 0;
}
