/* SPDX-License-Identifier: BSD-2-Clause */
/* The storage under a disk: opened, locked, and asked for its sizes and alignments. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/blk.h"

/* A path "null:SIZE" is a disk of that many MiB without storage, for measuring what the rest costs.
 */
#define BLK_FILE_NULL "null:"

struct blk_file {
	int fd;       /* direct, where the storage can */
	int paged_fd; /* the same through the page cache, for what is not aligned; -1 if fd is that
	               */
	bool is_device;
	bool is_null; /* no storage at all, fd is -1: every request succeeds and keeps nothing */
	bool direct;
	uint32_t offset_align; /* of direct I/O, in the file and of lengths */
	uint32_t memory_align; /* of direct I/O, in memory */
	uint32_t block_bytes;  /* what the guest is told */
	uint32_t physical_bytes;
	uint64_t size_bytes;
};

/* As blk_open. On failure nothing is left open or locked. */
int blk_file_open(
        struct blk_file *file, const struct blk_config *config, char *error, size_t error_bytes);
/* Drops the locks at once, whatever still refers to the descriptions. Needs: nothing in flight. */
void blk_file_close(struct blk_file *file);
/*
 * True: a direct write that is done is found again after a crash of this kernel, for no map of the
 * file changes with it: a block device, or a file without holes and unwritten or shared parts where
 * the file system writes in place. Reads the file's whole map.
 */
bool blk_file_is_settled(const struct blk_file *file);
/*
 * A read or write whose answer is looked for lies within one block of this size, in one piece of
 * memory, so that nothing has a reason to split it. Linux 6.1 refuses to split such a one and tries
 * it again without end (io_wq_submit_work), and of one on two extents it polls for the second
 * alone.
 */
#define BLK_POLL_BYTES 4096u

/* Whether the device below has poll queues (sysfs says so), and takes such requests whole. */
bool blk_file_can_poll(const struct blk_file *file);
/* The size now, in bytes; negative errno on failure. */
int64_t blk_file_size(const struct blk_file *file);
