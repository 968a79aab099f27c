/* SPDX-License-Identifier: BSD-2-Clause */
/* The seccomp filter of keel-blk, as one visible list. */
#include "blkd/sandbox.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <seccomp.h>

static const int allowed[] = {
        /* the disk: by io_uring, or by workers; its size */
        SCMP_SYS(io_uring_setup),
        SCMP_SYS(io_uring_enter),
        SCMP_SYS(io_uring_register),
        SCMP_SYS(preadv2),
        SCMP_SYS(pwritev2),
        SCMP_SYS(fdatasync),
        SCMP_SYS(fallocate),
        SCMP_SYS(fstat),
        SCMP_SYS(newfstatat),
        SCMP_SYS(ioctl),
        SCMP_SYS(fcntl),
        /* front ends and what they give */
        SCMP_SYS(accept4),
        SCMP_SYS(recvmsg),
        SCMP_SYS(recvfrom),
        SCMP_SYS(sendmsg),
        SCMP_SYS(sendto),
        SCMP_SYS(memfd_create),
        SCMP_SYS(ftruncate),
        SCMP_SYS(eventfd2),
        SCMP_SYS(dup3),
        SCMP_SYS(close),
        SCMP_SYS(unlink),
        SCMP_SYS(read),
        SCMP_SYS(write),
        SCMP_SYS(writev),
        /* waiting */
        SCMP_SYS(poll),
        SCMP_SYS(futex),
        SCMP_SYS(nanosleep),
        SCMP_SYS(clock_nanosleep),
        SCMP_SYS(clock_gettime),
        SCMP_SYS(restart_syscall),
        SCMP_SYS(sched_yield),
        /* memory and threads */
        SCMP_SYS(mmap),
        SCMP_SYS(munmap),
        SCMP_SYS(mprotect),
        SCMP_SYS(mremap),
        SCMP_SYS(madvise),
        SCMP_SYS(brk),
        SCMP_SYS(getrandom),
        SCMP_SYS(clone),
        SCMP_SYS(clone3),
        SCMP_SYS(set_robust_list),
        SCMP_SYS(rseq),
        SCMP_SYS(prctl),
        SCMP_SYS(gettid),
        SCMP_SYS(getpid),
        SCMP_SYS(tgkill),
        SCMP_SYS(exit),
        SCMP_SYS(exit_group),
        SCMP_SYS(rt_sigprocmask),
        SCMP_SYS(rt_sigaction),
        SCMP_SYS(rt_sigreturn),
};

void sandbox_enter(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc = filter ? 0 : -ENOMEM;

	for (size_t i = 0; !rc && i < sizeof(allowed) / sizeof(allowed[0]); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	if (!rc)
		rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!rc)
		rc = seccomp_load(filter);
	if (rc)
		fprintf(stderr, "keel-blk: serving without a system call filter: %s\n",
		        strerror(-rc));
	seccomp_release(filter);
}
