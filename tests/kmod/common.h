/* SPDX-License-Identifier: BSD-2-Clause */
/* What the module's test programs share: checks, VMs that go away whatever happens, and the guest
 * program. */
#pragma once

#include "abi/ioctl.h"
#include "tests/kmod/guest.h"

#define MIB (1ull << 20)

/* Prints where and why and ends the program with 1, unless cond holds. */
#define check(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			check_failed(__FILE__, __LINE__, #cond);                                   \
	} while (0)
_Noreturn void check_failed(const char *file, int line, const char *what);
/* Checks that a call that gives -1 and errno fails so. */
#define check_errno(call, wanted)                                                                  \
	do {                                                                                       \
		if ((call) != -1)                                                                  \
			check_failed(__FILE__, __LINE__, #call " succeeded");                      \
		if (errno != (wanted))                                                             \
			check_failed(__FILE__, __LINE__, #call ": not " #wanted);                  \
	} while (0)

/* Says what follows, and that it passed when the next one starts or the program ends well. */
void test(const char *name);

int root_fd(void); /* of /dev/keel; ends the program with 77 if there is none */
uint64_t pool_free_bytes(void);

/* A VM of the test's, destroyed at the end. */
struct test_vm {
	uint32_t id;
	int fd;                        /* with the device right */
	uint8_t *ram;                  /* mapped */
	uint8_t *vault;                /* mapped */
	struct keel_vm_shared *shared; /* in the vault */
	size_t ram_bytes, vault_bytes;
};
uint32_t vm_create_only(const char *name, uint64_t ram_bytes, uint64_t vault_bytes);
int vm_open(uint32_t id, uint32_t flags); /* -1 and errno as the ioctl gives it */
void vm_make(struct test_vm *vm, const char *name, uint64_t ram_bytes, uint64_t vault_bytes);
void vm_map(struct test_vm *vm);
void vm_unmap(struct test_vm *vm);
int vm_destroy(int fd);          /* -1 and errno as the ioctl gives it */
void vm_end(struct test_vm *vm); /* unmap, destroy, close */

/* Puts the guest program into the VM, sets its vCPU to it and runs it. */
void guest_start(struct test_vm *vm);
/* Lets the guest write a byte to a port, and waits for that unless the write stops it. */
void guest_out(struct test_vm *vm, uint16_t port);
void guest_out_start(struct test_vm *vm, uint16_t port);
bool guest_is_idle(struct test_vm *vm); /* has done what it was told */
uint32_t guest_interrupts(struct test_vm *vm);
/* Waits for a condition, at most 10 s. */
#define wait_until(cond)                                                                           \
	do {                                                                                       \
		for (int wait_ms_ = 0; !(cond); wait_ms_++) {                                      \
			if (wait_ms_ >= 10000)                                                     \
				check_failed(__FILE__, __LINE__, "10 s without " #cond);           \
			sleep_ms(1);                                                               \
		}                                                                                  \
	} while (0)
void sleep_ms(unsigned ms);
/* The count of an eventfd, waiting up to timeout_ms for one; 0: none came. */
uint64_t eventfd_take(int fd, int timeout_ms);
