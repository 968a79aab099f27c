/* SPDX-License-Identifier: BSD-2-Clause */
/* The virtio entropy device (virtio 1.2 §5.4): the kernel's random bytes, at a bounded rate. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "engine/iov.h"
#include "vmm/dev/devices.h"
#include "vmm/dev/engine_glue.h"
#include "vmm/log.h"

/*
 * A guest may not keep a CPU of root's busy: RATE bytes a second, of which BURST may come at once.
 * A request gets what is allowed at the moment, at least one byte (§5.4.6.2 lets a device use less
 * than the whole buffer), and waits while nothing is allowed.
 *
 * One thread serves the queue. The counters are its own, read by anyone.
 */
#define RATE        (1u << 20)
#define BURST       (64u << 10)
#define REFILL_MS   10
#define PIECE       256u
#define QUEUE_SIZE  64u
#define STACK_BYTES (128u << 10)

#define PCI_CLASS_OTHER 0x00ff00u

struct virtio_rng {
	struct virtio_device dev;
	struct memtable mem;
	bool running; /* the control thread's: there is a thread to join */
	bool told_broken;
	pthread_t thread;
	int kick_fd;
	int stop_fd;
	uint64_t allowed; /* bytes */
	uint64_t refilled_ns;
	uint64_t requests, bytes, errors;
	struct vring vr;
};

static struct virtio_rng *of_device(struct virtio_device *dev)
{
	return (struct virtio_rng *)(void *)((char *)dev - offsetof(struct virtio_rng, dev));
}

static void count(uint64_t *counter, uint64_t by)
{
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

static void refill(struct virtio_rng *rng)
{
	struct timespec now;
	uint64_t now_ns, more;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
	more = (now_ns - rng->refilled_ns) / 1000 * RATE / 1000000;
	if (!more)
		return;
	rng->refilled_ns = now_ns;
	rng->allowed = more < BURST - rng->allowed ? rng->allowed + more : BURST;
}

/* Fills the buffers, as far as it is allowed. Returns the bytes. */
static uint32_t fill(struct virtio_rng *rng, const struct vring_chain *chain)
{
	uint64_t left = chain->writable_bytes < rng->allowed ? chain->writable_bytes : rng->allowed;
	uint8_t piece[PIECE];
	uint32_t done = 0;

	while (left) {
		ssize_t got = getrandom(piece, left < PIECE ? left : PIECE, 0);

		if (got <= 0)
			break;
		iov_copy_to(chain->iov + chain->readable_count, chain->writable_count, done, piece,
		        (size_t)got);
		done += (uint32_t)got;
		left -= (uint64_t)got;
	}
	rng->allowed -= done;
	return done;
}

static void serve(struct virtio_rng *rng)
{
	struct vring_chain chain;

	while (rng->allowed && vring_pop(&rng->vr, &chain) > 0) {
		uint32_t done = chain.fault ? 0 : fill(rng, &chain);

		count(done ? &rng->requests : &rng->errors, 1);
		count(&rng->bytes, done);
		vring_put(&rng->vr, chain.head, done);
	}
	vring_publish(&rng->vr);
	if (vring_take_call(&rng->vr))
		virtio_signal_queue(&rng->dev, 0);
	if (rng->vr.broken && !rng->told_broken) {
		rng->told_broken = true;
		log_line("%s: stopped until the guest resets the device: %s", rng->dev.name,
		        rng->vr.broken);
		virtio_set_broken(&rng->dev);
	}
}

/* False: the end. */
static bool wait_for(struct virtio_rng *rng, bool kick, int timeout_ms)
{
	struct pollfd fds[] = {{rng->stop_fd, POLLIN, 0}, {kick ? rng->kick_fd : -1, POLLIN, 0}};
	uint64_t kicks;

	if (poll(fds, 2, timeout_ms) <= 0)
		return true;
	/* A kick is only a reason to look. */
	if (fds[1].revents && read(rng->kick_fd, &kicks, sizeof(kicks)) < 0 && errno != EAGAIN)
		return false;
	return !fds[0].revents;
}

static void *rng_main(void *arg)
{
	struct virtio_rng *rng = arg;
	bool on = true;

	while (on) {
		refill(rng);
		serve(rng);
		if (!rng->allowed)
			on = wait_for(rng, false, REFILL_MS);
		else if (!vring_notify_on(&rng->vr))
			on = wait_for(rng, true, -1);
		vring_notify_off(&rng->vr);
	}
	return NULL;
}

static size_t inflight_bytes(struct virtio_device *dev, unsigned queue, unsigned size)
{
	(void)dev;
	(void)queue;
	return vring_inflight_bytes(size);
}

static int thread_create(struct virtio_rng *rng)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&rng->thread, &attr, rng_main, rng);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!rc)
		pthread_setname_np(rng->thread, "rng");
	return -rc;
}

static int queue_start(struct virtio_device *dev, const struct virtio_queue_setup *setup)
{
	struct virtio_rng *rng = of_device(dev);
	struct engine_queue queue;
	int rc;

	if (rng->running)
		return -EBUSY;
	glue_queue(setup, &rng->mem, &queue);
	rc = vring_attach(&rng->vr, &queue.ring);
	if (rc)
		return rc;
	rng->kick_fd = queue.kick_fd;
	rng->told_broken = false;
	rng->allowed = BURST;
	rng->refilled_ns = 0;
	rng->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rng->stop_fd < 0)
		return -errno;
	rc = thread_create(rng);
	if (rc)
		close(rng->stop_fd);
	rng->running = !rc;
	return rc;
}

static void reset(struct virtio_device *dev)
{
	struct virtio_rng *rng = of_device(dev);
	uint64_t one = 1;

	if (!rng->running)
		return;
	while (write(rng->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(rng->thread, NULL);
	close(rng->stop_fd);
	rng->running = false;
}

static void stats(struct virtio_device *dev, struct virtio_device_stats *out)
{
	struct virtio_rng *rng = of_device(dev);

	*out = (struct virtio_device_stats){
	        .requests = __atomic_load_n(&rng->requests, __ATOMIC_RELAXED),
	        .bytes_in = __atomic_load_n(&rng->bytes, __ATOMIC_RELAXED),
	        .errors = __atomic_load_n(&rng->errors, __ATOMIC_RELAXED),
	};
}

/* There is no configuration space; the transport asks for none of it. */
static void config_read(struct virtio_device *dev, unsigned offset, void *out, unsigned bytes)
{
	(void)dev;
	(void)offset;
	for (unsigned i = 0; i < bytes; i++)
		((uint8_t *)out)[i] = 0;
}

static const struct virtio_device_ops ops = {
        .config_read = config_read,
        .inflight_bytes = inflight_bytes,
        .queue_start = queue_start,
        .reset = reset,
        .stats = stats,
};

struct virtio_device *virtio_rng_create(
        const struct device_env *env, char *error, size_t error_bytes)
{
	struct virtio_rng *rng = calloc(1, sizeof(*rng));

	if (!rng) {
		snprintf(error, error_bytes, "random numbers: no memory");
		return NULL;
	}
	glue_memtable(env->gmem, &rng->mem);
	rng->dev = (struct virtio_device){
	        .ops = &ops,
	        .name = "rng0",
	        .device_id = VIRTIO_ID_ENTROPY,
	        .class_code = PCI_CLASS_OTHER,
	        .queues = 1,
	        .queue_size_max = QUEUE_SIZE,
	        .features = VIRTIO_BIT(VIRTIO_F_INDIRECT_DESC) | VIRTIO_BIT(VIRTIO_F_EVENT_IDX),
	};
	return &rng->dev;
}
