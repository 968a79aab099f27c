/* SPDX-License-Identifier: BSD-2-Clause */
/* One connection a request (client.h); keeld/server.h and vmm/control.h list what can be asked. */
#include "cli/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/verb.h"

static int open_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, rc;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static bool send_line(int fd, cJSON *request)
{
	char *text = cJSON_PrintUnformatted(request);
	size_t left = text == NULL ? 0 : strlen(text) + 1;
	const char *at = text;

	cJSON_Delete(request);
	if (text == NULL)
		return false;
	text[left - 1] = '\n'; /* in place of the final 0 */
	while (left > 0) {
		ssize_t done = send(fd, at, left, MSG_NOSIGNAL);

		if (done < 0 && errno != EINTR)
			break;
		if (done > 0) {
			at += done;
			left -= (size_t)done;
		}
	}
	cJSON_free(text);
	return left == 0;
}

/* A whole line, or NULL when the other side goes before it is there. */
static char *read_line(int fd)
{
	FILE *in = fdopen(fd, "r");
	char *line = NULL;
	size_t room = 0;
	ssize_t got = in == NULL ? -1 : getline(&line, &room, in);

	if (in != NULL)
		fclose(in);
	else
		close(fd);
	if (got > 0 && line[got - 1] == '\n')
		return line;
	free(line);
	return NULL;
}

static int tell_no_socket(const char *path, int rc)
{
	if (rc == -EACCES || rc == -EPERM)
		return complain(EXIT_REFUSED, "%s: only root may; use sudo", path);
	if (access("/dev/keel", F_OK) != 0)
		return complain(EXIT_NO_HYP,
		        "there is no /dev/keel: this is not root on hyp, or keel.ko is not loaded "
		        "(modprobe keel)");
	return complain(EXIT_NO_HYP,
	        "keeld does not run (%s: %s); start it: systemctl start keeld, or keeld &", path,
	        strerror(-rc));
}

int client_send(const char *path, cJSON *request, int *code, bool quiet)
{
	int fd = open_socket(path);

	*code = EXIT_NO_HYP;
	if (fd < 0) {
		cJSON_Delete(request);
		if (!quiet)
			*code = tell_no_socket(path, fd);
		return -1;
	}
	if (quiet) {
		const struct timeval limit = {.tv_sec = 2};

		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	}
	if (send_line(fd, request))
		return fd;
	close(fd);
	*code = EXIT_REFUSED;
	if (!quiet)
		complain(0, "keeld hung up");
	return -1;
}

cJSON *client_receive(int socket, int *code, bool quiet)
{
	char *line = read_line(socket);
	cJSON *answer = line == NULL ? NULL : cJSON_Parse(line);
	const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "error"));

	free(line);
	*code = EXIT_OK;
	if (answer != NULL && error == NULL)
		return answer;
	*code = EXIT_REFUSED;
	if (!quiet)
		complain(0, "%s", error != NULL ? error : "keeld ended before it answered");
	cJSON_Delete(answer);
	return NULL;
}

cJSON *client_ask(const char *path, cJSON *request, int *code, bool quiet)
{
	int fd = client_send(path, request, code, quiet);

	return fd < 0 ? NULL : client_receive(fd, code, quiet);
}

cJSON *client_ask_keeld(const char *cmd, const char *name, int *code)
{
	cJSON *request = cJSON_CreateObject();

	cJSON_AddStringToObject(request, "cmd", cmd);
	if (name != NULL)
		cJSON_AddStringToObject(request, "name", name);
	return client_ask(PATHS_SOCKET, request, code, false);
}

cJSON *client_ask_stats(const char *name)
{
	cJSON *request = cJSON_CreateObject();
	char path[256];
	int code;

	cJSON_AddStringToObject(request, "cmd", "stats");
	snprintf(path, sizeof(path), PATHS_RUN_VM "/%s.sock", name);
	return client_ask(path, request, &code, true);
}
