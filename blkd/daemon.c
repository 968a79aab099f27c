/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon: its device for the vhost-user server, its signals, front ends one after another. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "blkd/daemon.h"
#include "blkd/listen.h"
#include "blkd/options.h"
#include "engine/vhost.h"
#include "engine/vhost_proto.h"

struct daemon {
	struct blk *blk;
	struct vhost_server *server;
	int signal_fd;
	bool ends;
	bool writeback; /* as the driver last set it */
};

/* ---- what the engine says, on its threads ---------------------------------------------------- */

static void on_call(void *owner, unsigned queue)
{
	struct daemon *d = owner;

	vhost_call(d->server, queue);
}

static void on_log(void *owner, const char *line)
{
	(void)owner;
	fprintf(stderr, "keel-blk: %s\n", line);
}

static void on_broken(void *owner, unsigned queue, const char *why)
{
	struct daemon *d = owner;

	fprintf(stderr, "keel-blk: queue %u has stopped: %s\n", queue, why);
	vhost_broken(d->server, queue);
}

/* ---- the device ------------------------------------------------------------------------------ */

static uint64_t device_features(void *owner)
{
	struct daemon *d = owner;

	return blk_features(d->blk);
}

static void device_config_read(void *owner, uint8_t *space)
{
	struct daemon *d = owner;
	struct virtio_blk_config config;

	blk_config_space(d->blk, &config);
	memcpy(space, &config, sizeof(config));
}

static void writeback_set(struct daemon *d, bool writeback)
{
	d->writeback = writeback;
	blk_set_writeback(d->blk, writeback);
}

static int device_config_write(void *owner, unsigned offset, const uint8_t *data, unsigned bytes)
{
	/* virtio 1.2 §5.2.4: the one field that a driver writes. */
	if (offset != offsetof(struct virtio_blk_config, writeback) || bytes != 1 || *data > 1)
		return -EINVAL;
	writeback_set(owner, *data);
	return 0;
}

/* A successor must not take a write-through disk for a write-back one. */
static void device_keep(void *owner, uint8_t *bytes, bool fresh)
{
	struct daemon *d = owner;

	if (fresh)
		bytes[0] = d->writeback;
	else
		writeback_set(d, bytes[0]);
}

static int device_queue_start(void *owner, const struct engine_queue *queue)
{
	struct daemon *d = owner;

	return blk_queue_start(d->blk, queue);
}

static int device_queue_stop(void *owner, unsigned index, unsigned timeout_ms)
{
	struct daemon *d = owner;

	return blk_queue_stop(d->blk, index, timeout_ms);
}

/* ---- signals --------------------------------------------------------------------------------- */

static void stats_print(struct daemon *d)
{
	struct blk_stats s;

	blk_stats_read(d->blk, &s);
	printf("{\"backend\": \"%s\", \"reads\": %llu, \"writes\": %llu, \"flushes\": %llu, "
	       "\"read_bytes\": %llu, "
	       "\"write_bytes\": %llu, \"errors\": %llu, \"kicks\": %llu, \"calls\": %llu, "
	       "\"waits\": %llu, \"watch_hits\": %llu, \"watch_misses\": %llu, \"bounced\": %llu, "
	       "\"polled\": %llu, \"held\": %llu, \"resumed\": %llu}\n",
	        blk_backend_name(d->blk), (unsigned long long)s.requests[BLK_READ],
	        (unsigned long long)s.requests[BLK_WRITE],
	        (unsigned long long)s.requests[BLK_FLUSH], (unsigned long long)s.bytes[BLK_READ],
	        (unsigned long long)s.bytes[BLK_WRITE], (unsigned long long)s.errors,
	        (unsigned long long)s.kicks, (unsigned long long)s.calls,
	        (unsigned long long)s.waits, (unsigned long long)s.watch_hits,
	        (unsigned long long)s.watch_misses, (unsigned long long)s.bounced,
	        (unsigned long long)s.polled, (unsigned long long)s.held,
	        (unsigned long long)s.resumed);
	fflush(stdout);
}

static int signals_open(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -1;
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void signals_take(struct daemon *d)
{
	struct signalfd_siginfo info;

	while (read(d->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGHUP:
			if (blk_refresh(d->blk) > 0)
				vhost_config_changed(d->server);
			break;
		case SIGUSR1: stats_print(d); break;
		default: d->ends = true;
		}
	}
}

/* ---- front ends, one after another ----------------------------------------------------------- */

static void serve(struct daemon *d, int listen_fd)
{
	while (!d->ends) {
		struct pollfd p[2] = {{listen_fd, POLLIN, 0}, {d->signal_fd, POLLIN, 0}};
		int conn;

		if (poll(p, 2, -1) < 0)
			continue;
		signals_take(d);
		if (d->ends || !p[0].revents)
			continue;
		conn = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (conn < 0)
			continue;
		/* A new front end's device is reset, until its in-flight region says otherwise. */
		writeback_set(d, true);
		while (vhost_serve(d->server, conn, d->signal_fd) == -EINTR) {
			signals_take(d);
			if (d->ends)
				vhost_server_leave(d->server);
			if (d->ends)
				break;
		}
	}
}

static int daemon_open(struct daemon *d, struct options *o)
{
	struct vhost_device device = {
	        .owner = d,
	        .queue_count = o->disk.queue_count,
	        .features = device_features,
	        .config_read = device_config_read,
	        .config_write = device_config_write,
	        .queue_start = device_queue_start,
	        .queue_stop = device_queue_stop,
	        .keep = device_keep,
	        .log = on_log,
	};
	char error[512];

	o->disk.events = (struct engine_events){d, on_call, on_broken, on_log};
	if (blk_open(&d->blk, &o->disk, error, sizeof(error))) {
		fprintf(stderr, "keel-blk: %s\n", error);
		return -1;
	}
	d->server = vhost_server_new(&device);
	if (!d->server)
		fprintf(stderr, "keel-blk: no memory or no descriptors\n");
	return d->server ? 0 : -1;
}

int daemon_main(int argc, char **argv, void (*on_ready)(void))
{
	struct daemon d = {.signal_fd = -1};
	struct options o;
	int listen_fd, rc = 1;

	switch (options_read(&o, argc, argv)) {
	case OPTIONS_DONE: return 0;
	case OPTIONS_WRONG: return 2;
	default: break;
	}
	d.signal_fd = signals_open();
	if (d.signal_fd < 0 || daemon_open(&d, &o))
		goto out;
	listen_fd = o.socket_path ? listen_open(o.socket_path) : o.listen_fd;
	if (listen_fd < 0)
		goto out;
	rc = 0;
	on_ready();
	serve(&d, listen_fd);
	close(listen_fd);
	if (o.socket_path)
		unlink(o.socket_path);
out:
	vhost_server_free(d.server);
	blk_close(d.blk);
	return rc;
}
