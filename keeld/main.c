/* SPDX-License-Identifier: BSD-2-Clause */
/* keeld: the daemon in root that starts VMs, keeps a device process on each, and takes requests. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/paths.h"
#include "keeld/log.h"
#include "keeld/root.h"
#include "keeld/server.h"

static const char usage[] =
        "usage: keeld [--keelvm PROGRAM] [--beat SECONDS]\n"
        "The daemon that starts keelOS's VMs and keeps a device process on each of them.\n"
        "Runs in the foreground, logs to standard error; SIGTERM ends it, the VMs run on.\n"
        "--beat: hyp starts root again if the daemon was not heard for so long (30; 0: never).\n"
        "See keeld(8).\n";

static uint32_t beat_ms = ROOT_BEAT_MS_DEFAULT;
static struct keeld keeld;
static struct server server;

static void on_signal(struct loop_source *source, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)events;
	if (read(source->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	log_line("ended by signal %u; the VMs run on", info.ssi_signo);
	keeld.loop.over = true;
}

static int fail(const char *text, int code)
{
	fprintf(stderr, "keeld: %s\n", text);
	return code;
}

static int serve(void)
{
	static struct loop_source signals = {.ready = on_signal};
	char error[1024];
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals.fd < 0 || loop_open(&keeld.loop) != 0 || loop_add(&keeld.loop, &signals) != 0)
		return fail(strerror(errno), EXIT_REFUSED);
	if (settings_make_folders(&keeld.settings, error, sizeof(error)) != 0 ||
	        server_lock(&server, &keeld, error, sizeof(error)) != 0)
		return fail(error, EXIT_REFUSED);
	/* Before any VM is touched, so that what cannot listen does nothing. */
	if (server_open(&server, error, sizeof(error)) != 0) {
		server_close(&server);
		return fail(error, EXIT_REFUSED);
	}
	if (keeld_begin(&keeld) != 0) {
		server_close(&server);
		return fail("hyp does not answer; see dmesg", EXIT_NO_HYP);
	}
	log_line("keeld is ready");
	root_begin(&keeld, beat_ms);
	loop_run(&keeld.loop);
	root_end(&keeld);
	server_close(&server);
	while (keeld.vms != NULL)
		vm_free(keeld.vms);
	loop_close(&keeld.loop);
	return EXIT_OK;
}

static bool read_beat(const char *text)
{
	char *end;
	unsigned long seconds = strtoul(text, &end, 10);

	beat_ms = (uint32_t)(seconds * 1000);
	return *text != '\0' && *end == '\0' && seconds <= 86400;
}

int main(int argc, char **argv)
{
	static const struct option list[] = {
	        {"keelvm", required_argument, NULL, 'k'},
	        {"beat", required_argument, NULL, 'b'},
	        {"help", no_argument, NULL, 'h'},
	        {NULL, 0, NULL, 0},
	};
	const char *keelvm = PATHS_KEELVM;
	static struct hyp hyp;
	int option, rc;

	while ((option = getopt_long(argc, argv, "h", list, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return EXIT_OK;
		}
		if (option == 'b' && read_beat(optarg))
			continue;
		if (option != 'k') {
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
		keelvm = optarg;
	}
	if (optind != argc) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	rc = hyp_open(&hyp);
	if (rc == -EBUSY || rc == -EACCES || rc == -EPERM)
		return fail("/dev/keel may be opened by root only; use sudo", EXIT_REFUSED);
	if (rc != 0)
		return fail("there is no /dev/keel: this is not root on hyp, or keel.ko is not "
		            "loaded (modprobe keel)",
		        EXIT_NO_HYP);
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	settings_init(&keeld.settings, "", keelvm);
	keeld.hyp = &hyp;
	keeld.net = &net_linux;
	rc = serve();
	hyp_close(&hyp);
	return rc;
}
