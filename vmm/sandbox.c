/* SPDX-License-Identifier: BSD-2-Clause */
/* The seccomp filter, as one visible list of what serving a VM needs. */
#include "vmm/sandbox.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <seccomp.h>

#include "vmm/log.h"

/* By who needs them. Files are opened again when the guest reboots (kernel and initrd). */
static const int allowed[] = {
        /* data: rings, images, taps, hyp */
        SCMP_SYS(io_uring_setup),
        SCMP_SYS(io_uring_enter),
        SCMP_SYS(io_uring_register),
        SCMP_SYS(read),
        SCMP_SYS(write),
        SCMP_SYS(readv),
        SCMP_SYS(writev),
        SCMP_SYS(pread64),
        SCMP_SYS(pwrite64),
        SCMP_SYS(preadv),
        SCMP_SYS(pwritev),
        SCMP_SYS(preadv2),
        SCMP_SYS(pwritev2),
        SCMP_SYS(fsync),
        SCMP_SYS(fdatasync),
        SCMP_SYS(fallocate),
        SCMP_SYS(ioctl),
        SCMP_SYS(fcntl),
        SCMP_SYS(lseek),
        SCMP_SYS(getrandom),
        SCMP_SYS(eventfd2),
        /* waiting */
        SCMP_SYS(epoll_wait),
        SCMP_SYS(epoll_pwait),
        SCMP_SYS(epoll_ctl),
        SCMP_SYS(epoll_create1),
        SCMP_SYS(poll),
        SCMP_SYS(ppoll),
        SCMP_SYS(futex),
        SCMP_SYS(signalfd4),
        SCMP_SYS(timerfd_create),
        SCMP_SYS(timerfd_settime),
        SCMP_SYS(nanosleep),
        SCMP_SYS(clock_nanosleep),
        SCMP_SYS(clock_gettime),
        SCMP_SYS(gettimeofday),
        SCMP_SYS(restart_syscall),
        SCMP_SYS(sched_yield),
        /* memory and threads */
        SCMP_SYS(mmap),
        SCMP_SYS(munmap),
        SCMP_SYS(mprotect),
        SCMP_SYS(mremap),
        SCMP_SYS(madvise),
        SCMP_SYS(brk),
        SCMP_SYS(clone),
        SCMP_SYS(clone3),
        SCMP_SYS(set_robust_list),
        SCMP_SYS(rseq),
        SCMP_SYS(gettid),
        SCMP_SYS(getpid),
        SCMP_SYS(tgkill),
        SCMP_SYS(sched_getaffinity),
        SCMP_SYS(sched_setaffinity),
        SCMP_SYS(prctl),
        SCMP_SYS(membarrier),
        SCMP_SYS(exit),
        SCMP_SYS(exit_group),
        SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(rt_sigaction),
        SCMP_SYS(rt_sigreturn),
        /* the control socket and files for a reboot */
        SCMP_SYS(accept4),
        SCMP_SYS(recvfrom),
        SCMP_SYS(sendto),
        SCMP_SYS(close),
        SCMP_SYS(unlink),
        SCMP_SYS(openat),
        SCMP_SYS(fstat),
        SCMP_SYS(newfstatat),
        SCMP_SYS(statx),
};

void sandbox_enter(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc = filter == NULL ? -ENOMEM : 0;

	for (size_t i = 0; rc == 0 && i < sizeof(allowed) / sizeof(allowed[0]); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	/* Threads that run already (an attach starts queues) are taken in too. */
	if (rc == 0)
		rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (rc == 0)
		rc = seccomp_load(filter);
	if (rc != 0)
		log_line("serving without a system call filter: %s", strerror(-rc));
	seccomp_release(filter);
}
