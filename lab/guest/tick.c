/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs in a guest while root comes and goes: ticks every 10 ms, writes checked records to a disk,
 * and tells what it saw. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * usage: keel-tick FILE SLOTS
 *
 * One thread sleeps to every 10 ms of the guest's own clock and keeps the gaps between wake-ups.
 * Another writes 4 KiB records, one after the other, to FILE's SLOTS places in turn, each
 * synchronously (O_DIRECT, O_DSYNC) and with its number and a checksum; the longest write is the
 * I/O stall. On SIGTERM both stop, every place is read back and checked, and one line of JSON says
 * it all. Exit code 1: a record is not what was written.
 */
#define TICK_NS      10000000ull
#define RECORD_BYTES 4096u
#define GAPS_MAX     200000u /* over half an hour */

struct record {
	uint64_t number;
	uint64_t words[RECORD_BYTES / 8 - 2];
	uint64_t sum;
};
_Static_assert(sizeof(struct record) == RECORD_BYTES, "a record fills its place");

static atomic_bool over;
static uint32_t gaps_us[GAPS_MAX];
static unsigned gap_count;
static uint64_t written, longest_write_ns, errors;
static int file;
static unsigned slots;
static struct record record __attribute__((aligned(4096)));

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void record_fill(struct record *r, uint64_t number)
{
	uint64_t x = number * 0x9e3779b97f4a7c15ull + 1;

	r->number = number;
	r->sum = number;
	for (size_t i = 0; i < sizeof(r->words) / 8; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		r->words[i] = x;
		r->sum = r->sum * 31 + x;
	}
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

static void *writer(void *unused)
{
	(void)unused;
	while (!over) {
		uint64_t start, took;

		record_fill(&record, written);
		start = now_ns();
		if (pwrite(file, &record, RECORD_BYTES, (off_t)(written % slots * RECORD_BYTES)) !=
		        RECORD_BYTES) {
			errors++;
			fprintf(stderr, "keel-tick: record %llu: %s\n", (unsigned long long)written,
			        strerror(errno));
			break;
		}
		took = now_ns() - start;
		if (took > longest_write_ns)
			longest_write_ns = took;
		written++;
	}
	return NULL;
}

/* For who has to find out why: what stands there instead, of the first few. */
static void tell_bad(uint64_t number, uint64_t bad_before, const struct record *want)
{
	const uint64_t *have = (const uint64_t *)&record, *wanted = (const uint64_t *)want;
	unsigned same = 0, zero = 0;

	for (unsigned i = 0; i < RECORD_BYTES / 8; i++) {
		same += have[i] == wanted[i];
		zero += have[i] == 0;
	}
	if (bad_before < 8)
		printf("keel-tick: record %llu of %llu: number %llu, %u words right, %u zero\n",
		        (unsigned long long)number, (unsigned long long)written,
		        (unsigned long long)record.number, same, zero);
}

/* What each place must hold is the last record written to it. */
static uint64_t verify(uint64_t *bad)
{
	static struct record want;
	uint64_t first = written > slots ? written - slots : 0;

	for (uint64_t n = first; n < written; n++) {
		record_fill(&want, n);
		if (pread(file, &record, RECORD_BYTES, (off_t)(n % slots * RECORD_BYTES)) !=
		                RECORD_BYTES ||
		        memcmp(&record, &want, RECORD_BYTES) != 0)
			tell_bad(n, (*bad)++, &want);
	}
	return written - first;
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

static void on_term(int signal)
{
	(void)signal;
	over = true;
}

int main(int argc, char **argv)
{
	pthread_t ticker, writing;
	uint64_t bad = 0, checked;

	slots = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	if (slots == 0) {
		fprintf(stderr, "usage: keel-tick FILE SLOTS\n");
		return 2;
	}
	file = open(argv[1], O_RDWR | O_CREAT | O_DIRECT | O_DSYNC, 0600);
	if (file < 0) {
		fprintf(stderr, "keel-tick: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	signal(SIGTERM, on_term);
	if (pthread_create(&ticker, NULL, tick, NULL) != 0 ||
	        pthread_create(&writing, NULL, writer, NULL) != 0) {
		fprintf(stderr, "keel-tick: no thread\n");
		return 1;
	}
	pthread_join(ticker, NULL);
	pthread_join(writing, NULL);
	checked = verify(&bad);
	qsort(gaps_us, gap_count, sizeof(gaps_us[0]), compare);
	printf("keel-tick {\"ticks\": %u, \"gap_ms_p50\": %.2f, \"gap_ms_p99\": %.2f, "
	       "\"gap_ms_max\": %.2f, "
	       "\"records\": %llu, \"checked\": %llu, \"bad\": %llu, \"errors\": %llu, "
	       "\"io_stall_ms\": %.1f}\n",
	        gap_count, percentile_ms(500), percentile_ms(990), percentile_ms(1000),
	        (unsigned long long)written, (unsigned long long)checked, (unsigned long long)bad,
	        (unsigned long long)errors, (double)longest_write_ns / 1e6);
	return bad != 0 || errors != 0;
}
