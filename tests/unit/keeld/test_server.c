/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's socket: who may have it, and what each request gets. */
/* sources: keeld/vm.c keeld/vm_parts.c keeld/keeld.c keeld/record.c keeld/loop.c keeld/process.c */
/* sources: keeld/link.c keeld/log.c keeld/server.c keeld/requests.c config/conf.c config/vmfile.c
 */
/* sources: config/vmfile_json.c config/vmfile_check.c lib/elf_host.c lib/cmdline.c */
/* libs: -lcjson */
#include "tests/unit/keeld/rig.h"

#include "keeld/server.h"

static struct server server;
static char error[512];

static void open_server(void)
{
	if (server_lock(&server, &keeld, error, sizeof(error)) != 0 ||
	        server_open(&server, error, sizeof(error)) != 0)
		fail_msg("%s", error);
}

static int connect_client(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, server.path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

/* One whole line of the answer; NULL: the connection was closed. */
static cJSON *hear(int fd)
{
	static char line[65536];
	uint64_t end_ns = loop_now_ns() + LIMIT_NS;
	size_t used = 0;
	cJSON *answer;

	while (used == 0 || line[used - 1] != '\n') {
		ssize_t got = recv(fd, line + used, 1, 0);

		if (got == 0)
			return NULL;
		if (got > 0)
			used++;
		else
			loop_step(&keeld.loop, 20);
		if (loop_now_ns() > end_ns)
			fail_msg("no answer");
	}
	line[used] = '\0';
	answer = cJSON_Parse(line);
	assert_non_null(answer);
	return answer;
}

/* The error of the answer; "" if there is none. */
static const char *ask(int fd, const char *request)
{
	static char text[VMFILE_ERROR_BYTES];
	const char *found;
	cJSON *answer;

	say(fd, request);
	say(fd, "\n");
	answer = hear(fd);
	assert_non_null(answer);
	found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "error"));
	snprintf(text, sizeof(text), "%s", found != NULL ? found : "");
	assert_int_equal(
	        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "ok")), found == NULL);
	cJSON_Delete(answer);
	return text;
}

static const char *create(int fd, const char *file, const char *name)
{
	char request[1024];

	snprintf(request, sizeof(request),
	        "{\"cmd\":\"create\",\"file\":\"%s\",\"text\":"
	        "\"name = %s\\nmemory = 64M\\nkernel = %s/bzImage\\n\"}",
	        file, name, dir);
	return ask(fd, request);
}

static void test_one_daemon(void **state)
{
	struct server second;

	(void)state;
	open_server();
	assert_int_equal(server_lock(&second, &keeld, error, sizeof(error)), -EBUSY);
	assert_has(error, "keeld runs already (it holds ");
	server_close(&server);
	assert_false(rig_exists("run/keel/%s", "keeld.sock"));
	/* What a killed one leaves is no hindrance. */
	open_server();
	loop_remove(&keeld.loop, &server.listener);
	close(server.listener.fd);
	close(server.lock);
	assert_true(rig_exists("run/keel/%s", "keeld.sock"));
	open_server();
	close(connect_client());
	server_close(&server);
}

static void test_foreign_path(void **state)
{
	char path[128], target[128];

	(void)state;
	rig_write("run/keel/keeld.sock", "precious");
	assert_int_equal(server_lock(&server, &keeld, error, sizeof(error)), 0);
	assert_int_equal(server_open(&server, error, sizeof(error)), -EEXIST);
	assert_has(error, "is in the way and is no socket");
	assert_true(rig_exists("run/keel/%s", "keeld.sock"));
	server_close(&server);
	assert_true(rig_exists("run/keel/%s", "keeld.sock"));
	/* A link, also one to nothing, is not followed. */
	snprintf(path, sizeof(path), "%s/run/keel/keeld.sock", dir);
	snprintf(target, sizeof(target), "%s/target", dir);
	unlink(path);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(server_lock(&server, &keeld, error, sizeof(error)), 0);
	assert_int_equal(server_open(&server, error, sizeof(error)), -EEXIST);
	server_close(&server);
	assert_false(rig_exists("%s", "target"));
	/* Nor for the lock. */
	unlink(path);
	snprintf(path, sizeof(path), "%s/run/keel/keeld.lock", dir);
	unlink(path);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(server_lock(&server, &keeld, error, sizeof(error)), -ELOOP);
	assert_false(rig_exists("%s", "target"));
}

static void test_create(void **state)
{
	int fd;

	(void)state;
	open_server();
	fd = connect_client();
	assert_string_equal(create(fd, "web.conf", "web"), "");
	assert_true(rig_exists("etc/keel/vm/%s.conf", "web"));
	assert_false(rig_exists("etc/keel/vm/%s", "web.conf.new"));
	assert_has(create(fd, "other.conf", "web"), "other.conf:1: there is a VM web already");
	assert_has(create(fd, "x.conf", "../x"), "x.conf:1: '../x' is no name for a VM");
	assert_has(
	        ask(fd, "{\"cmd\":\"create\",\"file\":\"y.conf\",\"text\":\"name = y\\nx = 1\"}"),
	        "y.conf:2: unknown key 'x'");
	assert_has(ask(fd, "{\"cmd\":\"create\",\"file\":\"y.conf\",\"text\":"
	                   "\"name = y\\nmemory = 64M\\nkernel = /etc/passwd\"}"),
	        "y.conf:3: kernel /etc/passwd is no bzImage");
	assert_has(ask(fd, "{\"cmd\":\"create\",\"text\":\"name = y\"}"), "needs \"file\" and");
	assert_false(rig_exists("etc/keel/vm/%s.conf", "y"));
	/* More than there is at all; what others have now may be free later. */
	rig.pool_free = 0;
	assert_string_equal(create(fd, "late.conf", "late"), "");
	assert_has(ask(fd, "{\"cmd\":\"start\",\"name\":\"late\"}"), "of the pool, which has 0 of");
	close(fd);
	server_close(&server);
}

static void test_create_larger_than_pool(void **state)
{
	char request[512];
	int fd;

	(void)state;
	open_server();
	fd = connect_client();
	snprintf(request, sizeof(request),
	        "{\"cmd\":\"create\",\"file\":\"f\",\"text\":"
	        "\"name = y\\nmemory = 1G\\nkernel = %s/bzImage\"}",
	        dir);
	assert_has(ask(fd, request), "f:2: the VM needs 1026 MiB of the pool, which has 1024 of");
	close(fd);
	server_close(&server);
}

static void test_life(void **state)
{
	const cJSON *list, *vm, *definition;
	cJSON *answer;
	int fd;

	(void)state;
	open_server();
	fd = connect_client();
	assert_string_equal(create(fd, "a.conf", "a"), "");
	assert_string_equal(create(fd, "b.conf", "b"), "");
	assert_string_equal(ask(fd, "{\"cmd\":\"start\",\"name\":\"b\"}"), "");
	assert_has(ask(fd, "{\"cmd\":\"start\",\"name\":\"b\"}"), "b is running already");
	assert_has(
	        ask(fd, "{\"cmd\":\"delete\",\"name\":\"b\"}"), "b is running; 'keel vm stop b'");
	say(fd, "{\"cmd\":\"list\"}\n");
	answer = hear(fd);
	list = cJSON_GetObjectItemCaseSensitive(answer, "vms");
	assert_int_equal(cJSON_GetArraySize(list), 2);
	vm = cJSON_GetArrayItem(list, 0);
	assert_string_equal(cJSON_GetObjectItem(vm, "name")->valuestring, "a");
	assert_string_equal(cJSON_GetObjectItem(vm, "state")->valuestring, "off");
	assert_null(cJSON_GetObjectItem(vm, "id"));
	vm = cJSON_GetArrayItem(list, 1);
	assert_string_equal(cJSON_GetObjectItem(vm, "state")->valuestring, "running");
	assert_int_equal(cJSON_GetObjectItem(vm, "id")->valueint, 1);
	assert_int_equal(cJSON_GetObjectItem(vm, "uptime_s")->valueint, 5);
	cJSON_Delete(answer);
	say(fd, "{\"cmd\":\"show\",\"name\":\"b\"}\n");
	answer = hear(fd);
	definition = cJSON_GetObjectItemCaseSensitive(answer, "definition");
	assert_int_equal(cJSON_GetObjectItem(definition, "memory_bytes")->valueint, 64 << 20);
	assert_int_equal(cJSON_GetObjectItem(definition, "weight")->valueint, 100);
	cJSON_Delete(answer);
	assert_string_equal(ask(fd, "{\"cmd\":\"stop\",\"name\":\"b\",\"timeout_s\":30}"), "");
	assert_has(ask(fd, "{\"cmd\":\"stop\",\"name\":\"b\"}"), "b is off");
	assert_string_equal(ask(fd, "{\"cmd\":\"delete\",\"name\":\"b\"}"), "");
	assert_has(ask(fd, "{\"cmd\":\"show\",\"name\":\"b\"}"), "there is no VM b");
	assert_nothing_left();
	close(fd);
	server_close(&server);
}

static void test_bad_requests(void **state)
{
	int fd;

	(void)state;
	open_server();
	fd = connect_client();
	assert_has(ask(fd, "rubbish"), "a request is {\"cmd\": WORD");
	assert_has(ask(fd, "[]"), "a request is {\"cmd\": WORD");
	assert_has(ask(fd, "{\"cmd\":7}"), "a request is {\"cmd\": WORD");
	assert_has(ask(fd, ""), "a request is {\"cmd\": WORD");
	assert_has(ask(fd, "{\"cmd\":\"dance\"}"), "unknown cmd 'dance'");
	assert_has(ask(fd, "{\"cmd\":\"start\"}"), "has no \"name\"");
	assert_has(ask(fd, "{\"cmd\":\"start\",\"name\":\"x\"}"), "there is no VM x");
	assert_has(ask(fd, "{\"cmd\":\"kill\",\"name\":\"../../x\"}"), "there is no VM ../../x");
	assert_has(ask(fd, "{\"cmd\":\"stop\",\"name\":\"x\",\"timeout_s\":-1}"), "timeout_s must");
	assert_has(
	        ask(fd, "{\"cmd\":\"stop\",\"name\":\"x\",\"timeout_s\":\"1\"}"), "timeout_s must");
	close(fd);
	server_close(&server);
}

/* A line that never ends costs its client the connection, and nobody else anything. */
static void test_endless_line(void **state)
{
	static char junk[4096];
	int fd, other;
	size_t sent = 0;
	ssize_t got;

	(void)state;
	memset(junk, 'x', sizeof(junk));
	open_server();
	fd = connect_client();
	while (sent < 2 * SERVER_LINE_BYTES) {
		got = send(fd, junk, sizeof(junk), MSG_NOSIGNAL);
		if (got < 0 && errno != EAGAIN)
			break;
		sent += got > 0 ? (size_t)got : 0;
		loop_step(&keeld.loop, 0);
	}
	assert_true(sent < 2 * SERVER_LINE_BYTES);
	other = connect_client();
	assert_has(ask(other, "{\"cmd\":\"dance\"}"), "unknown cmd");
	close(fd);
	close(other);
	server_close(&server);
}

/* Requests sent at once are answered in order, also when one has to wait, or ends within the call.
 */
static void test_pipeline(void **state)
{
	static const bool wanted[] = {true, true, true, false, true, true, false};
	int fd;

	(void)state;
	open_server();
	fd = connect_client();
	assert_string_equal(create(fd, "a.conf", "a"), "");
	say(fd, "{\"cmd\":\"start\",\"name\":\"a\"}\n{\"cmd\":\"list\"}\n"
	        "{\"cmd\":\"kill\",\"name\":\"a\"}\n{\"cmd\":\"kill\",\"name\":\"a\"}\n"
	        "{\"cmd\":\"start\",\"name\":\"a\"}\n{\"cmd\":\"stop\",\"name\":\"a\"}\n"
	        "{\"cmd\":\"stop\",\"name\":\"a\"}\n");
	for (size_t i = 0; i < sizeof(wanted); i++) {
		cJSON *answer = hear(fd);

		assert_non_null(answer);
		assert_int_equal(
		        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "ok")), wanted[i]);
		cJSON_Delete(answer);
	}
	assert_nothing_left();
	close(fd);
	server_close(&server);
}

/* Killed while it has no device process: the answer comes within the request. */
static void test_answer_within_request(void **state)
{
	struct vm *vm;
	int fd;

	(void)state;
	open_server();
	fd = connect_client();
	assert_string_equal(create(fd, "a.conf", "a"), "");
	assert_string_equal(ask(fd, "{\"cmd\":\"start\",\"name\":\"a\"}"), "");
	vm = vm_find(&keeld, "a");
	rig_write("fake", "button=4");
	assert_has(ask(fd, "{\"cmd\":\"stop\",\"name\":\"a\"}"), "a vCPU cannot go on");
	assert_int_equal(vm->state, VM_DEAD);
	say(fd, "{\"cmd\":\"kill\",\"name\":\"a\"}\n{\"cmd\":\"dance\"}\n");
	for (unsigned i = 0; i < 2; i++) {
		cJSON *answer = hear(fd);

		assert_int_equal(
		        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "ok")), i == 0);
		cJSON_Delete(answer);
	}
	assert_nothing_left();
	close(fd);
	server_close(&server);
}

/* Who waits may go; the VM starts all the same. Several may wait for one thing. */
static void test_waiting_clients(void **state)
{
	int first, second, third;
	cJSON *answer;

	(void)state;
	open_server();
	first = connect_client();
	second = connect_client();
	third = connect_client();
	assert_string_equal(create(first, "a.conf", "a"), "");
	say(first, "{\"cmd\":\"start\",\"name\":\"a\"}\n");
	rig_until(vm_find(&keeld, "a") != NULL && vm_find(&keeld, "a")->id != 0);
	close(first);
	rig_until(vm_find(&keeld, "a")->state == VM_RUNNING);
	rig_write("fake", "button=no");
	say(second, "{\"cmd\":\"stop\",\"name\":\"a\",\"timeout_s\":60}\n");
	rig_until(vm_find(&keeld, "a")->stop_wanted);
	say(third, "{\"cmd\":\"kill\",\"name\":\"a\"}\n");
	answer = hear(third);
	assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "ok")));
	cJSON_Delete(answer);
	answer = hear(second);
	assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "ok")));
	cJSON_Delete(answer);
	assert_nothing_left();
	close(second);
	close(third);
	server_close(&server);
}

/* More clients than there is room for are turned away, and room is made again. */
static void test_too_many_clients(void **state)
{
	int fds[SERVER_CLIENTS + 1];

	(void)state;
	open_server();
	for (unsigned i = 0; i <= SERVER_CLIENTS; i++) {
		fds[i] = connect_client();
		loop_step(&keeld.loop, 20);
	}
	assert_null(hear(fds[SERVER_CLIENTS]));
	close(fds[SERVER_CLIENTS]);
	assert_has(ask(fds[0], "{\"cmd\":\"dance\"}"), "unknown cmd");
	close(fds[0]);
	loop_step(&keeld.loop, 20);
	fds[0] = connect_client();
	assert_has(ask(fds[0], "{\"cmd\":\"dance\"}"), "unknown cmd");
	for (unsigned i = 0; i < SERVER_CLIENTS; i++)
		close(fds[i]);
	server_close(&server);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        TEST(test_one_daemon),
	        TEST(test_foreign_path),
	        TEST(test_create),
	        TEST(test_create_larger_than_pool),
	        TEST(test_life),
	        TEST(test_bad_requests),
	        TEST(test_endless_line),
	        TEST(test_pipeline),
	        TEST(test_answer_within_request),
	        TEST(test_waiting_clients),
	        TEST(test_too_many_clients),
	};

	RIG_MAIN(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
