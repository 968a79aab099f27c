/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's socket: one JSON object a line in, one out, in order, for each client. */
#pragma once

#include "keeld/keeld.h"

/*
 * PATHS_SOCKET, a stream socket, mode 0600. Requests and what their answers have beside "ok":
 *
 *   {"cmd":"create","file":NAME,"text":TEXT}   name; `file` is only for messages
 *   {"cmd":"delete","name":N}                  of a VM that is off
 *   {"cmd":"start","name":N}                   when it is served
 *   {"cmd":"stop","name":N,"timeout_s":S}      when its guest is off
 *   {"cmd":"kill","name":N}                    when it is gone
 *   {"cmd":"upgrade","name":N}                 when another device process serves it
 *   {"cmd":"list"}                             vms: [{name, state, …}]
 *   {"cmd":"show","name":N}                    vm: {…}, definition: {…}
 *
 * A refusal is {"ok":false,"error":LINE}. A client that waits gets its answer when it is due, and
 * what it sent meanwhile is looked at afterwards. One that does not read loses its connection.
 */
#define SERVER_CLIENTS    32u
#define SERVER_LINE_BYTES (4u * CONF_MAX_BYTES)

struct server;

struct client {
	struct server *server;
	struct loop_source source; /* fd -1: free */
	struct vm *waits_for;      /* NULL: nothing */
	enum vm_wish wish;
	size_t used;
	char *line; /* SERVER_LINE_BYTES */
};

struct server {
	struct keeld *keeld;
	struct loop_source listener;
	int lock;
	char path[KEELD_PATH_BYTES];
	struct client clients[SERVER_CLIENTS];
};

/*
 * The lock says who is the daemon; only its holder touches the socket's path. Refused with one line
 * in `error` if another daemon lives, or what is at the path is no socket (C-57). 0 or -errno.
 */
int server_lock(struct server *server, struct keeld *keeld, char *error, size_t error_bytes);
/* Needs: server_lock, and keeld->done not set yet. */
int server_open(struct server *server, char *error, size_t error_bytes);
void server_close(struct server *server);

/* requests.c: the answer to one line, to be freed by cJSON_Delete; NULL: it comes later. */
struct cJSON *server_answer(struct server *server, struct client *client, const char *line);
