/* SPDX-License-Identifier: BSD-2-Clause */
/* A disk as its owner sees it: opened, described to the guest, its queues started and stopped. */
#include "engine/blk.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engine/blk_impl.h"

/* A queue's thread has no large locals and calls nothing that has. */
#define STACK_BYTES (128u << 10)

/* ---- the disk -------------------------------------------------------------------------------- */

static uint64_t sectors_of(const struct blk_file *file, uint64_t size_bytes)
{
	return size_bytes / file->block_bytes * (file->block_bytes / VIRTIO_BLK_SECTOR_BYTES);
}

static int config_check(const struct blk_config *config, char *error, size_t error_bytes)
{
	const char *what = NULL;

	if (!config->queue_count || config->queue_count > BLK_QUEUE_MAX)
		what = "number of queues";
	else if (config->block_bytes && config->block_bytes != 512 && config->block_bytes != 4096)
		what = "block size (512 or 4096)";
	else if (config->serial && strlen(config->serial) > VIRTIO_BLK_ID_BYTES)
		what = "serial number (at most 20 bytes)";
	else if (config->bandwidth_max && config->bandwidth_max < BLK_THROTTLE_BANDWIDTH_MIN)
		what = "bandwidth (at least 4096 bytes a second)";
	if (!what)
		return 0;
	snprintf(error, error_bytes, "disk %s: bad %s", config->path, what);
	return -EINVAL;
}

static int disk_build(struct blk *blk)
{
	blk->path = strdup(blk->config.path);
	blk->queues = calloc(blk->config.queue_count, sizeof(*blk->queues));
	blk->zeroes = mmap(NULL, BLK_ZERO_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (blk->zeroes == MAP_FAILED)
		blk->zeroes = NULL;
	if (!blk->path || !blk->queues || !blk->zeroes)
		return -ENOMEM;
	blk->config.path = blk->path;
	if (blk->config.serial)
		memcpy(blk->serial, blk->config.serial, strlen(blk->config.serial));
	blk->config.serial = NULL;
	for (unsigned i = 0; i < blk->config.queue_count; i++) {
		blk->queues[i].blk = blk;
		blk->queues[i].index = i;
	}
	return 0;
}

const char *blk_backend_name(const struct blk *blk)
{
	return blk->workers ? "workers" : "io_uring";
}

void blk_tell(const struct blk *blk, const char *format, ...)
{
	const struct engine_events *events = &blk->config.events;
	char line[512];
	va_list list;
	int at = snprintf(line, sizeof(line), "disk %s: ", blk->path);

	if (at < 0 || (size_t)at >= sizeof(line))
		at = 0;
	va_start(list, format);
	vsnprintf(line + at, sizeof(line) - (size_t)at, format, list);
	va_end(list);
	if (events->log)
		events->log(events->owner, line);
}

static int backend_choose(struct blk *blk)
{
	bool wanted = blk->config.backend == BLK_BACKEND_WORKERS && !blk->file.is_null;
	char why[160] = "as configured";

	if (blk->config.backend == BLK_BACKEND_MEASURE) {
		blk_probe_run(&blk->file, &blk->probe);
		blk_probe_describe(&blk->probe, why, sizeof(why));
		wanted = blk_probe_wants_workers(&blk->probe);
	}
	if (wanted) {
		blk->workers = blk_workers_new(&blk->file, blk->config.workers);
		if (!blk->workers)
			return -ENOMEM;
	}
	blk->polls = blk->config.iopoll && !blk->workers && blk_file_can_poll(&blk->file);
	blk_tell(blk, "by %s (%s)%s", blk_backend_name(blk), why,
	        blk->polls           ? ", by the device's poll queues"
	        : blk->config.iopoll ? ", by interrupts: it cannot be polled"
	                             : "");
	return 0;
}

int blk_open(struct blk **out, const struct blk_config *config, char *error, size_t error_bytes)
{
	int rc = config_check(config, error, error_bytes);
	struct blk *blk;

	*out = NULL;
	if (rc)
		return rc;
	blk = calloc(1, sizeof(*blk));
	if (!blk) {
		snprintf(error, error_bytes, "disk %s: no memory", config->path);
		return -ENOMEM;
	}
	blk->config = *config;
	blk->file.fd = blk->file.paged_fd = -1;
	rc = disk_build(blk);
	if (!rc)
		rc = blk_file_open(&blk->file, config, error, error_bytes);
	else
		snprintf(error, error_bytes, "disk %s: %s", config->path, strerror(-rc));
	if (!rc) {
		rc = backend_choose(blk);
		if (rc)
			snprintf(error, error_bytes, "disk %s: no memory", config->path);
	}
	if (rc) {
		blk_close(blk);
		return rc;
	}
	atomic_store(&blk->sectors, sectors_of(&blk->file, blk->file.size_bytes));
	blk->throttle.iops = config->iops_max;
	blk->throttle.bandwidth = config->bandwidth_max;
	atomic_store(&blk->writeback, true);
	atomic_store(&blk->unsettled,
	        config->guest_outlives && !config->read_only && !blk_file_is_settled(&blk->file));
	*out = blk;
	return 0;
}

void blk_close(struct blk *blk)
{
	if (!blk)
		return;
	blk_workers_free(blk->workers);
	blk_file_close(&blk->file);
	if (blk->zeroes)
		munmap(blk->zeroes, BLK_ZERO_BYTES);
	free(blk->queues);
	free(blk->path);
	free(blk);
}

/* ---- what the guest is told ------------------------------------------------------------------ */

uint64_t blk_features(const struct blk *blk)
{
	uint64_t features = VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC) | VIRTIO_BIT(VIRTIO_F_EVENT_IDX) |
	                    VIRTIO_BIT(VIRTIO_BLK_F_SEG_MAX) | VIRTIO_BIT(VIRTIO_BLK_F_BLK_SIZE) |
	                    VIRTIO_BIT(VIRTIO_BLK_F_TOPOLOGY) | VIRTIO_BIT(VIRTIO_BLK_F_FLUSH) |
	                    VIRTIO_BIT(VIRTIO_BLK_F_CONFIG_WCE);

	if (blk->config.queue_count > 1)
		features |= VIRTIO_BIT(VIRTIO_BLK_F_MQ);
	if (blk->config.read_only)
		features |= VIRTIO_BIT(VIRTIO_BLK_F_RO);
	else
		features |= VIRTIO_BIT(VIRTIO_BLK_F_DISCARD) |
		            VIRTIO_BIT(VIRTIO_BLK_F_WRITE_ZEROES);
	return features;
}

void blk_config_space(const struct blk *blk, struct virtio_blk_config *out)
{
	const struct blk_file *file = &blk->file;
	uint32_t align = file->physical_bytes > 4096 ? file->physical_bytes : 4096;

	memset(out, 0, sizeof(*out));
	out->capacity = atomic_load_explicit(&blk->sectors, memory_order_relaxed);
	out->seg_max = BLK_SEG_MAX;
	out->blk_size = file->block_bytes;
	out->physical_block_exp = (uint8_t)__builtin_ctz(file->physical_bytes / file->block_bytes);
	out->min_io_size = 1;
	out->writeback = atomic_load_explicit(&blk->writeback, memory_order_relaxed);
	out->num_queues = (uint16_t)blk->config.queue_count;
	if (blk->config.read_only)
		return;
	out->max_discard_sectors = BLK_DISCARD_SECTORS;
	out->max_discard_seg = BLK_RANGE_MAX;
	out->discard_sector_alignment = align / VIRTIO_BLK_SECTOR_BYTES;
	out->max_write_zeroes_sectors = BLK_ZERO_SECTORS;
	out->max_write_zeroes_seg = BLK_RANGE_MAX;
	out->write_zeroes_may_unmap = 1;
}

void blk_set_writeback(struct blk *blk, bool writeback)
{
	atomic_store_explicit(&blk->writeback, writeback, memory_order_relaxed);
}

int blk_refresh(struct blk *blk)
{
	int64_t size = blk_file_size(&blk->file);
	uint64_t sectors;

	if (size < 0)
		return (int)size;
	sectors = sectors_of(&blk->file, (uint64_t)size);
	return atomic_exchange(&blk->sectors, sectors) != sectors;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static void queue_release(struct blk_queue *q)
{
	if (q->stop_fd >= 0)
		close(q->stop_fd);
	if (q->done_fd >= 0)
		close(q->done_fd);
	q->stop_fd = q->done_fd = -1;
	free(q->reqs);
	q->reqs = NULL;
}

/* All but the counters, which live as long as the disk. */
static int queue_prepare(struct blk_queue *q, const struct engine_queue *queue)
{
	struct blk_stats stats = q->stats;
	struct blk *blk = q->blk;
	int rc;

	memset(q, 0, sizeof(*q));
	q->blk = blk;
	q->index = queue->index;
	q->stats = stats;
	q->kick_fd = queue->kick_fd;
	q->stop_fd = q->done_fd = -1;
	q->features = queue->ring.features;
	q->watch = WATCH_START;
	q->bounce_free = (1u << BLK_BOUNCE_BUFFERS) - 1;
	q->bounce_last = &q->bounce_first;
	q->hand_last = &q->hand_first;
	q->held_last = &q->held_first;
	rc = vring_attach(&q->vr, &queue->ring);
	if (rc)
		return rc;
	q->reqs = calloc(q->vr.size, sizeof(*q->reqs));
	if (!q->reqs)
		return -ENOMEM;
	q->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->stop_fd >= 0 && blk->workers)
		q->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return q->stop_fd < 0 || (blk->workers && q->done_fd < 0) ? -errno : 0;
}

/* Signals go to the owner's threads. */
static int thread_create(struct blk_queue *q)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&q->thread, &attr, blk_queue_main, q);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc)
		return -rc;
	return 0;
}

static int thread_await_start(struct blk_queue *q)
{
	int rc;

	pthread_mutex_lock(&q->lock);
	while (!q->started)
		pthread_cond_wait(&q->started_cond, &q->lock);
	rc = q->start_error;
	pthread_mutex_unlock(&q->lock);
	return rc;
}

int blk_queue_start(struct blk *blk, const struct engine_queue *queue)
{
	struct blk_queue *q;
	int rc;

	if (queue->index >= blk->config.queue_count)
		return -EINVAL;
	q = &blk->queues[queue->index];
	if (q->running)
		return -EBUSY;
	rc = queue_prepare(q, queue);
	if (!rc) {
		pthread_mutex_init(&q->lock, NULL);
		pthread_cond_init(&q->started_cond, NULL);
		rc = thread_create(q);
	}
	if (!rc) {
		rc = thread_await_start(q);
		if (rc)
			pthread_join(q->thread, NULL);
	}
	if (rc)
		queue_release(q);
	q->running = !rc;
	return rc;
}

int blk_queue_stop(struct blk *blk, unsigned index, unsigned timeout_ms)
{
	struct blk_queue *q;
	struct timespec end;
	uint64_t one = 1;

	if (index >= blk->config.queue_count || !blk->queues[index].running)
		return 0;
	q = &blk->queues[index];
	if (write(q->stop_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		return -errno;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += (time_t)(timeout_ms / 1000);
	end.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	if (pthread_clockjoin_np(q->thread, NULL, CLOCK_MONOTONIC, &end))
		return -ETIMEDOUT;
	q->running = false;
	queue_release(q);
	return 0;
}

/* ---- counters -------------------------------------------------------------------------------- */

void blk_stats_read(const struct blk *blk, struct blk_stats *out)
{
	uint64_t *sum = (uint64_t *)out;

	_Static_assert(sizeof(*out) % sizeof(*sum) == 0, "only counters");
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < blk->config.queue_count; i++) {
		const uint64_t *from = (const uint64_t *)&blk->queues[i].stats;

		for (unsigned k = 0; k < sizeof(*out) / sizeof(*sum); k++)
			sum[k] += __atomic_load_n(&from[k], __ATOMIC_RELAXED);
	}
}
