/* SPDX-License-Identifier: BSD-2-Clause */
/* Making the socket, also where a killed predecessor left its own. */
#include "blkd/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Whether nobody listens at the address any more. */
static int is_dead(const struct sockaddr_un *at)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int dead;

	if (fd < 0)
		return 0;
	dead = connect(fd, (const struct sockaddr *)at, sizeof(*at)) && errno == ECONNREFUSED;
	close(fd);
	return dead;
}

int listen_open(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(at.sun_path))
		rc = -ENAMETOOLONG;
	else
		memcpy(at.sun_path, path, strlen(path));
	if (!rc && bind(fd, (const struct sockaddr *)&at, sizeof(at))) {
		rc = -errno;
		if (rc == -EADDRINUSE && is_dead(&at) && !unlink(path))
			rc = bind(fd, (const struct sockaddr *)&at, sizeof(at)) ? -errno : 0;
	}
	if (!rc && listen(fd, 1))
		rc = -errno;
	if (rc) {
		fprintf(stderr, "keel-blk: socket %s: %s\n", path, strerror(-rc));
		close(fd);
		return rc;
	}
	return fd;
}
