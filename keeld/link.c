/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of JSON on a stream socket that never blocks (the other side: vmm/control.h). */
#include "keeld/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cjson/cJSON.h>

bool link_is_open(const struct link *link)
{
	return link->source.fd >= 0;
}

void link_close(struct link *link)
{
	if (!link_is_open(link))
		return;
	loop_remove(link->loop, &link->source);
	close(link->source.fd);
	link->source.fd = -1;
}

/* False: what came is no answer. */
static bool take_line(struct link *link, const char *line)
{
	cJSON *answer = cJSON_Parse(line);

	if (answer == NULL)
		return false;
	link->answered(link, answer);
	cJSON_Delete(answer);
	return true;
}

/* False: the connection is of no more use. */
static bool take_lines(struct link *link)
{
	char *end;

	while (link_is_open(link) && (end = memchr(link->line, '\n', link->used)) != NULL) {
		size_t bytes = (size_t)(end + 1 - link->line);

		*end = '\0';
		if (!take_line(link, link->line))
			return false;
		link->used -= bytes;
		memmove(link->line, end + 1, link->used);
	}
	return link->used < sizeof(link->line);
}

static void on_ready(struct loop_source *source, uint32_t events)
{
	struct link *link = (struct link *)(void *)((char *)source - offsetof(struct link, source));
	ssize_t got = recv(source->fd, link->line + link->used, sizeof(link->line) - link->used, 0);

	(void)events;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got > 0) {
		link->used += (size_t)got;
		if (take_lines(link))
			return;
	}
	/* An answer may have closed it. */
	if (!link_is_open(link))
		return;
	link_close(link);
	link->closed(link);
}

int link_open(struct link *link, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, rc = 0;

	link->source = (struct loop_source){.fd = -1, .ready = on_ready};
	link->used = 0;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		rc = -errno;
	if (rc == 0) {
		link->source.fd = fd;
		rc = loop_add(link->loop, &link->source);
	}
	if (rc != 0) {
		close(fd);
		link->source.fd = -1;
	}
	return rc;
}

int link_ask(struct link *link, const char *word)
{
	char line[128];
	int bytes = snprintf(line, sizeof(line), "{\"cmd\":\"%s\"}\n", word);

	if (!link_is_open(link))
		return -ENOTCONN;
	return send(link->source.fd, line, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == bytes
	               ? 0
	               : -EPIPE;
}
