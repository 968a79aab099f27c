/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads on a disk: each knows at any time what has to stand where, and reads it back. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/guest/load.h"

#define RECORD_BYTES 4096u
#define RECORD_WORDS (RECORD_BYTES / 8)

/* A block that says which it is: where, the how-manieth there, and the rest follows from both. */
struct record {
	uint64_t place, number;
	uint64_t words[RECORD_WORDS - 3];
	uint64_t sum;
};
_Static_assert(sizeof(struct record) == RECORD_BYTES, "a record fills its place");

static void record_fill(struct record *r, uint64_t place, uint64_t number)
{
	r->place = place;
	r->number = number;
	r->sum = pattern_fill(r->words, RECORD_WORDS - 3, place << 32 ^ number);
}

/* Numbers begin at 1: number 0 is a place never written, of which nothing is known. */
static void record_check(
        const struct record *have, uint64_t place, uint64_t number, struct seen *seen)
{
	struct record want;

	if (number == 0)
		return;
	record_fill(&want, place, number);
	seen->checked++;
	if (memcmp(have, &want, sizeof(want)) == 0)
		return;
	if (have->place == place && have->number < number)
		seen_bad(seen, "a record is lost: an older one stands in its place", number);
	else
		seen_bad(seen, "a record is not what was written", number);
	fprintf(stderr, "keel-load: place %llu has place %llu, number %llu\n",
	        (unsigned long long)place, (unsigned long long)have->place,
	        (unsigned long long)have->number);
}

static int open_file(const char *path, int flags)
{
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC | flags, 0600);

	if (file < 0)
		give_up(path);
	return file;
}

static unsigned read_slots(int argc, char **argv)
{
	unsigned slots = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;

	if (slots == 0 || slots > 65536) {
		errno = EINVAL;
		give_up("FILE and SLOTS are needed");
	}
	return slots;
}

static bool put(int file, const struct record *r, uint64_t slot, struct seen *seen)
{
	uint64_t start = now_ns();

	if (pwrite(file, r, RECORD_BYTES, (off_t)(slot * RECORD_BYTES)) != RECORD_BYTES) {
		seen_error(seen, "write");
		return false;
	}
	seen_time(seen, start);
	seen->records++;
	return true;
}

static bool get(int file, struct record *r, uint64_t slot, struct seen *seen)
{
	uint64_t start = now_ns();

	if (pread(file, r, RECORD_BYTES, (off_t)(slot * RECORD_BYTES)) != RECORD_BYTES) {
		seen_error(seen, "read");
		return false;
	}
	seen_time(seen, start);
	return true;
}

/* ---- one record after the other -------------------------------------------------------------- */

/* Each synchronously to the next place; at the end every place has the last one written to it. */
void load_records(int argc, char **argv, struct seen *seen)
{
	static struct record r __attribute__((aligned(RECORD_BYTES)));
	unsigned slots = read_slots(argc, argv);
	int file = open_file(argv[0], O_DIRECT | O_DSYNC);
	uint64_t last = 0;

	while (!over && seen->errors == 0) {
		record_fill(&r, last % slots, last + 1);
		if (put(file, &r, last % slots, seen))
			last++;
	}
	for (uint64_t n = last > slots ? last - slots : 0; n < last; n++)
		if (get(file, &r, n % slots, seen))
			record_check(&r, n % slots, n + 1, seen);
}

/* ---- many at once ---------------------------------------------------------------------------- */

#define WORKERS     4u
#define FLUSH_EVERY 32u

struct worker {
	pthread_t thread;
	int file;
	unsigned index, slots;
	uint64_t *numbers; /* by place, those of all workers; each writes its own places only */
	struct seen seen;
};

static void work_once(struct worker *w, struct record *r, uint64_t *random)
{
	uint64_t place = random_next(random) % (w->slots / WORKERS) * WORKERS + w->index;

	if (random_next(random) % 5 < 2) {
		if (get(w->file, r, place, &w->seen))
			record_check(r, place, w->numbers[place], &w->seen);
		return;
	}
	record_fill(r, place, w->numbers[place] + 1);
	if (put(w->file, r, place, &w->seen))
		w->numbers[place]++;
	if (random_next(random) % FLUSH_EVERY == 0 && fdatasync(w->file) != 0)
		seen_error(&w->seen, "flush");
}

static void *work(void *argument)
{
	struct worker *w = argument;
	uint64_t random = now_ns() + w->index + 1;
	void *memory;

	if (posix_memalign(&memory, RECORD_BYTES, RECORD_BYTES) != 0)
		give_up("no memory");
	while (!over && w->seen.errors == 0)
		work_once(w, memory, &random);
	for (uint64_t place = w->index; place < w->slots; place += WORKERS)
		if (get(w->file, memory, place, &w->seen))
			record_check(memory, place, w->numbers[place], &w->seen);
	free(memory);
	return NULL;
}

/* Random places read and written by several threads: a read at any time gives the last write
 * acknowledged there. So does one at the end. */
void load_verify(int argc, char **argv, struct seen *seen)
{
	static struct worker workers[WORKERS];
	unsigned slots = read_slots(argc, argv);
	uint64_t *numbers = calloc(slots, sizeof(*numbers));
	int file = open_file(argv[0], O_DIRECT);

	if (numbers == NULL || slots < WORKERS || ftruncate(file, (off_t)slots * RECORD_BYTES) != 0)
		give_up(argv[0]);
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){
		        .file = file, .index = i, .slots = slots, .numbers = numbers};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			give_up("no thread");
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_join(workers[i].thread, NULL);
		seen_add(seen, &workers[i].seen);
	}
}

/* ---- a writer that waits for each of its writes ---------------------------------------------- */

#define JOURNAL_RECORDS 1024u
#define RENAME_EVERY    16u

static void rewrite(const char *path, const struct record *r, struct seen *seen)
{
	char fresh[512];
	int file;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (file < 0 || write(file, r, RECORD_BYTES) != RECORD_BYTES || fsync(file) != 0 ||
	        rename(fresh, path) != 0)
		seen_error(seen, fresh);
	if (file >= 0)
		close(file);
}

static void check_journal(int file, uint64_t first, uint64_t last, struct seen *seen)
{
	struct record r;

	if (lseek(file, 0, SEEK_END) != (off_t)((last - first) * RECORD_BYTES))
		seen_bad(seen, "the journal has another length than was written", last - first);
	for (uint64_t n = first; n < last; n++)
		if (get(file, &r, n - first, seen))
			record_check(&r, 0, n + 1, seen);
}

static void drop_caches(struct seen *seen)
{
	int file = open("/proc/sys/vm/drop_caches", O_WRONLY);

	if (file < 0 || write(file, "3", 1) != 1)
		seen_error(seen, "drop_caches");
	if (file >= 0)
		close(file);
}

/* Appends through the page cache with an fsync each, begins anew now and then, and renames a file
 * over another: what a database does. */
void load_fsync(int argc, char **argv, struct seen *seen)
{
	static struct record r;
	const char *path = argc == 1 ? argv[0] : "/srv/journal";
	int file = open_file(path, O_APPEND);
	uint64_t first = 0, last = 0;
	char other[480];

	snprintf(other, sizeof(other), "%s.state", path);
	while (!over && seen->errors == 0) {
		uint64_t start = now_ns();

		record_fill(&r, 0, last + 1);
		if (write(file, &r, RECORD_BYTES) != RECORD_BYTES || fsync(file) != 0) {
			seen_error(seen, path);
			break;
		}
		seen_time(seen, start);
		seen->records++;
		last++;
		if (last % RENAME_EVERY == 0)
			rewrite(other, &r, seen);
		if (last - first == JOURNAL_RECORDS) {
			check_journal(file, first, last, seen);
			if (ftruncate(file, 0) != 0)
				seen_error(seen, path);
			first = last;
		}
	}
	drop_caches(seen);
	check_journal(file, first, last, seen);
}
