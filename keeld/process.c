/* SPDX-License-Identifier: BSD-2-Clause */
/* fork and exec, and the pidfd on which its end is heard. */
#include "keeld/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct process *of_source(struct loop_source *source)
{
	return (struct process *)(void *)((char *)source - offsetof(struct process, source));
}

void process_release(struct process *process)
{
	if (process->pid == 0)
		return;
	loop_remove(process->loop, &process->source);
	close(process->source.fd);
	process->pid = 0;
}

static int find_status(const struct process *process)
{
	siginfo_t info = {0};

	if (!process->child || waitid(P_PIDFD, (id_t)process->source.fd, &info, WEXITED) != 0)
		return PROCESS_UNKNOWN;
	return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

static void on_end(struct loop_source *source, uint32_t events)
{
	struct process *process = of_source(source);
	int status = find_status(process);

	(void)events;
	process_release(process);
	process->ended(process, status);
}

static int watch(struct process *process, pid_t pid, int pidfd, bool child)
{
	int rc;

	process->source = (struct loop_source){.fd = pidfd, .ready = on_end};
	process->child = child;
	rc = loop_add(process->loop, &process->source);
	if (rc == 0)
		process->pid = pid;
	else
		close(pidfd);
	return rc;
}

/* Between fork and exec. All else that the daemon has open closes by itself. */
static void become(char *const argv[], int input, int output)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
	        dup2(output, STDERR_FILENO) >= 0)
		execv(argv[0], argv);
	dprintf(output, "keelvm: cannot run %s: errno %d\n", argv[0], errno);
	_exit(127);
}

int process_start(struct process *process, char *const argv[], int input, int output)
{
	pid_t pid = fork();
	int pidfd, rc;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		become(argv, input, output);
	pidfd = pidfd_open(pid, 0);
	rc = pidfd < 0 ? -errno : watch(process, pid, pidfd, true);
	if (rc != 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return rc;
}

int process_adopt(struct process *process, pid_t pid)
{
	int pidfd = pidfd_open(pid, 0);

	return pidfd < 0 ? -errno : watch(process, pid, pidfd, false);
}

void process_signal(const struct process *process, int signal)
{
	if (process->pid != 0)
		pidfd_send_signal(process->source.fd, signal, NULL, 0);
}
