/* SPDX-License-Identifier: BSD-2-Clause */
/* One epoll loop in which all guest accesses are answered one after another (run.h). */
#include "vmm/run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "vmm/log.h"

#define TAG_NOTIFY 0u
#define TAG_SIGNAL 1u
#define TAG_LISTEN 2u
#define TAG_CLIENT 16u
#define GO_ON      (-1)

#define ANSWERS_AT_ONCE 256u

struct loop {
	struct machine *machine;
	struct control *control;
	int epoll;
	int notify;
	int signals;
};

static bool watch(const struct loop *loop, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event event = {.events = events, .data.u64 = tag};

	return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool open_loop(struct loop *loop)
{
	struct hv *hv = loop->machine->hv;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	loop->notify = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	loop->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return loop->epoll >= 0 && loop->notify >= 0 && loop->signals >= 0 &&
	       watch(loop, loop->notify, EPOLLIN | EPOLLET, TAG_NOTIFY) &&
	       watch(loop, loop->signals, EPOLLIN, TAG_SIGNAL) &&
	       watch(loop, loop->control->listener, EPOLLIN, TAG_LISTEN) &&
	       hv->ops->notify(hv, loop->notify, MACHINE_EVENTS) == 0;
}

static int outcome(enum machine_next next)
{
	switch (next) {
	case MACHINE_OFF: return RUN_EXIT_OFF;
	case MACHINE_DEAD: return RUN_EXIT_DEAD;
	case MACHINE_GO_ON: break;
	}
	return GO_ON;
}

/* Events first: a reset makes exits from before it moot. A guest that exits without end waits for
 * the others in between. */
static int serve_guest(struct loop *loop)
{
	struct machine *machine = loop->machine;
	enum machine_next next = machine_look(machine);
	unsigned answered = 0;
	struct hv_exit exit;

	while (next == MACHINE_GO_ON && answered < ANSWERS_AT_ONCE &&
	        hv_exit_next(machine->hv, &exit)) {
		next = machine_answer(machine, &exit);
		answered++;
	}
	if (answered == ANSWERS_AT_ONCE && eventfd_write(loop->notify, 1) != 0)
		log_line("cannot remind myself of the guest: %s", strerror(errno));
	return outcome(next);
}

static int serve_signal(const struct loop *loop)
{
	struct signalfd_siginfo info;

	if (read(loop->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return GO_ON;
	log_line("told to go by signal %u; the guest goes on", info.ssi_signo);
	return RUN_EXIT_DETACHED;
}

static void serve_listener(struct loop *loop)
{
	int client = control_accept(loop->control);

	if (client >= 0)
		watch(loop, loop->control->clients[client].fd, EPOLLIN,
		        TAG_CLIENT + (unsigned)client);
}

static int serve_client(struct loop *loop, unsigned client)
{
	if (loop->control->clients[client].fd < 0)
		return GO_ON;
	switch (control_serve(loop->control, client)) {
	case CONTROL_QUIT: log_line("told to go; the guest goes on"); return RUN_EXIT_DETACHED;
	case CONTROL_OFF: log_line("switched off by the operator"); return RUN_EXIT_OFF;
	case CONTROL_NOTHING: break;
	}
	return GO_ON;
}

static int serve(struct loop *loop, uint64_t tag)
{
	switch (tag) {
	/* Edge-triggered: each signal wakes anew, and nobody has to read the count first. */
	case TAG_NOTIFY: return serve_guest(loop);
	case TAG_SIGNAL: return serve_signal(loop);
	case TAG_LISTEN: serve_listener(loop); return GO_ON;
	default: return serve_client(loop, (unsigned)(tag - TAG_CLIENT));
	}
}

int run_loop(struct machine *machine, struct control *control)
{
	struct loop loop = {.machine = machine, .control = control};
	struct epoll_event events[8];
	int result;

	if (!open_loop(&loop)) {
		log_line("cannot listen to the VM: %s", strerror(errno));
		return RUN_EXIT_ERROR;
	}
	/* What an attach found pending. */
	result = serve_guest(&loop);
	while (result == GO_ON) {
		int count = epoll_wait(loop.epoll, events, 8, -1);

		for (int i = 0; i < count && result == GO_ON; i++)
			result = serve(&loop, events[i].data.u64);
	}
	return result;
}
