/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to keeld, and to a device process's control socket: a line of JSON out, one in. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

/*
 * Sends the request (which it takes) to the socket and waits for the answer, however long that
 * takes. NULL: *code is EXIT_*, and a line was printed unless `quiet`. Else to be freed by
 * cJSON_Delete; it has no "error".
 */
cJSON *client_ask(const char *path, cJSON *request, int *code, bool quiet);
/* The two halves of it: the socket, or -1 as above; and the answer, with which the socket is
 * closed. */
int client_send(const char *path, cJSON *request, int *code, bool quiet);
cJSON *client_receive(int socket, int *code, bool quiet);
/* To keeld: cmd, and the VM's name if it is not NULL. */
cJSON *client_ask_keeld(const char *cmd, const char *name, int *code);
/* A device process's statistics; NULL: it has none to say. */
cJSON *client_ask_stats(const char *name);
