/* SPDX-License-Identifier: BSD-2-Clause */
/* A VM's memory as a mapping: 2 MiB entries, its limits, and that memory that is in use is never
 * given away. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kmod/common.h"

#define RAM   (64 * MIB)
#define VAULT (4 * MIB)
#define FRAME (2 * MIB)

static long faults(void)
{
	struct rusage usage;

	check(getrusage(RUSAGE_SELF, &usage) == 0);
	return usage.ru_minflt + usage.ru_majflt;
}

/* A field of the form "Name:   123 kB". */
static long kib_of(const char *path, const char *mapping, const char *field)
{
	FILE *in = fopen(path, "r");
	char line[256];
	bool inside = !mapping;
	long kib = -1;

	check(in != NULL);
	while (kib < 0 && fgets(line, sizeof(line), in)) {
		if (mapping && strstr(line, mapping))
			inside = true;
		if (inside && strncmp(line, field, strlen(field)) == 0)
			kib = atol(line + strlen(field));
	}
	fclose(in);
	check(kib >= 0);
	return kib;
}

/* Touching every 4 KiB page costs a fault for each 2 MiB (two for a write) and no page of page
 * tables. */
static void maps_by_2_mib(struct test_vm *vm)
{
	long before, page_tables = kib_of("/proc/self/status", NULL, "VmPTE:");
	volatile uint8_t *ram = vm->ram;

	test("2 MiB mappings, writing first");
	before = faults();
	for (size_t at = 0; at < RAM / 2; at += 4096)
		ram[at] = (uint8_t)(at >> 12);
	check(faults() - before <= 2 * (long)(RAM / 2 / FRAME) + 16);

	test("2 MiB mappings, reading first");
	before = faults();
	for (size_t at = RAM / 2; at < RAM; at += 4096)
		check(ram[at] == 0);
	check(faults() - before <= (long)(RAM / 2 / FRAME) + 16);
	before = faults();
	for (size_t at = 0; at < RAM; at += 4096)
		ram[at] = (uint8_t)((at >> 12) + 1);
	check(faults() - before <= 16);
	for (size_t at = 0; at < RAM; at += 4096)
		check(ram[at] == (uint8_t)((at >> 12) + 1));
	check(kib_of("/proc/self/status", NULL, "VmPTE:") - page_tables < 64);

	test("counted as mapped, by its own name");
	check(kib_of("/proc/self/smaps", "[keel-ram]", "Rss:") == RAM / 1024);
}

static void refuses_odd_mappings(struct test_vm *vm)
{
	int rw = PROT_READ | PROT_WRITE, fd = vm->fd;
	void *failed = MAP_FAILED;

	test("odd mappings are refused");
	check(mmap(NULL, FRAME, rw, MAP_PRIVATE, fd, 0) == failed && errno == EINVAL);
	check(mmap(NULL, FRAME, rw | PROT_EXEC, MAP_SHARED, fd, 0) == failed && errno == EINVAL);
	check(mmap(NULL, FRAME, rw, MAP_SHARED, fd, 4096) == failed && errno == EINVAL);
	check(mmap(NULL, FRAME / 2, rw, MAP_SHARED, fd, 0) == failed && errno == EINVAL);
	check(mmap(NULL, RAM + FRAME, rw, MAP_SHARED, fd, 0) == failed && errno == EINVAL);
	check(mmap(NULL, FRAME, rw, MAP_SHARED, fd, RAM) == failed && errno == EINVAL);
	check(mmap(NULL, VAULT + FRAME, rw, MAP_SHARED, fd, KEEL_MMAP_VAULT) == failed);
	check(mmap(NULL, FRAME, rw, MAP_SHARED, fd, KEEL_MMAP_VAULT + VAULT) == failed);
	check(mmap(NULL, FRAME, rw, MAP_SHARED, fd, 1ll << 62) == failed);
	check(mmap(vm->ram + 4096, FRAME, rw, MAP_SHARED | MAP_FIXED, fd, 0) == failed);

	test("a mapping stays whole frames and where it is");
	check_errno(munmap(vm->ram + 4096, 4096), EINVAL);
	check_errno(mprotect(vm->ram, 4096, PROT_READ), EINVAL);
	check_errno(mprotect(vm->ram, RAM, rw | PROT_EXEC), EACCES);
	check(mremap(vm->ram, RAM, 2 * RAM, MREMAP_MAYMOVE) == failed);
	check(mremap(vm->vault, VAULT, VAULT, MREMAP_MAYMOVE | MREMAP_FIXED,
	              (void *)0x300000001000) == failed);
	check(vm->shared->magic == KEEL_VM_SHARED_MAGIC);
}

static void parts_come_and_go(struct test_vm *vm)
{
	uint8_t *second;

	test("parts are unmapped, mapped again and protected");
	vm->ram[3 * FRAME + 5] = 0x77;
	check(munmap(vm->ram + 2 * FRAME, 2 * FRAME) == 0);
	check(mmap(vm->ram + 2 * FRAME, 2 * FRAME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
	              vm->fd, (off_t)(2 * FRAME)) == vm->ram + 2 * FRAME);
	check(vm->ram[3 * FRAME + 5] == 0x77);
	check(mprotect(vm->ram + 8 * FRAME, FRAME, PROT_READ) == 0);
	check(mprotect(vm->ram + 8 * FRAME, FRAME, PROT_READ | PROT_WRITE) == 0);
	vm->ram[8 * FRAME + 9] = 0x66;

	test("two mappings show the same memory");
	second = mmap(NULL, RAM, PROT_READ, MAP_SHARED | MAP_POPULATE, vm->fd, 0);
	check(second != MAP_FAILED);
	check(second[3 * FRAME + 5] == 0x77 && second[8 * FRAME + 9] == 0x66);
	vm->ram[RAM - 1] = 0x55;
	check(second[RAM - 1] == 0x55);
	check(munmap(second, RAM) == 0);
}

static void advice_loses_nothing(struct test_vm *vm)
{
	static const int advices[] = {MADV_DONTNEED, MADV_COLD, MADV_PAGEOUT, MADV_FREE,
	        MADV_REMOVE, MADV_NOHUGEPAGE, MADV_HUGEPAGE, MADV_POPULATE_READ,
	        MADV_POPULATE_WRITE, MADV_MERGEABLE, 25 /* MADV_COLLAPSE */, MADV_DONTFORK};
	uint8_t *at = vm->ram + 5 * FRAME;

	test("no advice loses a byte");
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
		memset(at, (int)(0x10 + i), 2 * FRAME);
		madvise(at, 2 * FRAME, advices[i]); /* may well be refused */
		madvise(at + 4096, 8192, advices[i]);
		madvise(at, 2 * FRAME, MADV_DONTNEED); /* so that entries are made anew under it */
		for (size_t n = 0; n < 2 * FRAME; n += 512)
			check(at[n] == 0x10 + i);
		at[4096] = 1;
	}
	madvise(vm->ram, RAM, MADV_DONTNEED);
	check(vm->ram[3 * FRAME + 5] == 0x77);
}

static sigjmp_buf escape;

static void on_fault(int signal)
{
	siglongjmp(escape, signal);
}

static bool faults_at(volatile uint8_t *at, bool write)
{
	bool faulted = false;

	if (sigsetjmp(escape, 1) != 0)
		faulted = true;
	else if (write)
		*at = 1;
	else
		(void)*at;
	return faulted;
}

static void reaches_only_whom_it_should(struct test_vm *vm)
{
	struct iovec here, there;
	uint8_t *only_read;
	int status;
	pid_t child;
	uint8_t byte;

	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	test("a read-only mapping is read-only");
	only_read = mmap(NULL, FRAME, PROT_READ, MAP_SHARED, vm->fd, 0);
	check(only_read != MAP_FAILED);
	check(!faults_at(only_read, false) && faults_at(only_read, true));
	check(munmap(only_read, FRAME) == 0);

	test("a child does not inherit it; a debugger reads it");
	vm->ram[FRAME] = 0x42;
	child = fork();
	check(child >= 0);
	if (child == 0)
		_exit(faults_at(vm->ram + FRAME, false) ? 7 : 8);
	check(waitpid(child, &status, 0) == child && WIFEXITED(status));
	check(WEXITSTATUS(status) == 7);
	here = (struct iovec){&byte, 1};
	there = (struct iovec){vm->ram + FRAME, 1};
	check(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 && byte == 0x42);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
}

static void not_given_away_while_mapped(struct test_vm *vm)
{
	int without;

	test("destroying is refused while mapped, and changes nothing");
	check_errno(vm_destroy(vm->fd), EBUSY);
	check(munmap(vm->ram, vm->ram_bytes) == 0);
	vm->ram = NULL;
	check_errno(vm_destroy(vm->fd), EBUSY);
	check(vm->shared->magic == KEEL_VM_SHARED_MAGIC);

	test("without the device right nothing is mapped");
	without = vm_open(vm->id, 0);
	check(without >= 0);
	check(mmap(NULL, FRAME, PROT_READ, MAP_SHARED, without, 0) == MAP_FAILED && errno == EPERM);
	close(without);

	test("after its end a VM's descriptor is dead");
	check(munmap(vm->vault, vm->vault_bytes) == 0);
	vm->vault = NULL;
	check(vm_destroy(vm->fd) == 0);
	check_errno(vm_destroy(vm->fd), ENODEV);
	check(mmap(NULL, FRAME, PROT_READ, MAP_SHARED, vm->fd, 0) == MAP_FAILED && errno == ENODEV);
	check_errno(vm_open(vm->id, 0), ENOENT);
}

int main(void)
{
	static struct test_vm vm;
	uint64_t free_before = pool_free_bytes();

	vm_make(&vm, "test-map", RAM, VAULT);
	maps_by_2_mib(&vm);
	refuses_odd_mappings(&vm);
	parts_come_and_go(&vm);
	advice_loses_nothing(&vm);
	reaches_only_whom_it_should(&vm);
	not_given_away_while_mapped(&vm);
	check(pool_free_bytes() == free_before);
	test(NULL);
	return 0;
}
