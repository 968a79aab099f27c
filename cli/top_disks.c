/* SPDX-License-Identifier: BSD-2-Clause */
/* Rates of disks, and what a request costs in kicks, interrupts and wake-ups. */
#include "cli/top_disks.h"

#include <stdio.h>
#include <string.h>

#include "cli/table.h"
#include "cli/text.h"

static const char *const keys[TOP_COUNTS] = {
        [TOP_READS] = "reads",
        [TOP_WRITES] = "writes",
        [TOP_REQUESTS] = "requests",
        [TOP_BYTES_IN] = "bytes_in",
        [TOP_BYTES_OUT] = "bytes_out",
        [TOP_TIME_NS] = "time_ns",
        [TOP_KICKS] = "kicks",
        [TOP_CALLS] = "calls",
        [TOP_WAITS] = "waits",
        [TOP_HELD] = "held",
        [TOP_ERRORS] = "errors",
};

void top_disks_take(struct top_disks *out, const char *vm, const cJSON *stats)
{
	const cJSON *device;

	cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(stats, "devices"))
	{
		const char *backend = text_string(device, "backend");
		struct top_disk *disk = &out->disks[out->count];

		/* Other devices have none. */
		if (backend[0] == '\0' || out->count == TOP_DISKS_MAX)
			continue;
		snprintf(disk->vm, sizeof(disk->vm), "%s", vm);
		snprintf(disk->name, sizeof(disk->name), "%s", text_string(device, "name"));
		snprintf(disk->backend, sizeof(disk->backend), "%s", backend);
		for (unsigned i = 0; i < TOP_COUNTS; i++)
			disk->counts[i] = text_number(device, keys[i]);
		out->count++;
	}
}

/* What came between; zeroes if the process began anew, or the disk was not there. */
static void differ(const struct top_disks *before, const struct top_disk *now, double *out)
{
	memset(out, 0, TOP_COUNTS * sizeof(*out));
	for (unsigned i = 0; i < before->count; i++) {
		const struct top_disk *old = &before->disks[i];

		if (strcmp(old->vm, now->vm) != 0 || strcmp(old->name, now->name) != 0 ||
		        old->counts[TOP_REQUESTS] > now->counts[TOP_REQUESTS])
			continue;
		for (unsigned k = 0; k < TOP_COUNTS; k++)
			out[k] = now->counts[k] - old->counts[k];
	}
}

static double ratio(double count, double requests)
{
	return requests > 0 ? count / requests : 0;
}

void top_disks_print(const struct top_disks *before, const struct top_disks *now, double seconds)
{
	static const char *const heads[] = {"VM", "DISK", ">READS/s", ">WRITES/s", ">IN/s",
	        ">OUT/s", ">US/IO", ">KICKS/IO", ">INTR/IO", ">WAKES/IO", ">HELD/s"};
	static struct table table;
	char text[TEXT_BYTES];

	table_init(&table, 11, heads);
	for (unsigned i = 0; i < now->count && table_row(&table); i++) {
		const struct top_disk *disk = &now->disks[i];
		double d[TOP_COUNTS];

		differ(before, disk, d);
		table_set(&table, 0, "%s", disk->vm);
		table_set(&table, 1, "%s", disk->name);
		table_set(&table, 2, "%s", text_rate(d[TOP_READS] / seconds, text));
		table_set(&table, 3, "%s", text_rate(d[TOP_WRITES] / seconds, text));
		table_set(&table, 4, "%s", text_size((uint64_t)(d[TOP_BYTES_IN] / seconds), text));
		table_set(&table, 5, "%s", text_size((uint64_t)(d[TOP_BYTES_OUT] / seconds), text));
		table_set(&table, 6, "%.0f", ratio(d[TOP_TIME_NS], d[TOP_REQUESTS]) / 1000);
		table_set(&table, 7, "%.2f", ratio(d[TOP_KICKS], d[TOP_REQUESTS]));
		table_set(&table, 8, "%.2f", ratio(d[TOP_CALLS], d[TOP_REQUESTS]));
		table_set(&table, 9, "%.2f", ratio(d[TOP_WAITS], d[TOP_REQUESTS]));
		table_set(&table, 10, "%s", text_rate(d[TOP_HELD] / seconds, text));
	}
	table_print(&table, stdout);
}

void top_disks_json(cJSON *list, const char *vm, const struct top_disks *before,
        const struct top_disks *now, double seconds)
{
	for (unsigned i = 0; i < now->count; i++) {
		const struct top_disk *disk = &now->disks[i];
		double d[TOP_COUNTS];
		cJSON *entry;

		if (strcmp(disk->vm, vm) != 0)
			continue;
		differ(before, disk, d);
		entry = cJSON_CreateObject();
		cJSON_AddStringToObject(entry, "name", disk->name);
		cJSON_AddStringToObject(entry, "backend", disk->backend);
		cJSON_AddNumberToObject(entry, "reads_per_s", d[TOP_READS] / seconds);
		cJSON_AddNumberToObject(entry, "writes_per_s", d[TOP_WRITES] / seconds);
		cJSON_AddNumberToObject(entry, "bytes_in_per_s", d[TOP_BYTES_IN] / seconds);
		cJSON_AddNumberToObject(entry, "bytes_out_per_s", d[TOP_BYTES_OUT] / seconds);
		cJSON_AddNumberToObject(entry, "errors_per_s", d[TOP_ERRORS] / seconds);
		cJSON_AddNumberToObject(entry, "held_per_s", d[TOP_HELD] / seconds);
		cJSON_AddNumberToObject(
		        entry, "latency_us", ratio(d[TOP_TIME_NS], d[TOP_REQUESTS]) / 1000);
		cJSON_AddNumberToObject(
		        entry, "kicks_per_io", ratio(d[TOP_KICKS], d[TOP_REQUESTS]));
		cJSON_AddNumberToObject(
		        entry, "interrupts_per_io", ratio(d[TOP_CALLS], d[TOP_REQUESTS]));
		cJSON_AddNumberToObject(
		        entry, "wakeups_per_io", ratio(d[TOP_WAITS], d[TOP_REQUESTS]));
		cJSON_AddItemToArray(list, entry);
	}
}
