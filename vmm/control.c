/* SPDX-License-Identifier: BSD-2-Clause */
/* Takes the operator's requests by a table of words (control.h lists them). */
#include "vmm/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "vmm/log.h"

static int refuse(char *error, size_t error_bytes, const char *path, const char *why, int code)
{
	snprintf(error, error_bytes, "%s: %s", path, why);
	return code;
}

/* A socket that nobody listens at any more is removed; everything else stays. */
static int clear_path(const struct sockaddr_un *address, char *error, size_t error_bytes)
{
	const char *path = address->sun_path;
	struct stat info;
	int fd, rc;

	if (lstat(path, &info) != 0)
		return errno == ENOENT ? 0
		                       : refuse(error, error_bytes, path, strerror(errno), -errno);
	if (!S_ISSOCK(info.st_mode))
		return refuse(error, error_bytes, path, "is in the way and no socket", -EEXIST);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return refuse(error, error_bytes, path, strerror(errno), -errno);
	rc = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : -errno;
	close(fd);
	if (rc != -ECONNREFUSED)
		return refuse(
		        error, error_bytes, path, "another process listens there", -EADDRINUSE);
	return unlink(path) == 0 ? 0 : refuse(error, error_bytes, path, strerror(errno), -errno);
}

int control_open(struct control *control, struct machine *machine, const char *path, char *error,
        size_t error_bytes)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t mask;
	int rc;

	control->machine = machine;
	control->listener = -1;
	for (unsigned i = 0; i < CONTROL_CLIENTS; i++)
		control->clients[i].fd = -1;
	if (strlen(path) >= sizeof(address.sun_path))
		return refuse(
		        error, error_bytes, path, "too long for a socket's path", -ENAMETOOLONG);
	strcpy(address.sun_path, path);
	rc = clear_path(&address, error, error_bytes);
	if (rc != 0)
		return rc;
	control->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (control->listener < 0)
		return refuse(error, error_bytes, path, strerror(errno), -errno);
	mask = umask(0177);
	rc = bind(control->listener, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
	                     listen(control->listener, CONTROL_CLIENTS) == 0
	             ? 0
	             : -errno;
	umask(mask);
	if (rc == 0)
		return 0;
	close(control->listener);
	control->listener = -1;
	return refuse(error, error_bytes, path, strerror(-rc), rc);
}

static const char *state_name(const struct machine *machine)
{
	struct keel_hc_vm_info info;

	if (machine->state.boot_state == MACHINE_STOPPED)
		return "off";
	if (machine->hv->ops->info(machine->hv, &info) != 0)
		return "unknown";
	switch (info.state) {
	case KEEL_VM_STATE_PAUSED: return "paused";
	case KEEL_VM_STATE_RUNNING: return "running";
	case KEEL_VM_STATE_RESET: return "resetting";
	case KEEL_VM_STATE_DEAD: return "dead";
	default: return "unknown";
	}
}

static enum control_wish do_status(struct control *control, const cJSON *request, cJSON *answer)
{
	const struct machine *machine = control->machine;
	cJSON *devices = cJSON_AddArrayToObject(answer, "devices");

	(void)request;

	cJSON_AddStringToObject(answer, "name", machine->definition.name);
	cJSON_AddNumberToObject(answer, "id", machine->hv->vm);
	cJSON_AddNumberToObject(answer, "pid", (double)getpid());
	cJSON_AddStringToObject(answer, "state", state_name(machine));
	cJSON_AddNumberToObject(answer, "boots", machine->state.boots);
	for (unsigned i = 0; i < machine->device_count; i++)
		cJSON_AddItemToArray(devices, cJSON_CreateString(machine->devices[i]->dev->name));
	return CONTROL_NOTHING;
}

static void add_disk_stats(cJSON *entry, const struct virtio_device_stats *stats)
{
	cJSON_AddStringToObject(entry, "backend", stats->backend);
	cJSON_AddNumberToObject(entry, "size_bytes", (double)stats->size_bytes);
	cJSON_AddNumberToObject(entry, "reads", (double)stats->reads);
	cJSON_AddNumberToObject(entry, "writes", (double)stats->writes);
	cJSON_AddNumberToObject(entry, "flushes", (double)stats->flushes);
	cJSON_AddNumberToObject(entry, "polled", (double)stats->polled);
	cJSON_AddNumberToObject(entry, "held", (double)stats->held);
	cJSON_AddNumberToObject(entry, "in_flight", (double)stats->in_flight);
	cJSON_AddNumberToObject(entry, "watch_hits", (double)stats->watch_hits);
	cJSON_AddNumberToObject(entry, "watch_misses", (double)stats->watch_misses);
	cJSON_AddNumberToObject(entry, "resumed", (double)stats->resumed);
}

static void add_device_stats(cJSON *devices, const struct virtio_pci *vp)
{
	struct virtio_device_stats stats = {0};
	cJSON *entry = cJSON_CreateObject();

	if (vp->dev->ops->stats != NULL)
		vp->dev->ops->stats(vp->dev, &stats);
	cJSON_AddStringToObject(entry, "name", vp->dev->name);
	cJSON_AddNumberToObject(entry, "requests", (double)stats.requests);
	cJSON_AddNumberToObject(entry, "bytes_in", (double)stats.bytes_in);
	cJSON_AddNumberToObject(entry, "bytes_out", (double)stats.bytes_out);
	cJSON_AddNumberToObject(entry, "errors", (double)stats.errors);
	cJSON_AddNumberToObject(entry, "kicks", (double)stats.kicks);
	cJSON_AddNumberToObject(entry, "calls", (double)stats.calls);
	cJSON_AddNumberToObject(entry, "waits", (double)stats.waits);
	cJSON_AddNumberToObject(entry, "time_ns", (double)stats.time_ns);
	cJSON_AddNumberToObject(entry, "slow_kicks", (double)vp->slow_kicks);
	if (stats.backend != NULL)
		add_disk_stats(entry, &stats);
	cJSON_AddItemToArray(devices, entry);
}

static enum control_wish do_stats(struct control *control, const cJSON *request, cJSON *answer)
{
	static const char *const names[] = {
	        [KEEL_EXIT_PIO_READ] = "pio_reads",
	        [KEEL_EXIT_PIO_WRITE] = "pio_writes",
	        [KEEL_EXIT_MMIO_READ] = "mmio_reads",
	        [KEEL_EXIT_MMIO_WRITE] = "mmio_writes",
	};
	const struct machine *machine = control->machine;
	cJSON *devices;

	(void)request;

	for (unsigned i = 1; i < sizeof(names) / sizeof(names[0]); i++)
		cJSON_AddNumberToObject(answer, names[i], (double)machine->stats.exits[i]);
	cJSON_AddNumberToObject(answer, "unclaimed", (double)machine->stats.unclaimed);
	cJSON_AddNumberToObject(answer, "resets", (double)machine->stats.resets);
	cJSON_AddNumberToObject(answer, "triple_faults", (double)machine->stats.triple_faults);
	devices = cJSON_AddArrayToObject(answer, "devices");
	for (unsigned i = 0; i < machine->device_count; i++)
		add_device_stats(devices, machine->devices[i]);
	return CONTROL_NOTHING;
}

static void resize_device(struct virtio_device *dev, cJSON *answer)
{
	uint64_t bytes = 0;
	char line[128];
	int rc = dev->ops->resize(dev, &bytes);

	if (rc < 0) {
		snprintf(line, sizeof(line), "%s: its size cannot be read: %s", dev->name,
		        strerror(-rc));
		cJSON_AddStringToObject(answer, "error", line);
		return;
	}
	if (rc > 0)
		log_line("%s: has %llu bytes now", dev->name, (unsigned long long)bytes);
	cJSON_AddNumberToObject(answer, "size_bytes", (double)bytes);
	cJSON_AddBoolToObject(answer, "changed", rc > 0);
}

static enum control_wish do_resize(struct control *control, const cJSON *request, cJSON *answer)
{
	const char *name = cJSON_GetStringValue(
	        cJSON_GetObjectItemCaseSensitive(request, "device"));
	const struct machine *machine = control->machine;

	for (unsigned i = 0; name != NULL && i < machine->device_count; i++) {
		struct virtio_device *dev = machine->devices[i]->dev;

		if (strcmp(dev->name, name) != 0 || dev->ops->resize == NULL)
			continue;
		resize_device(dev, answer);
		return CONTROL_NOTHING;
	}
	cJSON_AddStringToObject(answer, "error",
	        "no such disk; they are disk0, disk1, … in the order of the VM's file");
	return CONTROL_NOTHING;
}

static enum control_wish do_power_button(
        struct control *control, const cJSON *request, cJSON *answer)
{
	(void)request;
	(void)answer;
	machine_press_power_button(control->machine);
	return CONTROL_NOTHING;
}

static enum control_wish do_reset(struct control *control, const cJSON *request, cJSON *answer)
{
	char error[512];

	(void)request;

	if (machine_reset(control->machine, error, sizeof(error)) != 0)
		cJSON_AddStringToObject(answer, "error", error);
	return CONTROL_NOTHING;
}

static enum control_wish do_power_off(struct control *control, const cJSON *request, cJSON *answer)
{
	(void)request;
	(void)answer;
	machine_stop(control->machine);
	return CONTROL_OFF;
}

static enum control_wish do_quit(struct control *control, const cJSON *request, cJSON *answer)
{
	(void)request;
	(void)control;
	(void)answer;
	return CONTROL_QUIT;
}

static const struct {
	const char *word;
	enum control_wish (*act)(struct control *control, const cJSON *request, cJSON *answer);
} commands[] = {
        {"status", do_status},
        {"stats", do_stats},
        {"resize", do_resize},
        {"powerbutton", do_power_button},
        {"reset", do_reset},
        {"poweroff", do_power_off},
        {"quit", do_quit},
};

static enum control_wish run_command(struct control *control, const char *line, cJSON *answer)
{
	cJSON *request = cJSON_Parse(line);
	const char *word = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(request, "cmd"));
	enum control_wish wish = CONTROL_NOTHING;
	size_t i = 0, count = sizeof(commands) / sizeof(commands[0]);

	while (word != NULL && i < count && strcmp(word, commands[i].word) != 0)
		i++;
	if (word == NULL)
		cJSON_AddStringToObject(
		        answer, "error", "a request is {\"cmd\": WORD} on one line");
	else if (i == count)
		cJSON_AddStringToObject(answer, "error", "unknown cmd");
	else
		wish = commands[i].act(control, request, answer);
	cJSON_Delete(request);
	return wish;
}

static void drop(struct control_client *client)
{
	close(client->fd);
	client->fd = -1;
}

static enum control_wish answer_line(
        struct control *control, struct control_client *client, const char *line)
{
	cJSON *answer = cJSON_CreateObject();
	enum control_wish wish = run_command(control, line, answer);
	size_t bytes;
	char *text;

	cJSON_AddBoolToObject(
	        answer, "ok", cJSON_GetObjectItemCaseSensitive(answer, "error") == NULL);
	text = cJSON_PrintUnformatted(answer);
	cJSON_Delete(answer);
	if (text == NULL) {
		drop(client);
		return wish;
	}
	bytes = strlen(text);
	text[bytes++] = '\n'; /* in place of the final 0 */
	if (send(client->fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)bytes)
		drop(client);
	cJSON_free(text);
	return wish;
}

int control_accept(struct control *control)
{
	int fd = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -1;
	for (unsigned i = 0; i < CONTROL_CLIENTS; i++)
		if (control->clients[i].fd < 0) {
			control->clients[i].fd = fd;
			control->clients[i].used = 0;
			return (int)i;
		}
	close(fd);
	return -1;
}

enum control_wish control_serve(struct control *control, unsigned index)
{
	struct control_client *client = &control->clients[index];
	enum control_wish wish = CONTROL_NOTHING;
	size_t room = sizeof(client->line) - 1 - client->used;
	ssize_t got = recv(client->fd, client->line + client->used, room, 0);
	char *end;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return wish;
	if (got <= 0) {
		drop(client);
		return wish;
	}
	client->used += (size_t)got;
	client->line[client->used] = '\0';
	while (wish == CONTROL_NOTHING && client->fd >= 0 &&
	        (end = memchr(client->line, '\n', client->used)) != NULL) {
		size_t bytes = (size_t)(end + 1 - client->line);

		*end = '\0';
		wish = answer_line(control, client, client->line);
		client->used -= bytes;
		memmove(client->line, end + 1, client->used);
	}
	/* A line that never ends. */
	if (client->fd >= 0 && client->used == sizeof(client->line) - 1)
		drop(client);
	return wish;
}
