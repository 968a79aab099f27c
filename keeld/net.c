/* SPDX-License-Identifier: BSD-2-Clause */
/* Taps and bridges by ioctl: no helper program is needed in root. */
#include "keeld/net.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_bridge.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* What keelvm opens it with: a frame begins with the virtio header (vmm/dev/virtio_net.c). */
#define TAP_FLAGS (IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)

__attribute__((format(printf, 4, 5))) static int refuse(
        int code, char *error, size_t error_bytes, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, error_bytes, format, args);
	va_end(args);
	return code;
}

static void name_request(struct ifreq *request, const char *name)
{
	*request = (struct ifreq){0};
	snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
}

static int tap_open(const char *tap)
{
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	struct ifreq request;
	int rc;

	if (fd < 0)
		return -errno;
	name_request(&request, tap);
	request.ifr_flags = (short)TAP_FLAGS;
	if (ioctl(fd, TUNSETIFF, &request) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int set_up(int socket_fd, const char *interface)
{
	struct ifreq request;

	name_request(&request, interface);
	if (ioctl(socket_fd, SIOCGIFFLAGS, &request) != 0)
		return -errno;
	request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
	return ioctl(socket_fd, SIOCSIFFLAGS, &request) == 0 ? 0 : -errno;
}

/* -EBUSY from the kernel means that it is in a bridge already; in which one it does not say, so it
 * is taken out of the wrong one by removing the tap before. */
static int join(const char *tap, const char *bridge)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;
	struct ifreq request;

	if (fd < 0)
		return -errno;
	name_request(&request, bridge);
	request.ifr_ifindex = (int)if_nametoindex(tap);
	rc = ioctl(fd, SIOCBRADDIF, &request) == 0 || errno == EBUSY ? 0 : -errno;
	if (rc == 0)
		rc = set_up(fd, tap);
	close(fd);
	return rc;
}

static void linux_tap_remove(const char *tap)
{
	int fd;

	/* Opening one that is not there would make it. */
	if (if_nametoindex(tap) == 0)
		return;
	fd = tap_open(tap);
	if (fd < 0)
		return;
	ioctl(fd, TUNSETPERSIST, 0);
	close(fd);
}

/* Makes it, and lets it stay when its descriptor is closed. */
static int tap_make(const char *tap)
{
	int fd = tap_open(tap);
	int rc;

	if (fd < 0)
		return fd;
	rc = ioctl(fd, TUNSETPERSIST, 1) == 0 ? 0 : -errno;
	close(fd);
	return rc;
}

static int linux_tap_add(const char *tap, const char *bridge, char *error, size_t error_bytes)
{
	int rc;

	if (if_nametoindex(bridge) == 0)
		return refuse(-ENODEV, error, error_bytes,
		        "there is no bridge %s; make it: ip link add %s type bridge && ip link set "
		        "%s up",
		        bridge, bridge, bridge);
	/* One that is there may be open in a device process, and cannot be opened again. */
	rc = if_nametoindex(tap) == 0 ? tap_make(tap) : 0;
	if (rc != 0)
		return refuse(rc, error, error_bytes, "cannot make the tap %s: %s%s", tap,
		        strerror(-rc), rc == -ENOENT ? " (is the module tun loaded?)" : "");
	rc = join(tap, bridge);
	if (rc == 0)
		return 0;
	linux_tap_remove(tap);
	if (rc == -EOPNOTSUPP)
		return refuse(rc, error, error_bytes,
		        "%s is no bridge; make one: ip link add NAME type bridge", bridge);
	return refuse(rc, error, error_bytes, "the tap %s cannot join the bridge %s: %s", tap,
	        bridge, strerror(-rc));
}

static int linux_find(const char *interface, char *error, size_t error_bytes)
{
	if (if_nametoindex(interface) != 0)
		return 0;
	return refuse(-ENODEV, error, error_bytes,
	        "there is no tap %s; make it: ip tuntap add %s mode tap", interface, interface);
}

const struct net net_linux = {
        .tap_add = linux_tap_add,
        .tap_remove = linux_tap_remove,
        .find = linux_find,
};
