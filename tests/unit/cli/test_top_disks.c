/* SPDX-License-Identifier: BSD-2-Clause */
/* What keel top says of disks: rates and costs of what came between two looks, and of nothing else.
 */
/* sources: cli/top_disks.c cli/table.c cli/text.c */
/* libs: -lcjson */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "cli/text.h"
#include "cli/top_disks.h"

static void take(struct top_disks *out, const char *vm, unsigned requests)
{
	char json[1024];
	cJSON *stats;

	snprintf(json, sizeof(json),
	        "{\"devices\":[{\"name\":\"net0\",\"requests\":9},{\"name\":\"disk0\",\"backend\":"
	        "\"workers\",\"requests\":%u,\"reads\":%u,\"writes\":%u,\"bytes_in\":%u,\"kicks\":%"
	        "u,"
	        "\"calls\":%u,\"waits\":%u,\"time_ns\":%u,\"held\":%u}]}",
	        requests, requests, requests / 2, requests * 4096, requests / 4, requests / 2,
	        requests / 10, requests * 5000, requests / 5);
	stats = cJSON_Parse(json);
	assert_non_null(stats);
	top_disks_take(out, vm, stats);
	cJSON_Delete(stats);
}

static double number(const cJSON *list, const char *key)
{
	return text_number(cJSON_GetArrayItem(list, 0), key);
}

static void test_between(void **state)
{
	static struct top_disks before, now;
	cJSON *list = cJSON_CreateArray();

	(void)state;
	take(&before, "one", 1000);
	take(&before, "two", 77);
	take(&now, "one", 2000);
	take(&now, "two", 77);
	assert_int_equal(now.count, 2);
	top_disks_json(list, "one", &before, &now, 2);
	assert_int_equal(cJSON_GetArraySize(list), 1);
	assert_string_equal(text_string(cJSON_GetArrayItem(list, 0), "name"), "disk0");
	assert_string_equal(text_string(cJSON_GetArrayItem(list, 0), "backend"), "workers");
	assert_float_equal(number(list, "reads_per_s"), 500, 0.001);
	assert_float_equal(number(list, "writes_per_s"), 250, 0.001);
	assert_float_equal(number(list, "bytes_in_per_s"), 500 * 4096, 0.001);
	assert_float_equal(number(list, "latency_us"), 5, 0.001);
	assert_float_equal(number(list, "kicks_per_io"), 0.25, 0.001);
	assert_float_equal(number(list, "interrupts_per_io"), 0.5, 0.001);
	assert_float_equal(number(list, "wakeups_per_io"), 0.1, 0.001);
	assert_float_equal(number(list, "held_per_s"), 100, 0.001);
	cJSON_Delete(list);
	top_disks_print(&before, &now, 2);
}

/* A process that began anew counts from 0; a disk without requests costs nothing. */
static void test_restarted(void **state)
{
	static struct top_disks before, now;
	cJSON *list = cJSON_CreateArray();

	(void)state;
	take(&before, "one", 1000);
	take(&now, "one", 10);
	top_disks_json(list, "one", &before, &now, 1);
	assert_float_equal(number(list, "reads_per_s"), 0, 0.001);
	assert_float_equal(number(list, "kicks_per_io"), 0, 0.001);
	cJSON_Delete(list);
}

static void test_many(void **state)
{
	static struct top_disks disks;
	char name[16];

	(void)state;
	for (unsigned i = 0; i < 2 * TOP_DISKS_MAX; i++) {
		snprintf(name, sizeof(name), "vm%u", i);
		take(&disks, name, i);
	}
	assert_int_equal(disks.count, TOP_DISKS_MAX);
	top_disks_take(&disks, "none", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_between),
	        cmocka_unit_test(test_restarted),
	        cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
