/* SPDX-License-Identifier: BSD-2-Clause */
/* The limit: a frame is one write, and one read. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bench/net/port.h"

#define READ_BYTES (PORT_HDR_BYTES + 65536u + 64u)

struct bare {
	struct port port;
	int fd;
	uint8_t *out, *in;
};

static struct bare *bare_of(struct port *p)
{
	return (struct bare *)(void *)p;
}

static uint8_t *bare_room(struct port *p)
{
	return bare_of(p)->out;
}

static void bare_send(struct port *p, uint32_t frame_bytes)
{
	struct bare *b = bare_of(p);

	/* A full queue of the tap drops it, as a wire would; the receiver counts. */
	if (write(b->fd, b->out, PORT_HDR_BYTES + frame_bytes) < 0 && errno != EAGAIN)
		perror("bench-net: write");
}

static unsigned bare_take(struct port *p, struct iovec iov[PORT_IOVS])
{
	struct bare *b = bare_of(p);
	ssize_t n = read(b->fd, b->in, READ_BYTES);

	if (n <= 0)
		return 0;
	iov[0] = (struct iovec){b->in, (size_t)n};
	return 1;
}

static void bare_flush(struct port *p)
{
	(void)p;
}

static bool bare_rest(struct port *p, int timeout_ms)
{
	struct pollfd f = {bare_of(p)->fd, POLLIN, 0};

	return poll(&f, 1, timeout_ms) == 1;
}

static void bare_close(struct port *p)
{
	struct bare *b = bare_of(p);

	if (b->fd >= 0)
		close(b->fd);
	free(b->out);
	free(b->in);
	free(b);
}

static int bare_attach(const char *tap)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	int header = (int)PORT_HDR_BYTES;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", tap);
	if (fd >= 0 && (ioctl(fd, TUNSETIFF, &ifr) || ioctl(fd, TUNSETVNETHDRSZ, &header) ||
	                       ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4))) {
		close(fd);
		return -1;
	}
	return fd;
}

struct port *port_open_bare(const struct port_config *c, char *error, size_t error_bytes)
{
	struct bare *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->port = (struct port){.room = bare_room,
	        .send = bare_send,
	        .take = bare_take,
	        .flush = bare_flush,
	        .rest = bare_rest,
	        .close = bare_close};
	b->out = calloc(1, PORT_HDR_BYTES + (size_t)c->frame_bytes);
	b->in = malloc(READ_BYTES);
	b->fd = bare_attach(c->tap);
	if (b->fd < 0 || !b->out || !b->in) {
		snprintf(error, error_bytes, "%s: %s", c->tap, strerror(errno));
		bare_close(&b->port);
		return NULL;
	}
	return &b->port;
}
