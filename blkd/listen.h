/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket that front ends connect to. */
#pragma once

/* Listens at the path. What a dead predecessor left there is removed. A negative errno, told on
 * stderr, if it cannot be, or a living process listens there. */
int listen_open(const char *path);
