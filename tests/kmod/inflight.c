/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads of a disk that are under way when root ends: none of their bytes may land after the next
 * root has begun. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kmod/common.h"

/*
 * usage: inflight read DISK            before: half of the reads go to memory of a VM, half to
 * root's inflight hold VM MIB SECONDS  after:  the VM's memory, and so much of the new root's, are
 * watched
 *
 * DISK holds DISK_BYTE everywhere and is slow. Each place is filled with WAITS before a read of it
 * is handed in, so that a place which has DISK_BYTE was read. `hold` prints how many places of the
 * VM's memory were, and how many bytes changed while it looked.
 */
#define DEPTH     128u
#define PLACE     (512u * 1024u)
#define RAM       ((uint64_t)DEPTH / 2 * PLACE)
#define VAULT     (2 * MIB)
#define DISK_BYTE 0xc3
#define WAITS     0xa5
#define HELD      0x5a

static uint8_t *own;
static struct test_vm vm;

static uint8_t *place(unsigned i)
{
	return (i % 2 ? own : vm.ram) + (size_t)(i / 2) * PLACE;
}

static void hand_in(struct io_uring *ring, int disk, unsigned i)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	check(sqe != NULL);
	memset(place(i), WAITS, PLACE);
	io_uring_prep_read(sqe, disk, place(i), PLACE, (uint64_t)i * PLACE);
	io_uring_sqe_set_data64(sqe, i);
}

static int read_on(const char *path)
{
	int disk = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	struct io_uring ring;
	unsigned done = 0;

	check(disk >= 0);
	vm_make(&vm, "dma", RAM, VAULT);
	own = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
	        -1, 0);
	check(own != MAP_FAILED);
	check(io_uring_queue_init(DEPTH, &ring, 0) == 0);
	for (unsigned i = 0; i < DEPTH; i++)
		hand_in(&ring, disk, i);
	check(io_uring_submit(&ring) == (int)DEPTH);
	for (;;) {
		struct io_uring_cqe *cqe;
		unsigned i;

		check(io_uring_wait_cqe(&ring, &cqe) == 0);
		check(cqe->res == (int)PLACE);
		i = (unsigned)cqe->user_data;
		check(place(i)[0] == DISK_BYTE && place(i)[PLACE - 1] == DISK_BYTE);
		io_uring_cqe_seen(&ring, cqe);
		hand_in(&ring, disk, i);
		check(io_uring_submit(&ring) == 1);
		printf("VM %u, %u in flight, %u read\n", vm.id, DEPTH, ++done);
		fflush(stdout);
	}
}

static uint64_t count_other(const uint8_t *memory, const uint8_t *before, uint64_t bytes)
{
	uint64_t other = 0;

	for (uint64_t at = 0; at < bytes; at++)
		other += memory[at] != (before != NULL ? before[at] : HELD);
	return other;
}

static unsigned count_read(const uint8_t *memory)
{
	unsigned read = 0;

	for (uint64_t at = 0; at < RAM; at += PLACE)
		read += memchr(memory + at, DISK_BYTE, PLACE) != NULL;
	return read;
}

static int hold(uint32_t id, uint64_t bytes, unsigned seconds)
{
	uint8_t *before = malloc(RAM);

	vm = (struct test_vm){.id = id, .ram_bytes = RAM, .vault_bytes = VAULT};
	vm.fd = vm_open(id, KEEL_OPEN_DEVICE);
	check(vm.fd >= 0);
	vm_map(&vm);
	own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(own != MAP_FAILED && before != NULL);
	memset(own, HELD, bytes);
	memcpy(before, vm.ram, RAM);
	printf("watching\n");
	fflush(stdout);
	sleep_ms(seconds * 1000);
	printf("%u of %u places were read; changed: %llu bytes of the VM, %llu of root\n",
	        count_read(vm.ram), DEPTH / 2, (unsigned long long)count_other(vm.ram, before, RAM),
	        (unsigned long long)count_other(own, NULL, bytes));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "read") == 0)
		return read_on(argv[2]);
	if (argc == 5 && strcmp(argv[1], "hold") == 0)
		return hold((uint32_t)strtoul(argv[2], NULL, 10), strtoull(argv[3], NULL, 10) * MIB,
		        (unsigned)strtoul(argv[4], NULL, 10));
	fprintf(stderr, "usage: inflight read DISK | hold VM MIB SECONDS\n");
	return 2;
}
