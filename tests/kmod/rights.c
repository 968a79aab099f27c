/* SPDX-License-Identifier: BSD-2-Clause */
/* The device right, doorbells, exits, notifications and interrupts of a VM, and what is refused. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kmod/common.h"

#define PORT 0x5100u /* nobody's in a VM */

static struct test_vm vm;

static int new_eventfd(void)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	check(fd >= 0);
	return fd;
}

static int doorbell(uint32_t index, uint16_t port, int fd)
{
	struct keel_ioc_doorbell request = {.fd = fd,
	        .doorbell = {.index = index, .space = KEEL_DOORBELL_PIO, .address = port}};

	return ioctl(vm.fd, KEEL_IOC_DOORBELL, &request);
}

static int doorbell_remove(uint32_t index)
{
	struct keel_ioc_doorbell request = {.fd = -1, .remove = 1, .doorbell = {.index = index}};

	return ioctl(vm.fd, KEEL_IOC_DOORBELL, &request);
}

static int notify(int fd, uint32_t events)
{
	struct keel_ioc_notify request = {.fd = fd, .events = events};

	return ioctl(vm.fd, KEEL_IOC_NOTIFY, &request);
}

static int irqfd(int fd, uint32_t vector, uint32_t remove)
{
	struct keel_ioc_irqfd request = {
	        .fd = fd, .remove = remove, .address = 0xfee00000, .data = vector};

	return ioctl(vm.fd, KEEL_IOC_IRQFD, &request);
}

static bool is_rung(uint32_t index)
{
	return __atomic_load_n(&vm.shared->doorbells[index / 64], __ATOMIC_ACQUIRE) >> index % 64 &
	       1;
}

/* As when a device process dies: everything it had is closed, and another attaches. */
static void close_and_open_again(void)
{
	vm_unmap(&vm);
	check(close(vm.fd) == 0);
	vm.fd = vm_open(vm.id, KEEL_OPEN_DEVICE);
	check(vm.fd >= 0);
	vm_map(&vm);
}

static void one_holder_at_a_time(void)
{
	int second, status;
	pid_t child;

	test("one holder of the device right");
	check_errno(vm_open(vm.id, KEEL_OPEN_DEVICE), EBUSY);
	second = vm_open(vm.id, 0);
	check(second >= 0);
	close(second);
	check(fcntl(vm.fd, F_GETFD) & FD_CLOEXEC);

	test("the right lasts as long as a mapping or another process has it");
	check(close(vm.fd) == 0);
	check_errno(vm_open(vm.id, KEEL_OPEN_DEVICE), EBUSY);
	vm_unmap(&vm);
	vm.fd = vm_open(vm.id, KEEL_OPEN_DEVICE);
	check(vm.fd >= 0);
	child = fork();
	check(child >= 0);
	if (child == 0) {
		close(vm.fd);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child);
	check_errno(vm_open(vm.id, KEEL_OPEN_DEVICE), EBUSY);
	vm_map(&vm);
}

static void without_the_right(void)
{
	union {
		struct keel_hc_vm vm;
		struct keel_hc_vcpu vcpu;
		struct keel_hc_irq irq;
		struct keel_ioc_doorbell doorbell;
		struct keel_ioc_irqfd irqfd;
		struct keel_ioc_notify notify;
	} block;
	static const unsigned long device_only[] = {KEEL_IOC_VM_DESTROY, KEEL_IOC_VM_RUN,
	        KEEL_IOC_VM_PAUSE, KEEL_IOC_VM_RESET, KEEL_IOC_VCPU_GET, KEEL_IOC_VCPU_SET,
	        KEEL_IOC_IRQ_MSI, KEEL_IOC_IRQ_PIN, KEEL_IOC_EXIT_COMPLETE, KEEL_IOC_DOORBELL,
	        KEEL_IOC_IRQFD, KEEL_IOC_NOTIFY};
	struct keel_hc_vm_info info = {0};
	struct keel_hc_counters counters = {.vcpu = KEEL_COUNTERS_SUM};
	int fd = vm_open(vm.id, 0);

	test("without the right: information, no more");
	check(fd >= 0);
	memset(&block, 0, sizeof(block));
	for (size_t i = 0; i < sizeof(device_only) / sizeof(device_only[0]); i++)
		check_errno(ioctl(fd, device_only[i], &block), EPERM);
	check(ioctl(fd, KEEL_IOC_VM_INFO, &info) == 0);
	check(info.head.vm == vm.id && strcmp(info.name, "test-rights") == 0);
	check(info.ram_bytes == vm.ram_bytes && info.vault_bytes == vm.vault_bytes);
	check(ioctl(fd, KEEL_IOC_COUNTERS, &counters) == 0);
	close(fd);
}

static void bad_requests(void)
{
	struct keel_hc_info info;
	struct keel_ioc_doorbell bell = {.fd = -1, .remove = 2};
	struct keel_ioc_irqfd irq = {.fd = vm.fd, .remove = 2};
	int plain = open("/dev/null", O_RDWR | O_CLOEXEC);
	int event = new_eventfd();

	test("bad requests are refused");
	check_errno(vm_open(0, 0), EINVAL);
	check_errno(vm_open(KEEL_MAX_VMS + 1, 0), EINVAL);
	check_errno(vm_open(0xffffffff, KEEL_OPEN_DEVICE), EINVAL);
	check_errno(vm_open(KEEL_MAX_VMS, 0), ENOENT);
	check_errno(vm_open(vm.id, 2), EINVAL);
	check_errno(ioctl(root_fd(), KEEL_IOC_VM_RUN, &info), ENOTTY);
	check_errno(ioctl(root_fd(), KEEL_IOC_VM_DESTROY, &info), ENOTTY);
	check_errno(ioctl(root_fd(), KEEL_IOC_NOTIFY, &info), ENOTTY);
	check_errno(ioctl(vm.fd, KEEL_IOC_LOG_READ, &info), ENOTTY);
	check_errno(ioctl(vm.fd, KEEL_IOC_VM_OPEN, &info), ENOTTY);
	check_errno(ioctl(vm.fd, _IOWR(KEEL_IOC_MAGIC, KEEL_HC_VM_MEMORY, struct keel_hc_vm_memory),
	                    &info),
	        ENOTTY);
	check_errno(ioctl(root_fd(), _IOWR(KEEL_IOC_MAGIC, KEEL_HC_INFO, char[8]), &info), ENOTTY);
	check_errno(ioctl(root_fd(), 0, &info), ENOTTY);
	check_errno(ioctl(root_fd(), KEEL_IOC_INFO, NULL), EFAULT);
	check_errno(ioctl(root_fd(), KEEL_IOC_VM_CREATE, (void *)8), EFAULT);
	check_errno(ioctl(vm.fd, KEEL_IOC_DOORBELL, NULL), EFAULT);
	check_errno(ioctl(vm.fd, KEEL_IOC_IRQ_MSI, (void *)~0ul), EFAULT);
	check_errno(read(vm.fd, &info, 8), EINVAL);
	check_errno(doorbell(KEEL_MAX_DOORBELLS, PORT, -1), EINVAL);
	check_errno(doorbell(1, PORT, plain), EINVAL);
	check_errno(doorbell(1, PORT, 9999), EBADF);
	check_errno(ioctl(vm.fd, KEEL_IOC_DOORBELL, &bell), EINVAL);
	check_errno(doorbell_remove(77), ENOENT);
	check_errno(notify(plain, 0), EINVAL);
	check_errno(notify(9999, 0), EBADF);
	check_errno(irqfd(plain, 1, 0), EINVAL);
	check_errno(irqfd(-1, 1, 0), EBADF);
	check_errno(irqfd(event, 1, 1), ENOENT);
	check_errno(ioctl(vm.fd, KEEL_IOC_IRQFD, &irq), EINVAL);
	close(plain);
	close(event);
}

static void doorbells(void)
{
	int first = new_eventfd(), second = new_eventfd();

	test("a doorbell signals its eventfd and no other");
	check(doorbell(3, PORT, first) == 0);
	check(doorbell(511, PORT + 1, second) == 0);
	guest_out(&vm, PORT);
	check(eventfd_take(first, 10000) == 1);
	check(eventfd_take(second, 0) == 0);
	guest_out(&vm, PORT + 1);
	check(eventfd_take(second, 10000) == 1);
	check(eventfd_take(first, 0) == 0);
	check(!is_rung(3) && !is_rung(511));

	test("without an eventfd the bit stays, and is signalled at attach");
	check(doorbell(3, PORT, -1) == 0);
	guest_out(&vm, PORT);
	wait_until(is_rung(3));
	guest_out(&vm, PORT + 1);
	check(eventfd_take(second, 10000) == 1); /* the interrupt was there: still not taken */
	check(is_rung(3));
	check(doorbell(3, PORT, first) == 0);
	check(eventfd_take(first, 10000) >= 1);
	check(!is_rung(3));

	test("rung while nobody is there: kept for the next holder");
	close_and_open_again();
	guest_out(&vm, PORT);
	wait_until(is_rung(3));
	check(eventfd_take(first, 0) == 0);
	check(doorbell(3, PORT, first) == 0);
	check(eventfd_take(first, 10000) >= 1);
	check(!is_rung(3));
	check(doorbell_remove(3) == 0);
	check(doorbell_remove(511) == 0);

	test("a thousand rings, none lost");
	check(doorbell(64, PORT, first) == 0);
	for (int i = 0; i < 1000; i++) {
		guest_out(&vm, PORT);
		check(eventfd_take(first, 10000) >= 1);
	}
	check(doorbell_remove(64) == 0);
	close(first);
	close(second);
}

static void complete(uint32_t sequence, int wanted)
{
	struct keel_hc_exit done = {.vcpu = 0, .sequence = sequence};

	if (wanted == 0)
		check(ioctl(vm.fd, KEEL_IOC_EXIT_COMPLETE, &done) == 0);
	else
		check_errno(ioctl(vm.fd, KEEL_IOC_EXIT_COMPLETE, &done), wanted);
}

static void exits(void)
{
	struct keel_exit_slot *slot = &vm.shared->slots[0];
	int event = new_eventfd();
	uint32_t sequence;

	test("an exit notifies, and goes on once answered");
	check(notify(event, 0) == 0);
	eventfd_take(event, 0);
	guest_out_start(&vm, PORT + 7);
	check(eventfd_take(event, 10000) >= 1);
	check(__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == KEEL_SLOT_PENDING);
	check(slot->kind == KEEL_EXIT_PIO_WRITE && slot->address == PORT + 7 && slot->size == 1);
	check(__atomic_fetch_and(&vm.shared->exit_pending, ~1ull, __ATOMIC_SEQ_CST) & 1);
	sequence = slot->sequence;
	complete(sequence + 1, EAGAIN);
	complete(sequence, 0);
	complete(sequence, EAGAIN);
	wait_until(guest_is_idle(&vm));

	test("an exit while nobody is there waits for the next holder");
	guest_out_start(&vm, PORT + 8);
	wait_until(__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == KEEL_SLOT_PENDING);
	close_and_open_again();
	slot = &vm.shared->slots[0];
	wait_until(__atomic_load_n(&vm.shared->exit_pending, __ATOMIC_SEQ_CST) & 1);
	eventfd_take(event, 0);
	check(notify(event, 0) == 0);
	check(eventfd_take(event, 10000) >= 1);
	check(slot->state == KEEL_SLOT_PENDING && slot->address == PORT + 8);
	__atomic_fetch_and(&vm.shared->exit_pending, ~1ull, __ATOMIC_SEQ_CST);
	complete(slot->sequence, 0);
	wait_until(guest_is_idle(&vm));

	test("only the events asked for notify");
	__atomic_fetch_and(&vm.shared->events, 0u, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&vm.shared->events, KEEL_EVENT_CONSOLE, __ATOMIC_SEQ_CST);
	check(notify(event, KEEL_EVENT_RESET) == 0);
	check(eventfd_take(event, 0) == 0);
	check(notify(event, KEEL_EVENT_CONSOLE) == 0);
	check(eventfd_take(event, 10000) >= 1);
	__atomic_fetch_and(&vm.shared->events, ~KEEL_EVENT_CONSOLE, __ATOMIC_SEQ_CST);
	check(notify(-1, 0) == 0);
	close(event);
}

static void raise_and_see(int fd, uint32_t more)
{
	uint32_t before = guest_interrupts(&vm);
	uint64_t one = 1;

	check(write(fd, &one, sizeof(one)) == sizeof(one));
	if (more)
		wait_until(guest_interrupts(&vm) == before + more);
	sleep_ms(20);
	check(guest_interrupts(&vm) == before + more);
}

static void interrupts(void)
{
	struct keel_hc_irq direct = {.address = 0xfee00000, .data = GUEST_VECTOR};
	uint32_t before = guest_interrupts(&vm);
	int event = new_eventfd(), other = new_eventfd();
	uint64_t one = 1;

	test("an interrupt by call and by eventfd");
	check(ioctl(vm.fd, KEEL_IOC_IRQ_MSI, &direct) == 0);
	wait_until(guest_interrupts(&vm) == before + 1);
	check(irqfd(event, GUEST_VECTOR, 0) == 0);
	raise_and_see(event, 1);
	raise_and_see(event, 1);
	check(eventfd_take(event, 0) == 0); /* taken by the route */

	test("signals from before the assignment count; a route ends at once");
	before = guest_interrupts(&vm);
	check(write(other, &one, sizeof(one)) == sizeof(one));
	check(irqfd(other, GUEST_VECTOR, 0) == 0);
	wait_until(guest_interrupts(&vm) == before + 1);
	check(irqfd(event, GUEST_VECTOR, 0) == 0); /* again: the route is replaced, not doubled */
	raise_and_see(event, 1);
	check(irqfd(other, GUEST_VECTOR, 1) == 0);
	raise_and_see(other, 0);
	check_errno(irqfd(other, GUEST_VECTOR, 1), ENOENT);

	test("closing the VM or the eventfd ends routes without harm");
	close_and_open_again();
	raise_and_see(event, 0);
	check(irqfd(event, GUEST_VECTOR, 0) == 0);
	close(event);
	close(other);
	check(ioctl(vm.fd, KEEL_IOC_IRQ_MSI, &direct) == 0);
}

int main(void)
{
	uint64_t free_before = pool_free_bytes();

	vm_make(&vm, "test-rights", 4 * MIB, 2 * MIB);
	one_holder_at_a_time();
	without_the_right();
	bad_requests();
	guest_start(&vm);
	doorbells();
	exits();
	interrupts();
	vm_end(&vm);
	check(pool_free_bytes() == free_before);
	test(NULL);
	return 0;
}
