/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients, their lines, and the answers that come later (server.h). */
#include "keeld/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "keeld/log.h"

__attribute__((format(printf, 4, 5))) static int refuse(
        int code, char *error, size_t error_bytes, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, error_bytes, format, args);
	va_end(args);
	return code;
}

static void drop(struct client *client)
{
	loop_remove(&client->server->keeld->loop, &client->source);
	close(client->source.fd);
	free(client->line);
	client->line = NULL;
	client->source.fd = -1;
	client->waits_for = NULL;
}

/* Takes the answer. */
static void send_answer(struct client *client, cJSON *answer)
{
	cJSON_AddBoolToObject(
	        answer, "ok", cJSON_GetObjectItemCaseSensitive(answer, "error") == NULL);

	char *text = cJSON_PrintUnformatted(answer);
	size_t bytes = text == NULL ? 0 : strlen(text);
	bool sent = false;

	cJSON_Delete(answer);
	if (text != NULL) {
		text[bytes++] = '\n'; /* in place of the final 0 */
		sent = send(client->source.fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) ==
		       (ssize_t)bytes;
	}
	cJSON_free(text);
	if (!sent)
		drop(client);
}

/* The whole lines that are there, until one has to wait for its answer. A line is taken out before
 * it is acted on: its answer may come, and this be called again, within the act. */
static void take_lines(struct client *client)
{
	char *end;

	while (client->source.fd >= 0 && client->waits_for == NULL &&
	        (end = memchr(client->line, '\n', client->used)) != NULL) {
		size_t bytes = (size_t)(end + 1 - client->line);
		char *line = strndup(client->line, bytes - 1);
		cJSON *answer = NULL;

		client->used -= bytes;
		memmove(client->line, end + 1, client->used);
		if (line != NULL)
			answer = server_answer(client->server, client, line);
		else
			drop(client);
		free(line);
		if (answer != NULL)
			send_answer(client, answer);
	}
	if (client->source.fd >= 0 && client->used == SERVER_LINE_BYTES)
		drop(client);
}

static void on_client(struct loop_source *source, uint32_t events)
{
	struct client *client = (struct client *)(void *)((char *)source -
	                                                  offsetof(struct client, source));
	ssize_t got = recv(
	        source->fd, client->line + client->used, SERVER_LINE_BYTES - client->used, 0);

	(void)events;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		drop(client);
		return;
	}
	client->used += (size_t)got;
	take_lines(client);
}

static void on_listener(struct loop_source *source, uint32_t events)
{
	struct server *server = (struct server *)(void *)((char *)source -
	                                                  offsetof(struct server, listener));
	int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	for (unsigned i = 0; fd >= 0 && i < SERVER_CLIENTS; i++) {
		struct client *client = &server->clients[i];

		if (client->source.fd >= 0)
			continue;
		*client = (struct client){
		        .server = server,
		        .source = {.fd = fd, .ready = on_client},
		        .line = malloc(SERVER_LINE_BYTES),
		};
		if (client->line != NULL && loop_add(&server->keeld->loop, &client->source) == 0)
			return;
		free(client->line);
		client->source.fd = -1;
		break;
	}
	if (fd >= 0)
		close(fd);
}

/* The daemon's `done`: it has one server. */
static struct server *only_server;

static void on_done(struct keeld *keeld, struct vm *vm, enum vm_wish wish, const char *error)
{
	(void)keeld;
	for (unsigned i = 0; only_server != NULL && i < SERVER_CLIENTS; i++) {
		struct client *client = &only_server->clients[i];
		cJSON *answer;

		if (client->source.fd < 0 || client->waits_for != vm || client->wish != wish)
			continue;
		client->waits_for = NULL;
		answer = cJSON_CreateObject();
		if (error != NULL)
			cJSON_AddStringToObject(answer, "error", error);
		send_answer(client, answer);
		take_lines(client);
	}
}

int server_lock(struct server *server, struct keeld *keeld, char *error, size_t error_bytes)
{
	char path[KEELD_PATH_BYTES];

	*server = (struct server){.keeld = keeld, .listener.fd = -1, .lock = -1};
	for (unsigned i = 0; i < SERVER_CLIENTS; i++)
		server->clients[i].source.fd = -1;
	if (!settings_path(path, keeld->settings.run, "keeld.lock", "") ||
	        !settings_path(server->path, keeld->settings.run, "keeld.sock", ""))
		return refuse(
		        -ENAMETOOLONG, error, error_bytes, "the run folder's path is too long");
	server->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (server->lock < 0)
		return refuse(-errno, error, error_bytes, "%s: %s", path, strerror(errno));
	if (flock(server->lock, LOCK_EX | LOCK_NB) == 0)
		return 0;
	close(server->lock);
	server->lock = -1;
	return refuse(-EBUSY, error, error_bytes,
	        "keeld runs already (it holds %s); stop that one first", path);
}

/* Removes what a dead daemon left; nothing that is not a socket. */
static int clear_path(const char *path, char *error, size_t error_bytes)
{
	struct stat info;

	if (lstat(path, &info) != 0)
		return errno == ENOENT ? 0
		                       : refuse(-errno, error, error_bytes, "%s: %s", path,
		                                 strerror(errno));
	if (!S_ISSOCK(info.st_mode))
		return refuse(-EEXIST, error, error_bytes,
		        "%s is in the way and is no socket of keeld's; move it away", path);
	return unlink(path) == 0
	               ? 0
	               : refuse(-errno, error, error_bytes, "%s: %s", path, strerror(errno));
}

int server_open(struct server *server, char *error, size_t error_bytes)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct loop_source *listener = &server->listener;
	mode_t mask;
	int rc;

	if (strlen(server->path) >= sizeof(address.sun_path))
		return refuse(-ENAMETOOLONG, error, error_bytes, "%s: too long", server->path);
	strcpy(address.sun_path, server->path);
	rc = clear_path(server->path, error, error_bytes);
	if (rc != 0)
		return rc;
	*listener = (struct loop_source){
	        .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
	        .ready = on_listener,
	};
	if (listener->fd < 0)
		return refuse(-errno, error, error_bytes, "socket: %s", strerror(errno));
	mask = umask(0177);
	rc = bind(listener->fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
	                     listen(listener->fd, (int)SERVER_CLIENTS) == 0
	             ? loop_add(&server->keeld->loop, listener)
	             : -errno;
	umask(mask);
	if (rc != 0) {
		close(listener->fd);
		listener->fd = -1;
		return refuse(rc, error, error_bytes, "%s: %s", server->path, strerror(-rc));
	}
	only_server = server;
	server->keeld->done = on_done;
	return 0;
}

void server_close(struct server *server)
{
	for (unsigned i = 0; i < SERVER_CLIENTS; i++)
		if (server->clients[i].source.fd >= 0)
			drop(&server->clients[i]);
	if (server->listener.fd >= 0) {
		loop_remove(&server->keeld->loop, &server->listener);
		close(server->listener.fd);
		unlink(server->path);
		server->keeld->done = NULL;
		only_server = NULL;
	}
	if (server->lock >= 0)
		close(server->lock);
}
