/* SPDX-License-Identifier: BSD-2-Clause */
/* The tap device: opened, brought up, told what the guest can take. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "engine/net_impl.h"

#define RETRY_NS 5000000

static int tap_attach(struct net *net)
{
	struct ifreq ifr = {0};
	int header = (int)NET_HDR_BYTES, little = 1;
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	memcpy(ifr.ifr_name, net->tap_name, sizeof(net->tap_name));
	ifr.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
	if (ioctl(fd, TUNSETIFF, &ifr) || ioctl(fd, TUNSETVNETHDRSZ, &header) ||
	        ioctl(fd, TUNSETVNETLE, &little)) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	net->tap_fd = fd;
	return 0;
}

/* Brings the tap up and asks for its MTU. Neither failing is fatal: an operator may have set both.
 */
static void tap_up(struct net *net)
{
	struct ifreq ifr = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	net->mtu = 1500;
	if (fd < 0)
		return;
	memcpy(ifr.ifr_name, net->tap_name, sizeof(net->tap_name));
	if (!ioctl(fd, SIOCGIFMTU, &ifr) && ifr.ifr_mtu >= 68 && ifr.ifr_mtu <= UINT16_MAX)
		net->mtu = (uint16_t)ifr.ifr_mtu;
	if (!ioctl(fd, SIOCGIFFLAGS, &ifr) && !(ifr.ifr_flags & IFF_UP)) {
		ifr.ifr_flags |= IFF_UP;
		ioctl(fd, SIOCSIFFLAGS, &ifr);
	}
	close(fd);
}

static int refuse(const struct net *net, int rc, char *error, size_t error_bytes)
{
	const char *why = strerror(-rc);

	if (rc == -ENODEV)
		why = "no such device (make it with: ip tuntap add mode tap vnet_hdr NAME)";
	else if (rc == -EBUSY)
		why = "in use by another VM or program";
	else if (rc == -EINVAL)
		why = "not a tap device with one queue";
	snprintf(error, error_bytes, "network %s: %s", net->tap_name, why);
	return rc;
}

int net_tap_open(struct net *net, char *error, size_t error_bytes)
{
	uint64_t end_ns = engine_clock_ns() + net->config.lock_wait_ms * 1000000ull;
	int rc;

	/* TUNSETIFF would make one, that vanishes with this process and all that was set up on it.
	 */
	if (!if_nametoindex(net->tap_name))
		return refuse(net, -ENODEV, error, error_bytes);
	for (;;) {
		rc = tap_attach(net);
		if (rc != -EBUSY || engine_clock_ns() >= end_ns)
			break;
		nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
	}
	if (rc)
		return refuse(net, rc, error, error_bytes);
	tap_up(net);
	return 0;
}

int net_tap_offload(int fd, uint64_t features)
{
	unsigned offload = 0;

	if (features & VIRTIO_BIT(VIRTIO_NET_F_GUEST_CSUM)) {
		offload = TUN_F_CSUM;
		if (features & VIRTIO_BIT(VIRTIO_NET_F_GUEST_TSO4))
			offload |= TUN_F_TSO4;
		if (features & VIRTIO_BIT(VIRTIO_NET_F_GUEST_TSO6))
			offload |= TUN_F_TSO6;
		if ((features & VIRTIO_BIT(VIRTIO_NET_F_GUEST_ECN)) && offload != TUN_F_CSUM)
			offload |= TUN_F_TSO_ECN;
	}
	return ioctl(fd, TUNSETOFFLOAD, offload) ? -errno : 0;
}
