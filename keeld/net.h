/* SPDX-License-Identifier: BSD-2-Clause */
/* The network interfaces that the daemon makes for VMs and takes away again. */
#pragma once

#include <stddef.h>

/*
 * A tap is persistent: it stays while its VM's device process is replaced. Only taps that carry
 * the daemon's own name pattern are ever made or removed, and only by the VM that they belong to.
 */
struct net {
	/* Makes the tap (an own one that is there is used again), joins it to the bridge, brings it
	 * up. 0 or a negative errno with one line in `error`; then there is no tap. */
	int (*tap_add)(const char *tap, const char *bridge, char *error, size_t error_bytes);
	void (*tap_remove)(const char *tap);
	/* -ENODEV with one line in `error`: no such interface. */
	int (*find)(const char *interface, char *error, size_t error_bytes);
};

extern const struct net net_linux;
