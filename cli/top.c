/* SPDX-License-Identifier: BSD-2-Clause */
/* keel top: what each VM uses, now. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/device.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/top_disks.h"
#include "cli/verb.h"

struct sample {
	struct timespec when;
	struct keel_hc_info info;
	struct keel_hc_counters root;
	struct device_vm vms[KEEL_MAX_VMS];
	struct io {
		double requests, bytes;
	} io[KEEL_MAX_VMS];
	unsigned vm_count;
	struct top_disks disks;
};

/* What differs between two samples, for one VM or root, per second. */
struct rates {
	double cpu; /* CPUs' worth */
	double exits, root_exits, interrupts, doorbells;
	double requests, bytes;
};

static struct io take_io(const char *name, struct top_disks *disks)
{
	cJSON *stats = client_ask_stats(name);
	struct io io = {0, 0};
	const cJSON *device;

	cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(stats, "devices"))
	{
		io.requests += text_number(device, "requests");
		io.bytes += text_number(device, "bytes_in") + text_number(device, "bytes_out");
	}
	top_disks_take(disks, name, stats);
	cJSON_Delete(stats);
	return io;
}

static int take(int fd, struct sample *sample)
{
	int rc = device_info(fd, &sample->info);

	clock_gettime(CLOCK_MONOTONIC, &sample->when);
	if (rc == 0)
		rc = device_counters(fd, &sample->root);
	if (rc == 0)
		rc = device_list(fd, sample->vms, KEEL_MAX_VMS);
	sample->vm_count = rc < 0 ? 0 : (unsigned)rc;
	sample->disks.count = 0;
	for (unsigned i = 0; i < sample->vm_count; i++)
		sample->io[i] = take_io(sample->vms[i].info.name, &sample->disks);
	return rc < 0 ? rc : 0;
}

static double rate(uint64_t before, uint64_t now, double seconds)
{
	/* Counters of a VM that was made anew under the same id begin at 0. */
	return now >= before ? (double)(now - before) / seconds : 0;
}

static struct rates compare(
        const struct keel_hc_counters *before, const struct keel_hc_counters *now, double seconds)
{
	return (struct rates){
	        .cpu = rate(before->run_ns, now->run_ns, seconds) / 1e9,
	        .exits = rate(device_exits(before), device_exits(now), seconds),
	        .root_exits = rate(before->root_exits, now->root_exits, seconds),
	        .interrupts = rate(before->interrupts, now->interrupts, seconds),
	        .doorbells = rate(before->doorbells, now->doorbells, seconds),
	};
}

/* Of VM i in `now`; zeroes if it was not there before. */
static struct rates compare_vm(
        const struct sample *before, const struct sample *now, unsigned i, double seconds)
{
	struct rates rates = {0};

	for (unsigned j = 0; j < before->vm_count; j++) {
		const struct device_vm *old = &before->vms[j], *new = &now->vms[i];

		if (old->info.head.vm != new->info.head.vm ||
		        old->info.created_tsc != new->info.created_tsc)
			continue;
		rates = compare(&old->counters, &new->counters, seconds);
		/* The device process's own counts begin anew with each process. */
		if (now->io[i].requests >= before->io[j].requests) {
			rates.requests = (now->io[i].requests - before->io[j].requests) / seconds;
			rates.bytes = (now->io[i].bytes - before->io[j].bytes) / seconds;
		}
	}
	return rates;
}

static double seconds_between(const struct sample *before, const struct sample *now)
{
	double seconds = (double)(now->when.tv_sec - before->when.tv_sec) +
	                 (double)(now->when.tv_nsec - before->when.tv_nsec) / 1e9;

	return seconds > 0.001 ? seconds : 0.001;
}

static void add_row(struct table *table, const char *name, const struct rates *rates, bool io)
{
	char text[TEXT_BYTES];

	if (!table_row(table))
		return;
	table_set(table, 0, "%s", name);
	table_set(table, 1, "%.1f", rates->cpu * 100);
	table_set(table, 2, "%s", text_rate(rates->exits, text));
	table_set(table, 3, "%s", text_rate(rates->root_exits, text));
	table_set(table, 4, "%s", text_rate(rates->interrupts, text));
	table_set(table, 5, "%s", text_rate(rates->doorbells, text));
	table_set(table, 6, "%s", io ? text_rate(rates->requests, text) : "-");
	table_set(table, 7, "%s", io ? text_size((uint64_t)rates->bytes, text) : "-");
}

static void print_table(const struct sample *before, const struct sample *now, bool disks)
{
	static const char *const heads[] = {"VM", ">CPU%", ">EXITS/s", ">TO ROOT/s", ">INTR/s",
	        ">DOORBELLS/s", ">I/O/s", ">BYTES/s"};
	static struct table table;
	double seconds = seconds_between(before, now);
	struct rates rates = compare(&before->root, &now->root, seconds);

	table_init(&table, 8, heads);
	add_row(&table, "(root)", &rates, false);
	for (unsigned i = 0; i < now->vm_count; i++) {
		rates = compare_vm(before, now, i, seconds);
		add_row(&table, now->vms[i].info.name, &rates, true);
	}
	printf("%u CPUs, hyp idle %.1f%%, %u VMs, over %.1f s\n", now->info.cpus,
	        rate(before->root.idle_ns, now->root.idle_ns, seconds) / 1e7, now->vm_count,
	        seconds);
	table_print(&table, stdout);
	if (disks) {
		putchar('\n');
		top_disks_print(&before->disks, &now->disks, seconds);
	}
	fflush(stdout);
}

static cJSON *add_json(cJSON *list, const char *name, const struct rates *rates)
{
	cJSON *entry = cJSON_CreateObject();

	cJSON_AddStringToObject(entry, "name", name);
	cJSON_AddNumberToObject(entry, "cpus_used", rates->cpu);
	cJSON_AddNumberToObject(entry, "exits_per_s", rates->exits);
	cJSON_AddNumberToObject(entry, "root_exits_per_s", rates->root_exits);
	cJSON_AddNumberToObject(entry, "interrupts_per_s", rates->interrupts);
	cJSON_AddNumberToObject(entry, "doorbells_per_s", rates->doorbells);
	cJSON_AddNumberToObject(entry, "io_per_s", rates->requests);
	cJSON_AddNumberToObject(entry, "io_bytes_per_s", rates->bytes);
	/* What a request of the VM's costs, all it did besides included. */
	if (rates->requests > 0) {
		cJSON_AddNumberToObject(entry, "exits_per_io", rates->exits / rates->requests);
		cJSON_AddNumberToObject(
		        entry, "root_exits_per_io", rates->root_exits / rates->requests);
		cJSON_AddNumberToObject(
		        entry, "interrupts_per_io", rates->interrupts / rates->requests);
		cJSON_AddNumberToObject(
		        entry, "doorbells_per_io", rates->doorbells / rates->requests);
	}
	cJSON_AddItemToArray(list, entry);
	return entry;
}

static int print_json(const struct sample *before, const struct sample *now)
{
	double seconds = seconds_between(before, now);
	cJSON *json = cJSON_CreateObject(), *vms, *disks;
	struct rates rates = compare(&before->root, &now->root, seconds);

	cJSON_AddNumberToObject(json, "seconds", seconds);
	cJSON_AddNumberToObject(json, "cpus", now->info.cpus);
	vms = cJSON_AddArrayToObject(json, "root");
	add_json(vms, "(root)", &rates);
	vms = cJSON_AddArrayToObject(json, "vms");
	for (unsigned i = 0; i < now->vm_count; i++) {
		rates = compare_vm(before, now, i, seconds);
		disks = cJSON_AddArrayToObject(
		        add_json(vms, now->vms[i].info.name, &rates), "disks");
		top_disks_json(disks, now->vms[i].info.name, &before->disks, &now->disks, seconds);
	}
	return text_print_json(json);
}

/* True: a key was pressed on the terminal, or it is gone. */
static bool wait_for(unsigned seconds, bool watch)
{
	struct pollfd in = {.fd = watch ? STDIN_FILENO : -1, .events = POLLIN};

	return poll(&in, 1, (int)seconds * 1000) > 0;
}

static int show(int fd, unsigned delay_s, bool once, bool json, bool disks)
{
	static struct sample samples[2];
	bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	int rc = take(fd, &samples[0]);

	for (unsigned turn = 1; rc == 0; turn++) {
		struct sample *now = &samples[turn % 2], *before = &samples[(turn + 1) % 2];
		bool over = wait_for(delay_s, terminal && !once && !json);

		rc = take(fd, now);
		if (rc != 0)
			break;
		if (json)
			return print_json(before, now);
		if (!once && terminal)
			fputs("\033[H\033[2J", stdout);
		print_table(before, now, disks);
		if (once || over)
			return EXIT_OK;
	}
	return complain(EXIT_REFUSED, "hyp does not answer: %s", strerror(-rc));
}

static int run(const struct verb *verb, int argc, char **argv)
{
	bool json = false, once = false, disks = false;
	unsigned delay_s = 1;
	const struct option_rule rules[] = {
	        {"--json", OPTION_FLAG, &json, 0, 0, NULL},
	        {"--once", OPTION_FLAG, &once, 0, 0, NULL},
	        {"--disks", OPTION_FLAG, &disks, 0, 0, NULL},
	        {"--delay", OPTION_SECONDS, &delay_s, 1, 3600, NULL},
	};
	int rc = options_read(verb, argc, argv, rules, 4, NULL, 0, 0);
	int fd;

	if (rc != OPTIONS_GO_ON)
		return rc;
	fd = device_open(&rc);
	if (fd < 0)
		return rc;
	rc = show(fd, delay_s, once, json, disks);
	close(fd);
	return rc;
}

const struct verb verb_top = {
        .name = "top",
        .words = "[--once] [--json] [--disks] [--delay SECONDS]",
        .summary = "Show what each VM uses: CPU time, exits, I/O, per second",
        .help = "  --once           print one table and end\n"
                "  --json           the same for scripts, once, with all disks\n"
                "  --disks          and a line for each disk: rates, and what a request costs\n"
                "  --delay SECONDS  between two samples (1)\n"
                "Enter ends it.\n",
        .run = run,
};
