/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks, VMs and the guest program for the module's tests. */
#include "tests/kmod/common.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const char *running;

void check_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "FAIL %s: %s:%d: %s (errno %d: %s)\n", running ? running : "set-up", file,
	        line, what, errno, strerror(errno));
	exit(1);
}

static void test_ends(void)
{
	if (running)
		printf("ok %s\n", running);
	fflush(stdout);
}

void test(const char *name)
{
	test_ends();
	running = name;
}

int root_fd(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/keel", O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		fprintf(stderr, "no /dev/keel here: nothing tested\n");
		exit(77);
	}
	check(fd >= 0);
	return fd;
}

uint64_t pool_free_bytes(void)
{
	struct keel_hc_info info = {0};

	check(ioctl(root_fd(), KEEL_IOC_INFO, &info) == 0);
	check(info.pool_free_bytes <= info.pool_bytes);
	return info.pool_free_bytes;
}

uint32_t vm_create_only(const char *name, uint64_t ram_bytes, uint64_t vault_bytes)
{
	struct keel_hc_vm_create create = {
	        .ram_bytes = ram_bytes, .vault_bytes = vault_bytes, .vcpus = 1};

	snprintf(create.name, sizeof(create.name), "%s", name);
	check(ioctl(root_fd(), KEEL_IOC_VM_CREATE, &create) == 0);
	check(create.head.vm >= 1 && create.head.vm <= KEEL_MAX_VMS);
	return create.head.vm;
}

int vm_open(uint32_t id, uint32_t flags)
{
	struct keel_ioc_open request = {.vm = id, .flags = flags};

	return ioctl(root_fd(), KEEL_IOC_VM_OPEN, &request);
}

static void *map(int fd, size_t bytes, uint64_t offset)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	check(at != MAP_FAILED);
	check((uintptr_t)at % (2 * MIB) == 0);
	return at;
}

void vm_map(struct test_vm *vm)
{
	vm->ram = map(vm->fd, vm->ram_bytes, KEEL_MMAP_RAM);
	vm->vault = map(vm->fd, vm->vault_bytes, KEEL_MMAP_VAULT);
	vm->shared = (struct keel_vm_shared *)(void *)vm->vault;
	check(vm->shared->magic == KEEL_VM_SHARED_MAGIC);
}

void vm_unmap(struct test_vm *vm)
{
	check(munmap(vm->ram, vm->ram_bytes) == 0);
	check(munmap(vm->vault, vm->vault_bytes) == 0);
	vm->ram = vm->vault = NULL;
	vm->shared = NULL;
}

/* Also when a check failed: a test leaves no VM behind for the next. */
static struct test_vm *unfinished[8];

static void end_unfinished(void)
{
	for (size_t i = 0; i < sizeof(unfinished) / sizeof(unfinished[0]); i++) {
		struct test_vm *vm = unfinished[i];

		if (!vm)
			continue;
		if (vm->ram)
			munmap(vm->ram, vm->ram_bytes);
		if (vm->vault)
			munmap(vm->vault, vm->vault_bytes);
		vm_destroy(vm->fd);
	}
}

static void replace_unfinished(struct test_vm *old, struct test_vm *with)
{
	static bool registered;

	if (!registered)
		check(atexit(end_unfinished) == 0);
	registered = true;
	for (size_t i = 0; i < sizeof(unfinished) / sizeof(unfinished[0]); i++) {
		if (unfinished[i] != old)
			continue;
		unfinished[i] = with;
		return;
	}
	check(!"too many VMs in one test");
}

void vm_make(struct test_vm *vm, const char *name, uint64_t ram_bytes, uint64_t vault_bytes)
{
	*vm = (struct test_vm){.ram_bytes = ram_bytes, .vault_bytes = vault_bytes};
	vm->id = vm_create_only(name, ram_bytes, vault_bytes);
	vm->fd = vm_open(vm->id, KEEL_OPEN_DEVICE);
	check(vm->fd >= 0);
	replace_unfinished(NULL, vm);
	vm_map(vm);
}

int vm_destroy(int fd)
{
	struct keel_hc_vm block = {0};

	return ioctl(fd, KEEL_IOC_VM_DESTROY, &block);
}

void vm_end(struct test_vm *vm)
{
	if (vm->ram)
		vm_unmap(vm);
	check(vm_destroy(vm->fd) == 0);
	check(close(vm->fd) == 0);
	replace_unfinished(vm, NULL);
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

/*
 * tests/kmod/guest.h. x2APIC mode, as its registers are MSRs and lie in nobody's way in real mode:
 * APIC_BASE 1Bh (enable, extended), SVR 80Fh, EOI 80Bh (SDM vol. 3 §10.12).
 */
extern const uint8_t guest_program[], guest_program_end[];
__asm__(".pushsection .rodata\n"
        ".globl guest_program, guest_program_end\n"
        ".code16\n"
        "guest_program:\n"
        "	xorw %ax, %ax\n"
        "	movw %ax, %ds\n"
        "	movw %ax, %ss\n"
        "	movw $0x7000, %sp\n"
        "	movw $(handler - guest_program + 0x1000), (0x40 * 4)\n"
        "	movw %ax, (0x40 * 4 + 2)\n"
        "	movl $0x1b, %ecx\n"
        "	rdmsr\n"
        "	orl $0xc00, %eax\n"
        "	wrmsr\n"
        "	movl $0x80f, %ecx\n"
        "	movl $0x1ff, %eax\n"
        "	xorl %edx, %edx\n"
        "	wrmsr\n"
        "	sti\n"
        "next:	pause\n"
        "	movl (0x2000), %edx\n"
        "	testl %edx, %edx\n"
        "	jz next\n"
        "	movb $0x5a, %al\n"
        "	outb %al, %dx\n"
        "	movl $0, (0x2000)\n"
        "	jmp next\n"
        "handler:\n"
        "	pushal\n"
        "	incl (0x2004)\n"
        "	movl $0x80b, %ecx\n"
        "	xorl %eax, %eax\n"
        "	xorl %edx, %edx\n"
        "	wrmsr\n"
        "	popal\n"
        "	iretw\n"
        "guest_program_end:\n"
        ".code64\n"
        ".popsection\n");
_Static_assert(GUEST_CODE == 0x1000 && GUEST_COMMAND == 0x2000 && GUEST_INTERRUPTS == 0x2004 &&
                       GUEST_VECTOR == 0x40 && GUEST_STACK == 0x7000,
        "the program's own numbers");

static volatile uint32_t *guest_word(struct test_vm *vm, uint32_t at)
{
	return (volatile uint32_t *)(void *)(vm->ram + at);
}

/* Real mode, from the state after power-on: only where it starts is changed. */
void guest_start(struct test_vm *vm)
{
	struct keel_hc_vcpu block = {.vcpu = 0};
	struct keel_hc_vm run = {0};
	struct keel_segment *cs = &block.state.segs[KEEL_CS];

	memcpy(vm->ram + GUEST_CODE, guest_program, (size_t)(guest_program_end - guest_program));
	block.state.groups = KEEL_VCPU_GPR | KEEL_VCPU_SEGS;
	if (ioctl(vm->fd, KEEL_IOC_VCPU_GET, &block) == 0) {
		cs->selector = 0;
		cs->base = 0;
		block.state.rip = GUEST_CODE;
		block.state.groups = KEEL_VCPU_GPR | KEEL_VCPU_SEGS;
		check(ioctl(vm->fd, KEEL_IOC_VCPU_SET, &block) == 0);
	} else {
		check(errno == ENOSYS); /* the hyp of tests/kmod/fake has no CPUs */
	}
	check(ioctl(vm->fd, KEEL_IOC_VM_RUN, &run) == 0);
}

void guest_out_start(struct test_vm *vm, uint16_t port)
{
	check(guest_is_idle(vm));
	*guest_word(vm, GUEST_COMMAND) = port;
}

bool guest_is_idle(struct test_vm *vm)
{
	return *guest_word(vm, GUEST_COMMAND) == 0;
}

void guest_out(struct test_vm *vm, uint16_t port)
{
	guest_out_start(vm, port);
	wait_until(guest_is_idle(vm));
}

uint32_t guest_interrupts(struct test_vm *vm)
{
	return *guest_word(vm, GUEST_INTERRUPTS);
}

void sleep_ms(unsigned ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

uint64_t eventfd_take(int fd, int timeout_ms)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	uint64_t count = 0;

	if (poll(&ready, 1, timeout_ms) != 1)
		return 0;
	check(read(fd, &count, sizeof(count)) == sizeof(count));
	return count;
}
