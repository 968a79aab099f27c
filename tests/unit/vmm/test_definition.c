/* SPDX-License-Identifier: BSD-2-Clause */
/* Shows that a definition is read whole, and that each thing wrong with one is named in one line.
 */
/* sources: vmm/definition.c */
/* libs: -lcjson */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vmm/definition.h"

#define HEAD                                                                                       \
	"{\"name\":\"web-1\",\"uuid\":\"123e4567-e89b-12d3-a456-426614174000\",\"cpus\":2,"        \
	"\"memory_bytes\":268435456,\"kernel\":\"/boot/vmlinuz\""

static struct definition definition;
static char error[300];

static int parse(const char *json)
{
	char *copy = strdup(json); /* so that the sanitizer sees reading past the end */
	int rc;

	error[0] = '\0';
	rc = definition_parse(copy, &definition, error, sizeof(error));
	free(copy);
	return rc;
}

static void expect(const char *json, const char *words)
{
	assert_int_equal(parse(json), -EINVAL);
	if (strstr(error, words) == NULL)
		fail_msg("'%s' does not say '%s'", error, words);
	assert_null(strchr(error, '\n'));
}

static void test_least(void **state)
{
	(void)state;
	assert_int_equal(parse(HEAD "}"), 0);
	assert_string_equal(definition.name, "web-1");
	assert_int_equal(definition.uuid[0], 0x12);
	assert_int_equal(definition.uuid[15], 0x00);
	assert_int_equal(definition.uuid[6], 0x12);
	assert_int_equal(definition.cpus, 2);
	assert_int_equal(definition.memory_bytes, 256u << 20);
	assert_string_equal(definition.kernel, "/boot/vmlinuz");
	assert_string_equal(definition.initrd, "");
	assert_int_equal(definition.disk_count + definition.net_count, 0);
	assert_false(definition.rng);
	assert_int_equal(definition.on_reboot, DEFINITION_RESTART);
	assert_int_equal(definition.on_poweroff, DEFINITION_DESTROY);
}

static void test_whole(void **state)
{
	(void)state;
	assert_int_equal(
	        parse(HEAD
	                ",\"initrd\":\"/i\",\"cmdline\":\"root=/dev/vda rw\","
	                "\"disks\":[{\"path\":\"/a\"},{\"path\":\"/b\",\"readonly\":true,"
	                "\"serial\":\"0123456789abcdefghij\"}],"
	                "\"nets\":[{\"tap\":\"tap0\",\"mac\":\"52:54:00:Ab:cD:0f\"}],"
	                "\"rng\":true,\"on_reboot\":\"destroy\",\"on_poweroff\":\"preserve\"} \n"),
	        0);
	assert_string_equal(definition.cmdline, "root=/dev/vda rw");
	assert_int_equal(definition.disk_count, 2);
	assert_string_equal(definition.disks[0].path, "/a");
	assert_false(definition.disks[0].readonly);
	assert_true(definition.disks[1].readonly);
	assert_string_equal(definition.disks[1].serial, "0123456789abcdefghij");
	assert_int_equal(definition.net_count, 1);
	assert_string_equal(definition.nets[0].tap, "tap0");
	assert_memory_equal(definition.nets[0].mac, "\x52\x54\x00\xab\xcd\x0f", 6);
	assert_true(definition.rng);
	assert_int_equal(definition.on_reboot, DEFINITION_DESTROY);
	assert_int_equal(definition.on_poweroff, DEFINITION_PRESERVE);
}

static void test_what_is_wrong_is_named(void **state)
{
	(void)state;
	expect("", "no JSON");
	expect("{", "no JSON");
	expect(HEAD ",\n\"rng\":\n}", "line 3");
	expect(HEAD "} x", "no JSON");
	expect("[]", "must be an object");
	expect("{}", "name: missing");
	expect(HEAD ",\"colour\":1}", "colour: unknown key");
	expect(HEAD ",\"cpus\":2}", "cpus: given twice");
	expect(HEAD ",\"disks\":[{\"path\":\"/a\"},{\"pth\":\"/b\"}]}",
	        "disks[1].pth: unknown key");
	expect(HEAD ",\"disks\":[{\"serial\":\"x\"}]}", "disks[0].path: missing");
	expect(HEAD ",\"disks\":[{\"path\":\"a\"}]}", "disks[0].path: must be an absolute path");
	expect(HEAD ",\"disks\":[{\"path\":\"/a\",\"readonly\":1}]}",
	        "readonly: must be true or false");
	expect(HEAD ",\"disks\":[{\"path\":\"/a\",\"iops\":0}]}", "disks[0].iops: must be a whole");
	expect(HEAD ",\"disks\":[{\"path\":\"/a\",\"bandwidth\":4095}]}",
	        "disks[0].bandwidth: must be a whole");
	expect(HEAD ",\"disks\":[{\"path\":\"/a\",\"backend\":\"aio\"}]}",
	        "disks[0].backend: must be");
	expect(HEAD ",\"disks\":[{\"path\":\"/a\",\"serial\":\"0123456789abcdefghijk\"}]}",
	        "longer than 20");
	expect(HEAD ",\"disks\":[7]}", "disks[0].: must be an object");
	expect(HEAD ",\"disks\":{}}", "disks: must be an array");
	expect(HEAD ",\"nets\":[{\"tap\":\"t\"}]}", "nets[0].mac: missing");
	expect(HEAD ",\"nets\":[{\"tap\":\"t\",\"mac\":\"52:54:00:00:00\"}]}",
	        "mac: must look like");
	expect(HEAD ",\"nets\":[{\"tap\":\"t\",\"mac\":\"52:54:00:00:00:001\"}]}",
	        "mac: must look like");
	expect(HEAD ",\"nets\":[{\"tap\":\"t\",\"mac\":\"5g:54:00:00:00:00\"}]}",
	        "mac: must look like");
	expect(HEAD ",\"nets\":[{\"tap\":\"t\",\"mac\":\"53:54:00:00:00:00\"}]}", "group address");
	expect(HEAD ",\"nets\":[{\"tap\":\"\",\"mac\":\"52:54:00:00:00:00\"}]}",
	        "network interface");
	expect(HEAD ",\"nets\":[{\"tap\":\"sixteen-long-nam\",\"mac\":\"52:54:00:00:00:00\"}]}",
	        "longer than 15");
	expect(HEAD ",\"rng\":\"yes\"}", "rng: must be true or false");
	expect(HEAD ",\"testdev\":1}", "testdev: must be true or false");
	expect(HEAD ",\"on_reboot\":\"preserve\"}",
	        "on_reboot: must be \"restart\" or \"destroy\"");
	expect(HEAD ",\"on_poweroff\":7}", "on_poweroff: must be");
	expect(HEAD ",\"initrd\":\"i\"}", "initrd: must be an absolute path");
	expect(HEAD ",\"cmdline\":[]}", "cmdline: must be a string");
	expect(HEAD ",\"firmware\":\"/f\"}", "kernel: give it, or firmware, and not both");
	expect(HEAD ",\"firmware_vars\":\"/f\"}",
	        "firmware_vars: are for firmware, which is missing");
}

/* The head with one value replaced. */
static void check_value(const char *key, const char *value, const char *words)
{
	static const char *const defaults[][2] = {{"name", "\"web-1\""},
	        {"uuid", "\"123e4567-e89b-12d3-a456-426614174000\""}, {"cpus", "2"},
	        {"memory_bytes", "268435456"}, {"kernel", "\"/k\""}};
	char json[4096] = "";

	for (unsigned i = 0; i < 5; i++) {
		strcat(json, i == 0 ? "{\"" : ",\"");
		strcat(json, defaults[i][0]);
		strcat(json, "\":");
		strcat(json, strcmp(key, defaults[i][0]) == 0 ? value : defaults[i][1]);
	}
	strcat(json, "}");
	if (words != NULL)
		expect(json, words);
	else
		assert_int_equal(parse(json), 0);
}

static void test_ranges(void **state)
{
	(void)state;
	check_value("cpus", "0", "cpus: must be a whole number from 1 to 64");
	check_value("cpus", "65", "cpus: must be");
	check_value("cpus", "64", NULL);
	check_value("cpus", "1.5", "cpus: must be");
	check_value("cpus", "-1", "cpus: must be");
	check_value("cpus", "1e300", "cpus: must be");
	check_value("cpus", "\"2\"", "cpus: must be");
	check_value("memory_bytes", "33554432", NULL);
	check_value("memory_bytes", "33554431", "memory_bytes: must be");
	check_value("memory_bytes", "34603008", "multiple of 2 MiB");
	check_value("memory_bytes", "1e19", "memory_bytes: must be");
	check_value("name", "\"\"", "name: must begin with a letter");
	check_value("name", "\"7\"", "name: must begin with a letter");
	check_value("name", "\"a/../b\"", "name: must begin");
	check_value("name", "\"a b\"", "name: must begin");
	check_value("name", "\"a.b_c-d9\"", NULL);
	check_value("name", "\"a123456789012345678901234567890123456789012345678901234567890123\"",
	        "name: longer than 63");
	check_value("uuid", "\"123e4567e89b12d3a456426614174000\"", "uuid: must look like");
	check_value("uuid", "\"123e4567-e89b-12d3-a456-42661417400\"", "uuid: must look like");
	check_value("kernel", "\"\"", "kernel: must be an absolute path");
}

static void test_too_many(void **state)
{
	char *json = malloc(DEFINITION_MAX_BYTES + 100);

	(void)state;
	strcpy(json, HEAD ",\"disks\":[");
	for (unsigned i = 0; i <= DEFINITION_MAX_DISKS; i++)
		strcat(json, i == 0 ? "{\"path\":\"/a\"}" : ",{\"path\":\"/a\"}");
	strcat(json, "]}");
	expect(json, "disks: at most 16");
	memset(json, ' ', DEFINITION_MAX_BYTES + 1);
	json[DEFINITION_MAX_BYTES + 1] = '\0';
	expect(json, "longer than");
	free(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_least),
	        cmocka_unit_test(test_whole),
	        cmocka_unit_test(test_what_is_wrong_is_named),
	        cmocka_unit_test(test_ranges),
	        cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
