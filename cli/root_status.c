/* SPDX-License-Identifier: BSD-2-Clause */
/* keel root status: which root runs, which one hyp would go back to, and the story of the last
 * restarts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "abi/ioctl.h"
#include "cli/device.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/verb.h"

static uint64_t seconds_since(const struct keel_hc_root_status *s, uint64_t tsc)
{
	return s->tsc_hz == 0 ? 0 : (s->now_tsc - tsc) / s->tsc_hz;
}

static unsigned history_count(const struct keel_hc_root_status *s)
{
	return s->history_count < KEEL_ROOT_HISTORY ? s->history_count : KEEL_ROOT_HISTORY;
}

static int print_json(const struct keel_hc_root_status *s)
{
	cJSON *json = cJSON_CreateObject(), *history;

	cJSON_AddNumberToObject(json, "start", s->start);
	cJSON_AddStringToObject(json, "image", s->label);
	cJSON_AddBoolToObject(json, "ready", s->ready != 0);
	cJSON_AddNumberToObject(json, "uptime_s", (double)seconds_since(s, s->started_tsc));
	cJSON_AddStringToObject(json, "good_image", s->good_label);
	if (s->staged)
		cJSON_AddStringToObject(json, "staged_image", s->staged_label);
	history = cJSON_AddArrayToObject(json, "history");
	for (unsigned i = 0; i < history_count(s); i++) {
		const struct keel_root_past *past = &s->history[i];
		cJSON *one = cJSON_CreateObject();

		cJSON_AddNumberToObject(one, "ago_s", (double)seconds_since(s, past->tsc));
		cJSON_AddStringToObject(one, "reason", past->reason);
		cJSON_AddNumberToObject(one, "up_ms", (double)past->up_ms);
		cJSON_AddBoolToObject(one, "was_ready", past->was_ready != 0);
		cJSON_AddNumberToObject(one, "next_start", past->start);
		cJSON_AddStringToObject(one, "next_image", past->label);
		cJSON_AddItemToArray(history, one);
	}
	return text_print_json(json);
}

static void print_history(const struct keel_hc_root_status *s)
{
	static const char *const heads[] = {
	        ">AGO", "WHY", ">IT HAD RUN", "READY", ">NEXT", "IMAGE"};
	static struct table table;
	char ago[TEXT_BYTES], up[TEXT_BYTES];

	table_init(&table, 6, heads);
	for (unsigned i = 0; i < history_count(s) && table_row(&table); i++) {
		const struct keel_root_past *past = &s->history[i];

		table_set(&table, 0, "%s", text_duration(seconds_since(s, past->tsc), ago));
		table_set(&table, 1, "%s", past->reason);
		table_set(&table, 2, "%s", text_duration(past->up_ms / 1000, up));
		table_set(&table, 3, "%s", past->was_ready ? "yes" : "no");
		table_set(&table, 4, "%u", past->start);
		table_set(&table, 5, "%s", past->label);
	}
	table_print(&table, stdout);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	static struct keel_hc_root_status s;
	bool json = false;
	const struct option_rule rules[] = {
	        {.name = "--json", .kind = OPTION_FLAG, .value = &json}};
	int rc = options_read(verb, argc, argv, rules, 1, NULL, 0, 0), fd;
	char up[TEXT_BYTES];

	if (rc != OPTIONS_GO_ON)
		return rc;
	fd = device_open(&rc);
	if (fd < 0)
		return rc;
	rc = ioctl(fd, KEEL_IOC_ROOT_STATUS, &s) == 0 ? 0 : errno;
	close(fd);
	if (rc != 0)
		return complain(EXIT_REFUSED, "root's status: %s", strerror(rc));
	if (json)
		return print_json(&s);
	printf("root      start %u, image %s, up %s, %s\n", s.start, s.label,
	        text_duration(seconds_since(&s, s.started_tsc), up),
	        s.ready ? "ready" : "not yet reported ready");
	printf("falls back to %s\n", s.good_label);
	printf("next      %s\n", s.staged ? s.staged_label : s.good_label);
	if (s.history_count > 0) {
		printf("\n");
		print_history(&s);
	}
	return EXIT_OK;
}

const struct verb verb_root_status = {
        .group = "root",
        .name = "status",
        .words = "[--json]",
        .summary = "Which root runs, which comes next, and how the last ones ended",
        .help = "",
        .run = run,
};
