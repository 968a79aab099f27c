/* SPDX-License-Identifier: BSD-2-Clause */
/* O_DIRECT and io_uring with registered buffers, straight between a disk and a VM's memory, with
 * the data compared. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kmod/common.h"

#define RAM        (64 * MIB)
#define FRAME      (2 * MIB)
#define FILE_BYTES (16 * MIB)

static struct test_vm vm;
static uint8_t *pattern; /* what the file holds */
static const char *path;

/* A file, or a disk that is given away: its first FILE_BYTES are overwritten. */
static int open_disk(int flags)
{
	int fd = open(path, flags | O_CREAT | O_CLOEXEC, 0600);

	check(fd >= 0);
	return fd;
}

static void make_file(void)
{
	int fd = open_disk(O_RDWR);
	uint64_t x = 88172645463325252ull;

	pattern = malloc(FILE_BYTES);
	check(pattern != NULL);
	for (size_t at = 0; at < FILE_BYTES; at += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(pattern + at, &x, 8);
	}
	check(pwrite(fd, pattern, FILE_BYTES, 0) == (ssize_t)FILE_BYTES);
	check(fsync(fd) == 0);
	close(fd);
}

/* Where in memory, where in the file, how long: sector-odd, page-odd, over the border of a frame,
 * several frames. */
static const struct {
	size_t memory, file, bytes;
} pieces[] = {
        {0, 0, 512},
        {512, 4096, 512},
        {4096 + 1536, 512, 4096},
        {3 * 4096 - 512, 8192, 1024},
        {FRAME - 512, 512 * 3, 1024},
        {2 * FRAME - 4096, 65536, 8192},
        {3 * FRAME + 512, MIB, FRAME},
        {5 * FRAME - 512 * 7, 512 * 5, 3 * FRAME + 512 * 9},
        {10 * FRAME, 0, FILE_BYTES},
        {RAM - 512, FILE_BYTES - 512, 512},
        {RAM - FRAME, 4096, FRAME},
};
#define PIECES (sizeof(pieces) / sizeof(pieces[0]))

/* The bytes beside a piece keep what was there. */
static void check_piece(size_t i, const uint8_t *want, uint8_t beside)
{
	const uint8_t *at = vm.ram + pieces[i].memory;

	check(memcmp(at, want, pieces[i].bytes) == 0);
	if (pieces[i].memory > 0)
		check(at[-1] == beside);
	if (pieces[i].memory + pieces[i].bytes < RAM)
		check(at[pieces[i].bytes] == beside);
}

static void direct_reads(void)
{
	int fd = open_disk(O_RDONLY | O_DIRECT);

	test("O_DIRECT reads into a VM's memory");
	for (size_t i = 0; i < PIECES; i++) {
		size_t n = pieces[i].bytes;

		memset(vm.ram, 0xcc, RAM);
		check(pread(fd, vm.ram + pieces[i].memory, n, (off_t)pieces[i].file) == (ssize_t)n);
		check_piece(i, pattern + pieces[i].file, 0xcc);
	}
	close(fd);
}

/* Reads back by the page cache, as another program would see it. */
static void check_file(size_t at, const uint8_t *want, size_t bytes)
{
	uint8_t *got = malloc(bytes);
	int fd = open_disk(O_RDONLY);

	check(got != NULL);
	check(pread(fd, got, bytes, (off_t)at) == (ssize_t)bytes);
	check(memcmp(got, want, bytes) == 0);
	free(got);
	close(fd);
}

static void direct_writes(void)
{
	int fd = open_disk(O_RDWR | O_DIRECT);

	test("O_DIRECT writes from a VM's memory");
	for (size_t i = 0; i < PIECES; i++) {
		size_t n = pieces[i].bytes, at = pieces[i].file;
		uint8_t *memory = vm.ram + pieces[i].memory;

		for (size_t b = 0; b < n; b++)
			memory[b] = (uint8_t)(b * 7 + i + (b >> 9));
		check(pwrite(fd, memory, n, (off_t)at) == (ssize_t)n);
		check_file(at, memory, n);
		memcpy(memory, pattern + at, n);
		check(pwrite(fd, memory, n, (off_t)at) == (ssize_t)n);
	}
	check_file(0, pattern, FILE_BYTES);
	close(fd);
}

static void buffered_too(void)
{
	int fd = open_disk(O_RDWR), pipes[2];
	uint8_t byte;

	test("plain reads and writes, pipes");
	memset(vm.ram, 0, RAM);
	check(pread(fd, vm.ram + FRAME - 777, 100000, 333) == 100000);
	check(memcmp(vm.ram + FRAME - 777, pattern + 333, 100000) == 0);
	check(pwrite(fd, vm.ram + FRAME - 777, 100000, 333) == 100000);
	check_file(0, pattern, FILE_BYTES);
	check(pipe(pipes) == 0);
	check(write(pipes[1], vm.ram + FRAME, 1) == 1 && read(pipes[0], &byte, 1) == 1);
	check(byte == vm.ram[FRAME]);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

static void ring_open(struct io_uring *ring)
{
	struct iovec buffers[2] = {{vm.ram, RAM},
	        {vm.vault + KEEL_VM_SHARED_BYTES, vm.vault_bytes - KEEL_VM_SHARED_BYTES}};
	int error = io_uring_queue_init(256, ring, 0);

	check(error == 0);
	error = io_uring_register_buffers(ring, buffers, 2);
	errno = -error;
	check(error == 0);
}

static void ring_add(struct io_uring *ring, bool write, int fd, void *memory, size_t bytes,
        size_t at, int buffer)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	check(sqe != NULL);
	if (write)
		io_uring_prep_write_fixed(sqe, fd, memory, (unsigned)bytes, at, buffer);
	else
		io_uring_prep_read_fixed(sqe, fd, memory, (unsigned)bytes, at, buffer);
	io_uring_sqe_set_data64(sqe, bytes);
}

static void ring_finish(struct io_uring *ring, unsigned count)
{
	struct io_uring_cqe *cqe;

	check(io_uring_submit(ring) == (int)count);
	for (unsigned i = 0; i < count; i++) {
		check(io_uring_wait_cqe(ring, &cqe) == 0);
		if (cqe->res < 0)
			errno = -cqe->res;
		check(cqe->res == (int)io_uring_cqe_get_data64(cqe));
		io_uring_cqe_seen(ring, cqe);
	}
}

static void fixed_pieces(struct io_uring *ring, int fd)
{
	test("io_uring, registered buffers: pieces");
	for (size_t i = 0; i < PIECES; i++) {
		memset(vm.ram, 0xdd, RAM);
		ring_add(ring, false, fd, vm.ram + pieces[i].memory, pieces[i].bytes,
		        pieces[i].file, 0);
		ring_finish(ring, 1);
		check_piece(i, pattern + pieces[i].file, 0xdd);
	}
}

/* 256 requests at once, in an order of their own; written back from a second copy. */
static void fixed_many(struct io_uring *ring, int fd)
{
	size_t each = FILE_BYTES / 256;

	test("io_uring, registered buffers: 256 in flight, both ways");
	memset(vm.ram, 0, RAM);
	for (size_t i = 0; i < 256; i++) {
		size_t at = i * 167 % 256 * each;

		ring_add(ring, false, fd, vm.ram + at + 512, each, at, 0);
	}
	ring_finish(ring, 256);
	check(memcmp(vm.ram + 512, pattern, FILE_BYTES) == 0);
	for (size_t at = 0; at < FILE_BYTES; at++)
		vm.ram[FILE_BYTES + FRAME + at] = (uint8_t)~pattern[at];
	for (size_t i = 0; i < 256; i++)
		ring_add(ring, true, fd, vm.ram + FILE_BYTES + FRAME + i * each, each, i * each, 0);
	ring_finish(ring, 256);
	check_file(0, vm.ram + FILE_BYTES + FRAME, FILE_BYTES);
	for (size_t i = 0; i < 256; i++)
		ring_add(ring, true, fd, vm.ram + 512 + i * each, each, i * each, 0);
	ring_finish(ring, 256);
	check_file(0, pattern, FILE_BYTES);
}

static void fixed_vault(struct io_uring *ring, int fd)
{
	uint8_t *at = vm.vault + KEEL_VM_SHARED_BYTES + 512;

	test("io_uring, registered buffers: the vault");
	ring_add(ring, false, fd, at, 65536, 4096, 1);
	ring_finish(ring, 1);
	check(memcmp(at, pattern + 4096, 65536) == 0);
	check(vm.shared->magic == KEEL_VM_SHARED_MAGIC);
}

/* Registered buffers outlive the mapping: while they do, hyp must not get the memory back, nor a
 * new holder come. */
static void pinned_is_busy(void)
{
	int status, fd, died[2], go[2];
	struct io_uring ring;
	pid_t child;
	char byte = 0;

	test("pinned memory is neither destroyed nor handed to another holder");
	check(pipe(died) == 0 && pipe(go) == 0);
	vm_unmap(&vm);
	child = fork();
	check(child >= 0);
	if (child == 0) {
		/* Only the ring of this process will hold the memory. */
		vm_map(&vm);
		ring_open(&ring);
		vm_unmap(&vm);
		close(vm.fd);
		check(write(died[1], &byte, 1) == 1);
		check(read(go[0], &byte, 1) == 1);
		_exit(0);
	}
	check(read(died[0], &byte, 1) == 1);
	check_errno(vm_destroy(vm.fd), EBUSY);
	close(vm.fd);
	check_errno(vm_open(vm.id, KEEL_OPEN_DEVICE), EBUSY);
	check(write(go[1], &byte, 1) == 1);
	check(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	wait_until((fd = vm_open(vm.id, KEEL_OPEN_DEVICE)) >= 0);
	vm.fd = fd;
	for (int i = 0; i < 2; i++) {
		close(died[i]);
		close(go[i]);
	}
}

int main(int argc, char **argv)
{
	uint64_t free_before = pool_free_bytes();
	struct io_uring ring;
	int fd;

	path = argc > 1 ? argv[1] : "keel-io-test";
	make_file();
	vm_make(&vm, "test-io", RAM, 4 * MIB);
	direct_reads();
	direct_writes();
	buffered_too();
	fd = open_disk(O_RDWR | O_DIRECT);
	ring_open(&ring);
	fixed_pieces(&ring, fd);
	fixed_many(&ring, fd);
	fixed_vault(&ring, fd);
	close(fd);
	io_uring_queue_exit(&ring);
	pinned_is_busy();
	vm_end(&vm);
	check(pool_free_bytes() == free_before);
	test(NULL);
	return 0;
}
