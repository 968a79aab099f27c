/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures at open whether the storage makes who asks wait, and so which back end it gets. */
#include "engine/blk_probe.h"

#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "engine/blk_impl.h"
#include "engine/blk_workers.h"

#define READS       16u
#define READ_BYTES  4096u
#define ROUNDS      3u
#define BLOCKING_NS 20000u

/* Each round reads elsewhere, so that none finds in a cache what another one left there. */
static uint64_t place_of(const struct blk_file *file, unsigned round, unsigned i)
{
	uint64_t pages = file->size_bytes / READ_BYTES, n = round * READS + i;

	return n * (pages / (2 * ROUNDS * READS) + 1) % pages * READ_BYTES;
}

/* ---- by the ring ----------------------------------------------------------------------------- */

static bool ring_read(struct io_uring *ring, const struct blk_file *file, unsigned round,
        uint8_t *memory, struct blk_probe *out)
{
	struct io_uring_cqe *cqe;
	uint64_t start, submitted, end;
	unsigned left = READS;
	bool good = true;

	for (unsigned i = 0; i < READS; i++)
		io_uring_prep_read(io_uring_get_sqe(ring), file->fd, memory + i * READ_BYTES,
		        READ_BYTES, place_of(file, round, i));
	start = engine_clock_ns();
	if (io_uring_submit(ring) != READS)
		return false;
	submitted = engine_clock_ns();
	for (; left && !io_uring_wait_cqe(ring, &cqe); left--) {
		good = good && cqe->res == READ_BYTES;
		io_uring_cqe_seen(ring, cqe);
	}
	end = engine_clock_ns();
	if (submitted - start < out->submit_ns)
		out->submit_ns = submitted - start;
	if (end - start < out->ring_ns)
		out->ring_ns = end - start;
	return good && !left;
}

/* ---- by threads ------------------------------------------------------------------------------ */

struct reader {
	const struct blk_file *file;
	uint8_t *memory;
	uint64_t at;
	bool good;
};

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	struct iovec iov = {r->memory, READ_BYTES};
	struct blk_sys sys = {.iov = &iov, .count = 1, .kind = BLK_SYS_READ, .at = r->at};

	blk_workers_run(r->file, &sys);
	r->good = sys.result == READ_BYTES;
	return NULL;
}

/* What making the threads costs counts against them. */
static bool threads_read(
        const struct blk_file *file, unsigned round, uint8_t *memory, struct blk_probe *out)
{
	struct reader readers[READS];
	pthread_t threads[READS];
	unsigned count = 0;
	bool good;
	uint64_t start = engine_clock_ns();

	for (; count < READS; count++) {
		readers[count] = (struct reader){file, memory + count * READ_BYTES,
		        place_of(file, ROUNDS + round, count), false};
		if (pthread_create(&threads[count], NULL, reader_main, &readers[count]))
			break;
	}
	good = count == READS;
	for (unsigned i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		good = good && readers[i].good;
	}
	if (engine_clock_ns() - start < out->threads_ns)
		out->threads_ns = engine_clock_ns() - start;
	return good;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static bool is_blocking(const struct blk_probe *p)
{
	return p->submit_ns > READS * BLOCKING_NS && p->submit_ns > p->ring_ns / 2;
}

bool blk_probe_wants_workers(const struct blk_probe *p)
{
	return p->measured && is_blocking(p) && p->threads_ns < p->ring_ns - p->ring_ns / 5;
}

/* The best of a few rounds each: what disturbs one is not the storage. */
static bool rounds_run(
        struct io_uring *ring, const struct blk_file *file, uint8_t *memory, struct blk_probe *out)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (!ring_read(ring, file, i, memory, out))
			return false;
		if (!is_blocking(out))
			return true;
	}
	for (unsigned i = 0; i < ROUNDS; i++)
		if (!threads_read(file, i, memory, out))
			return false;
	return true;
}

void blk_probe_run(const struct blk_file *file, struct blk_probe *out)
{
	struct io_uring ring;
	void *memory;

	*out = (struct blk_probe){
	        .submit_ns = UINT64_MAX, .ring_ns = UINT64_MAX, .threads_ns = UINT64_MAX};
	if (file->is_null || file->size_bytes < READS * READ_BYTES ||
	        io_uring_queue_init(READS, &ring, 0))
		return;
	memory = mmap(NULL, READS * READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	        -1, 0);
	/* Storage that cannot be read is told of when the guest reads it. */
	if (memory != MAP_FAILED) {
		out->measured = rounds_run(&ring, file, memory, out);
		munmap(memory, READS * READ_BYTES);
	}
	io_uring_queue_exit(&ring);
}

void blk_probe_describe(const struct blk_probe *p, char *out, size_t out_bytes)
{
	if (!p->measured)
		snprintf(out, out_bytes, "not measured");
	else if (p->threads_ns == UINT64_MAX)
		snprintf(out, out_bytes, "a read keeps who asks for %.1f us",
		        (double)p->submit_ns / READS / 1000);
	else
		snprintf(out, out_bytes,
		        "a read keeps who asks for %.1f us; %u at once take %.0f us, by threads "
		        "%.0f us",
		        (double)p->submit_ns / READS / 1000, READS, (double)p->ring_ns / 1000,
		        (double)p->threads_ns / 1000);
}
