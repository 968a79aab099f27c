/* SPDX-License-Identifier: BSD-2-Clause */
/* keelvm: the device process of one VM. It attaches to the VM's vault and serves it until the guest
 * is off. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/log.h"
#include "vmm/run.h"
#include "vmm/sandbox.h"

#define RUN_DIRECTORY "/run/keel/vm"

struct options {
	const char *vm;
	const char *log;
	const char *directory;
	bool format, check, restart;
};

static const char usage[] =
        "usage: keelvm --vm NAME|ID [--log FILE] [--run-dir DIR] [--restart]   serve a VM\n"
        "       keelvm --vm NAME|ID --format < DEFINITION                      make its vault\n"
        "       keelvm --check < DEFINITION                                    check a "
        "definition\n";

/* Where standard error went before --log: whoever started us waits there for the one line. -1: not
 * redirected. */
static int first_stderr = -1;

static int fail(const char *text)
{
	fprintf(stderr, "keelvm: %s\n", text);
	if (first_stderr >= 0)
		dprintf(first_stderr, "keelvm: %s\n", text);
	return RUN_EXIT_ERROR;
}

static bool read_options(int argc, char **argv, struct options *options)
{
	static const struct option list[] = {
	        {"vm", required_argument, NULL, 'v'},
	        {"log", required_argument, NULL, 'l'},
	        {"run-dir", required_argument, NULL, 'd'},
	        {"format", no_argument, NULL, 'f'},
	        {"check", no_argument, NULL, 'c'},
	        {"restart", no_argument, NULL, 'r'},
	        {NULL, 0, NULL, 0},
	};
	int option;

	*options = (struct options){.directory = RUN_DIRECTORY};
	while ((option = getopt_long(argc, argv, "", list, NULL)) != -1) {
		switch (option) {
		case 'v': options->vm = optarg; break;
		case 'l': options->log = optarg; break;
		case 'd': options->directory = optarg; break;
		case 'f': options->format = true; break;
		case 'c': options->check = true; break;
		case 'r': options->restart = true; break;
		default: return false;
		}
	}
	return optind == argc && (options->check ? options->vm == NULL : options->vm != NULL);
}

/* Standard input whole, as a definition that was checked. RUN_EXIT_*; 0 goes on. */
static int read_definition(char *text, size_t bytes)
{
	static struct definition definition;
	char error[512];
	size_t got = fread(text, 1, bytes - 1, stdin);

	text[got] = '\0';
	if (strlen(text) != got)
		return fail("definition: has a zero byte in it");
	if (definition_parse(text, &definition, error, sizeof(error)) != 0)
		return fail(error);
	return 0;
}

static int format_vault(const struct options *options, const char *text)
{
	char error[512];
	struct hv *hv;
	int rc = hv_keel_open(options->vm, &hv, error, sizeof(error));

	if (rc != 0)
		return fail(error);
	rc = vault_format(hv->vault, hv->vault_bytes, text, error, sizeof(error));
	hv->ops->close(hv);
	return rc == 0 ? 0 : fail(error);
}

static int check_or_format(const struct options *options)
{
	static char text[DEFINITION_MAX_BYTES + 2];
	int rc = read_definition(text, sizeof(text));

	return rc != 0 || options->check ? rc : format_vault(options, text);
}

/* From here on all lines go to the log, and why it failed to start to both. */
static bool redirect_log(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);

	if (fd < 0)
		return false;
	first_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
		return false;
	close(fd);
	return true;
}

static void block_signals(void)
{
	sigset_t set;

	/* Before any thread is made: all inherit it, and the loop reads them from a descriptor. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Whoever started us knows by the end of its pipe that serving has begun. */
static void let_go_of_starter(void)
{
	if (first_stderr >= 0)
		close(first_stderr);
	first_stderr = -1;
}

static int serve_started(
        struct machine *machine, struct control *control, const struct options *options)
{
	enum machine_next next = MACHINE_GO_ON;
	char error[512];

	if (machine_start(machine, options->restart, &next, error, sizeof(error)) != 0)
		return fail(error);
	if (next != MACHINE_GO_ON)
		return next == MACHINE_OFF ? RUN_EXIT_OFF : RUN_EXIT_DEAD;
	let_go_of_starter();
	sandbox_enter();
	return run_loop(machine, control);
}

static int serve(const struct options *options)
{
	static struct machine machine;
	static struct control control;
	char error[512], path[256];
	struct hv *hv;
	int result;

	if (hv_keel_open(options->vm, &hv, error, sizeof(error)) != 0 ||
	        machine_attach(&machine, hv, error, sizeof(error)) != 0)
		return fail(error);
	snprintf(path, sizeof(path), "%s/%s.sock", options->directory, machine.definition.name);
	if (control_open(&control, &machine, path, error, sizeof(error)) != 0)
		return fail(error);
	result = serve_started(&machine, &control, options);
	unlink(path);
	return result;
}

int main(int argc, char **argv)
{
	struct options options;
	int result;

	if (!read_options(argc, argv, &options)) {
		fputs(usage, stderr);
		return RUN_EXIT_USAGE;
	}
	if (options.format || options.check)
		return check_or_format(&options);
	/* One arena: threads allocate little, and each arena costs resident memory. */
	mallopt(M_ARENA_MAX, 1);
	block_signals();
	if (options.log != NULL && !redirect_log(options.log)) {
		fprintf(stderr, "keelvm: %s: %s\n", options.log, strerror(errno));
		return RUN_EXIT_ERROR;
	}
	result = serve(&options);
	/* Engine threads may be at work in guest memory: no clean-up may take it from under them.
	 */
	_exit(result);
}
