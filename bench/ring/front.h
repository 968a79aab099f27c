/* SPDX-License-Identifier: BSD-2-Clause */
/* A vhost-user front end of our own: guest memory, rings, and a socket to the device. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench/lib/queue.h"

/*
 * Written from the protocol's text and Linux's headers, and shares nothing with engine/, so that
 * what both get wrong shows. Memory, rings and the in-flight region outlive a connection: after the
 * device's process is gone front_connect attaches its successor to the same.
 */

#define FRONT_QUEUES_MAX 16u
#define FRONT_SIZE_MAX   1024u

struct front {
	char path[108];
	int conn;
	int backend_fd; /* requests of the device; -1 */
	pid_t peer;     /* the device's process */
	uint64_t offered, features, protocol_features;
	uint8_t *mem;
	size_t mem_bytes, mem_used;
	int mem_fd;
	int inflight_fd; /* -1: the device keeps none */
	uint64_t inflight_size, inflight_offset;
	uint64_t capacity; /* sectors */
	unsigned queue_count;
	struct queue queues[FRONT_QUEUES_MAX];
	char error[256];
};

struct front_config {
	const char *path;
	unsigned queue_count;
	unsigned queue_size;
	size_t mem_bytes;
	uint64_t refuse; /* feature bits not to be accepted */
};

/* Memory and rings. -1 with f->error set. */
int front_init(struct front *f, const struct front_config *c);
void front_free(struct front *f);
/* Guest memory, never given back; NULL: none left. */
void *front_alloc(struct front *f, size_t bytes, size_t align);
uint64_t front_gpa(const struct front *f, const void *at);

/*
 * Connects, waiting up to wait_ms for the socket, and starts all queues: from the beginning, or
 * where the last connection ended. -1 with f->error set.
 */
int front_connect(struct front *f, unsigned wait_ms);
/* Stops the queues by the protocol (the device drains them), then leaves. */
int front_stop(struct front *f);
/* Closes the socket and nothing more. */
void front_drop(struct front *f);
/* Whether the device's process has closed its end. */
bool front_is_gone(const struct front *f);
/* The capacity, asked again. -1: failed. */
int front_read_capacity(struct front *f);
int front_set_writeback(struct front *f, bool writeback);
int front_read_config(struct front *f, void *out, uint32_t offset, uint32_t bytes);
