/* SPDX-License-Identifier: BSD-2-Clause */
/* keel-guest: runs one tiny guest in a VM of its own and ends with the guest's result, so that hyp
 * is tested without a device process. */

#include "tests/guest/runner/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB         (1ull << 20)
#define VAULT_BYTES (2 * MIB)
#define POLL_MS     20

static const char usage[] = "keel-guest [-c VCPUS] [-m MIB] [-t SECONDS] [-s SEED] [-a ARGUMENTS] "
                            "[-r RESETS] [-b 16|64]\n"
                            "           [-x] [-q] [-n] [-k MS] FILE.elf\n"
                            "  -r  start again after so many resets   -x  print exits by kind   -q "
                            " console not shown\n";

static struct vm *unfinished;

static void destroy(void)
{
	struct keel_hc_vm block = {0};

	if (!unfinished)
		return;
	munmap(unfinished->ram, unfinished->ram_bytes);
	munmap(unfinished->vault, unfinished->vault_bytes);
	if (ioctl(unfinished->fd, KEEL_IOC_VM_DESTROY, &block) != 0)
		fprintf(stderr, "keel-guest: the VM cannot be destroyed: %s\n", strerror(errno));
	unfinished = NULL;
}

void die(const char *format, ...)
{
	va_list list;

	fflush(stdout);
	va_start(list, format);
	fprintf(stderr, "keel-guest: ");
	vfprintf(stderr, format, list);
	fprintf(stderr, "\n");
	va_end(list);
	exit(BOARD_RESULT_SETUP);
}

static uint64_t number(const char *text, uint64_t most)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (*text == 0 || *end != 0 || value > most)
		die("%s: not a number up to %llu", text, (unsigned long long)most);
	return value;
}

static void parse(struct options *o, int argc, char **argv)
{
	int c;

	*o = (struct options){
	        .arguments = "", .vcpus = 1, .ram_mib = 16, .limit_s = 60, .mode = 64};
	while ((c = getopt(argc, argv, "c:m:t:s:a:r:b:k:xqn")) != -1) {
		switch (c) {
		case 'c': o->vcpus = (unsigned)number(optarg, KEEL_MAX_VCPUS); break;
		case 'm': o->ram_mib = (unsigned)number(optarg, 1u << 20); break;
		case 't': o->limit_s = (unsigned)number(optarg, 86400); break;
		case 's': o->seed = number(optarg, UINT64_MAX); break;
		case 'a': o->arguments = optarg; break;
		case 'r': o->resets = (unsigned)number(optarg, 1u << 30); break;
		case 'b': o->mode = (unsigned)number(optarg, 64); break;
		case 'x': o->counters = true; break;
		case 'k': o->restart_ms = (unsigned)number(optarg, 1u << 30); break;
		case 'q': o->quiet = true; break;
		case 'n': o->read_late = true; break;
		default: die("%s", usage);
		}
	}
	if (optind + 1 != argc)
		die("%s", usage);
	o->elf = argv[optind];
}

static uint8_t *map(int fd, size_t bytes, uint64_t offset)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	if (at == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	return at;
}

static void make_vm(struct vm *vm)
{
	struct keel_hc_vm_create create = {.vcpus = vm->options.vcpus, .vault_bytes = VAULT_BYTES};
	struct keel_ioc_open request = {.flags = KEEL_OPEN_DEVICE};
	struct keel_hc_info info = {0};
	int root = open("/dev/keel", O_RDWR | O_CLOEXEC);

	if (root < 0)
		die("/dev/keel: %s", strerror(errno));
	if (ioctl(root, KEEL_IOC_INFO, &info) != 0)
		die("info: %s", strerror(errno));
	vm->tsc_hz = info.tsc_hz;
	vm->ram_bytes = create.ram_bytes = vm->options.ram_mib * MIB;
	vm->vault_bytes = VAULT_BYTES;
	snprintf(create.name, sizeof(create.name), "guest-%d", (int)getpid());
	if (ioctl(root, KEEL_IOC_VM_CREATE, &create) != 0)
		die("create: %s", strerror(errno));
	vm->id = request.vm = create.head.vm;
	vm->fd = ioctl(root, KEEL_IOC_VM_OPEN, &request);
	if (vm->fd < 0)
		die("open: %s", strerror(errno));
	close(root);
	vm->ram = map(vm->fd, vm->ram_bytes, KEEL_MMAP_RAM);
	vm->vault = map(vm->fd, VAULT_BYTES, KEEL_MMAP_VAULT);
	vm->shared = (struct keel_vm_shared *)(void *)vm->vault;
	unfinished = vm;
	if (atexit(destroy) != 0)
		die("atexit");
}

static void run_vm(struct vm *vm)
{
	struct keel_hc_vm block = {0};

	load_guest(vm);
	if (ioctl(vm->fd, KEEL_IOC_VM_RUN, &block) != 0)
		die("run: %s", strerror(errno));
}

static void take_console(struct vm *vm)
{
	struct keel_hc_console block;

	do {
		block = (struct keel_hc_console){
		        .position = vm->console_position, .bytes = KEEL_CONSOLE_CHUNK};
		if (ioctl(vm->fd, KEEL_IOC_CONSOLE_READ, &block) != 0)
			die("console: %s", strerror(errno));
		vm->console_position = block.position;
		vm->console_bytes += block.bytes;
		if (!vm->options.quiet)
			fwrite(block.data, 1, block.bytes, stdout);
	} while (block.bytes != 0);
	fflush(stdout);
}

static void answer(struct vm *vm, unsigned vcpu)
{
	struct keel_exit_slot *s = &vm->shared->slots[vcpu];
	struct keel_hc_exit block = {.vcpu = vcpu};

	if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != KEEL_SLOT_PENDING)
		return;
	block.sequence = s->sequence;
	block.data = board_access(vm, s);
	if (vm->result < 0 && ioctl(vm->fd, KEEL_IOC_EXIT_COMPLETE, &block) != 0)
		die("exit of vCPU %u: %s", vcpu, strerror(errno));
}

static void take_exits(struct vm *vm)
{
	uint64_t pending = __atomic_exchange_n(&vm->shared->exit_pending, 0, __ATOMIC_SEQ_CST);

	for (unsigned i = 0; i < vm->options.vcpus; i++)
		if (pending >> i & 1)
			answer(vm, i);
}

static void start_again(struct vm *vm, int result)
{
	struct keel_hc_vm block = {0};

	if (vm->boots >= vm->options.resets) {
		vm->result = result;
		return;
	}
	vm->boots++;
	if (ioctl(vm->fd, KEEL_IOC_VM_RESET, &block) != 0)
		die("reset: %s", strerror(errno));
	run_vm(vm);
}

/* Whatever the guest is in the middle of. */
static void restart(struct vm *vm)
{
	struct keel_hc_vm block = {0};

	if (ioctl(vm->fd, KEEL_IOC_VM_PAUSE, &block) != 0)
		die("pause: %s", strerror(errno));
	vm->options.resets++;
	start_again(vm, 0);
}

static void take_events(struct vm *vm)
{
	uint32_t events = __atomic_exchange_n(&vm->shared->events, 0, __ATOMIC_SEQ_CST);

	if (events & KEEL_EVENT_CONSOLE && !vm->options.read_late)
		take_console(vm);
	if (vm->result >= 0)
		return;
	if (events & KEEL_EVENT_DEAD)
		start_again(vm, BOARD_RESULT_DEAD);
	else if (events & KEEL_EVENT_TRIPLE_FAULT)
		start_again(vm, BOARD_RESULT_TRIPLE_FAULT);
	else if (events & KEEL_EVENT_RESET)
		start_again(vm, BOARD_RESULT_RESET);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void serve(struct vm *vm)
{
	struct keel_ioc_notify notify = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	double end = now_s() + vm->options.limit_s, next = now_s() + vm->options.restart_ms / 1e3;

	notify.events = KEEL_EVENT_RESET | KEEL_EVENT_TRIPLE_FAULT | KEEL_EVENT_CONSOLE |
	                KEEL_EVENT_DEAD;
	if (notify.fd < 0 || ioctl(vm->fd, KEEL_IOC_NOTIFY, &notify) != 0)
		die("notify: %s", strerror(errno));
	while (vm->result < 0) {
		struct pollfd ready = {.fd = notify.fd, .events = POLLIN};
		uint64_t count;

		/* The time-out only bounds the run: every exit and event signals. */
		if (poll(&ready, 1, POLL_MS) > 0 && read(notify.fd, &count, sizeof(count)) < 0)
			die("eventfd: %s", strerror(errno));
		take_exits(vm);
		take_events(vm);
		if (vm->result >= 0 && vm->options.restart_ms) {
			/* A guest that is meant to be started again may end itself as it likes. */
			vm->result = -1;
			restart(vm);
		}
		if (vm->result < 0 && now_s() > end)
			vm->result = vm->options.restart_ms ? 0 : BOARD_RESULT_TIME;
		if (vm->result < 0 && vm->options.restart_ms && now_s() > next) {
			restart(vm);
			next = now_s() + vm->options.restart_ms / 1e3;
		}
	}
}

static void print_state(struct vm *vm)
{
	for (unsigned i = 0; i < vm->options.vcpus; i++) {
		struct keel_hc_vcpu block = {.vcpu = i};
		const struct keel_vcpu_state *s = &block.state;

		block.state.groups = KEEL_VCPU_ALL;
		if (ioctl(vm->fd, KEEL_IOC_VCPU_GET, &block) != 0) {
			printf("vcpu %u: %s\n", i, strerror(errno));
			continue;
		}
		printf("vcpu %u: state %u slot %u rip %llx cs %x rsp %llx rflags %llx cr0 %llx cr2 "
		       "%llx "
		       "cr3 %llx\n",
		        i, s->run_state, vm->shared->slots[i].state, (unsigned long long)s->rip,
		        s->segs[KEEL_CS].selector, (unsigned long long)s->gpr[KEEL_RSP],
		        (unsigned long long)s->rflags, (unsigned long long)s->cr0,
		        (unsigned long long)s->cr2, (unsigned long long)s->cr3);
	}
}

#define KIND_NAME(name, text) [KEEL_KIND_##name] = text,
static void print_counters(struct vm *vm)
{
	static const char *const names[KEEL_EXIT_KINDS] = {KEEL_EXIT_KIND_LIST(KIND_NAME)};
	struct keel_hc_counters c = {.vcpu = KEEL_COUNTERS_SUM};

	if (ioctl(vm->fd, KEEL_IOC_COUNTERS, &c) != 0)
		die("counters: %s", strerror(errno));
	for (unsigned i = 0; i < KEEL_EXIT_KINDS; i++)
		if (c.exits[i] != 0)
			printf("exits %s: %llu\n", names[i] ? names[i] : "?",
			        (unsigned long long)c.exits[i]);
	printf("interrupts: %llu, ipis: %llu, halts: %llu, root exits: %llu, run: %llu us\n",
	        (unsigned long long)c.interrupts, (unsigned long long)c.ipis,
	        (unsigned long long)c.halts, (unsigned long long)c.root_exits,
	        (unsigned long long)c.run_ns / 1000);
}

int main(int argc, char **argv)
{
	static struct vm vm = {.result = -1, .fd = -1};
	struct keel_hc_vm block = {0};

	parse(&vm.options, argc, argv);
	make_vm(&vm);
	run_vm(&vm);
	serve(&vm);
	take_console(&vm);
	if (ioctl(vm.fd, KEEL_IOC_VM_PAUSE, &block) != 0)
		printf("pause: %s\n", strerror(errno));
	if (vm.result >= BOARD_RESULT_DEAD) {
		printf("\nkeel-guest: %s\n",
		        vm.result == BOARD_RESULT_TIME ? "time is up" : "hyp stopped the VM");
		print_state(&vm);
	}
	if (vm.options.counters)
		print_counters(&vm);
	if (vm.options.resets)
		printf("boots: %llu\n", (unsigned long long)vm.boots);
	if (vm.options.quiet)
		printf("console: %llu bytes\n", (unsigned long long)vm.console_bytes);
	fflush(stdout);
	return vm.result;
}
