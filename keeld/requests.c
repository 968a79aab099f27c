/* SPDX-License-Identifier: BSD-2-Clause */
/* What each request does, by a table of words (server.h lists them). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "keeld/log.h"
#include "keeld/server.h"

#define STOP_TIMEOUT_S     60u
#define STOP_TIMEOUT_MAX_S 86400.0

struct request {
	struct server *server;
	struct client *client;
	const cJSON *in;
	cJSON *out;
	bool later; /* the answer comes by itself */
};

__attribute__((format(printf, 2, 3))) static void refuse(
        struct request *request, const char *format, ...)
{
	char text[VMFILE_ERROR_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	cJSON_AddStringToObject(request->out, "error", text);
}

static const char *get_text(const struct request *request, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(request->in, key));
}

static bool definition_exists(const struct keeld *keeld, const char *name)
{
	char path[KEELD_PATH_BYTES];

	return settings_path(path, keeld->settings.definitions, name, ".conf") &&
	       access(path, F_OK) == 0;
}

/* NULL: refused. */
static struct vm *get_vm(struct request *request)
{
	struct keeld *keeld = request->server->keeld;
	const char *name = get_text(request, "name");
	struct vm *vm;

	if (name == NULL) {
		refuse(request, "the request has no \"name\"");
		return NULL;
	}
	vm = vm_find(keeld, name);
	if (vm == NULL && vmfile_is_name(name) && definition_exists(keeld, name))
		vm = vm_get(keeld, name);
	if (vm == NULL || (vm->state == VM_OFF && !definition_exists(keeld, name))) {
		refuse(request, "there is no VM %.64s; 'keel vm list' has those there are", name);
		return NULL;
	}
	return vm;
}

static void wait_for(struct request *request, struct vm *vm, enum vm_wish wish)
{
	request->client->waits_for = vm;
	request->client->wish = wish;
	request->later = true;
}

/* It was not begun. */
static void give_up(struct request *request, const struct vmfile_error *error)
{
	request->client->waits_for = NULL;
	request->later = false;
	refuse(request, "%s", error->text);
}

/* The wait is set up before, since the end may come within the call; `later` is false then. */
static void do_start(struct request *request)
{
	static struct vmfile_error error;
	struct vm *vm = get_vm(request);

	if (vm == NULL)
		return;
	wait_for(request, vm, VM_WISH_START);
	if (!vm_start(vm, &error))
		give_up(request, &error);
}

static void do_stop(struct request *request)
{
	static struct vmfile_error error;
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(request->in, "timeout_s");
	double timeout_s = item == NULL ? STOP_TIMEOUT_S : cJSON_GetNumberValue(item);
	struct vm *vm;

	if (!(timeout_s >= 0 && timeout_s <= STOP_TIMEOUT_MAX_S)) {
		refuse(request, "timeout_s must be from 0 to %.0f", STOP_TIMEOUT_MAX_S);
		return;
	}
	vm = get_vm(request);
	if (vm == NULL)
		return;
	wait_for(request, vm, VM_WISH_STOP);
	if (!vm_stop(vm, (unsigned)timeout_s, &error))
		give_up(request, &error);
}

static void do_kill(struct request *request)
{
	static struct vmfile_error error;
	struct vm *vm = get_vm(request);

	if (vm == NULL)
		return;
	wait_for(request, vm, VM_WISH_KILL);
	if (!vm_kill(vm, &error))
		give_up(request, &error);
}

static void do_upgrade(struct request *request)
{
	static struct vmfile_error error;
	struct vm *vm = get_vm(request);

	if (vm == NULL)
		return;
	wait_for(request, vm, VM_WISH_START);
	if (!vm_upgrade(vm, &error))
		give_up(request, &error);
}

/* Memory that others have now may be free later; more than there is at all never. */
static bool check_ever_fits(
        struct keeld *keeld, const struct vmfile *vm, struct vmfile_error *error)
{
	struct keel_hc_info info;
	struct vmfile_room room;

	if (keeld->hyp->info(keeld->hyp, &info) != 0)
		return true;
	room = (struct vmfile_room){info.pool_bytes, info.pool_bytes};
	return vmfile_check_room(vm, &room, error);
}

static void do_create(struct request *request)
{
	struct keeld *keeld = request->server->keeld;
	const char *file = get_text(request, "file"), *text = get_text(request, "text");
	char path[KEELD_PATH_BYTES];
	static struct vmfile_error error;
	static struct vmfile vm;
	int rc;

	if (file == NULL || text == NULL) {
		refuse(request, "the request needs \"file\" and \"text\"");
		return;
	}
	if (!vmfile_parse(file, text, strlen(text), &vm, &error) ||
	        !vmfile_check_files(&vm, false, &error) || !check_ever_fits(keeld, &vm, &error)) {
		refuse(request, "%s", error.text);
		return;
	}
	if (!settings_path(path, keeld->settings.definitions, vm.name, ".conf")) {
		refuse(request, "%s:%u: the name is too long; shorten it", file, vm.line.name);
		return;
	}
	rc = vm_find(keeld, vm.name) != NULL && vm_find(keeld, vm.name)->state != VM_OFF
	             ? -EEXIST
	             : record_write_file(path, text, strlen(text), false);
	if (rc == -EEXIST)
		refuse(request,
		        "%s:%u: there is a VM %s already (%s); give this one another name, or "
		        "'keel "
		        "vm delete %s' first",
		        file, vm.line.name, vm.name, path, vm.name);
	else if (rc != 0)
		refuse(request, "%s: %s", path, strerror(-rc));
	else
		cJSON_AddStringToObject(request->out, "name", vm.name);
	if (rc == 0)
		log_line("%s: made from %s", vm.name, file);
}

static void do_delete(struct request *request)
{
	struct keeld *keeld = request->server->keeld;
	struct vm *vm = get_vm(request);
	char path[KEELD_PATH_BYTES];

	if (vm == NULL)
		return;
	if (vm->state != VM_OFF) {
		refuse(request, "%s is %s; 'keel vm stop %s' first", vm->name, vm_state_name(vm),
		        vm->name);
		return;
	}
	if (!settings_path(path, keeld->settings.definitions, vm->name, ".conf") ||
	        unlink(path) != 0) {
		refuse(request, "%s: %s", path, strerror(errno));
		return;
	}
	log_line("%s: deleted", vm->name);
	vm_free(vm);
}

static const char *hyp_state_name(uint32_t state)
{
	switch (state) {
	case KEEL_VM_STATE_PAUSED: return "paused";
	case KEEL_VM_STATE_RUNNING: return "running";
	case KEEL_VM_STATE_RESET: return "resetting";
	case KEEL_VM_STATE_DEAD: return "dead";
	default: return "unknown";
	}
}

static void add_hyp_state(struct keeld *keeld, cJSON *entry, const struct vm *vm)
{
	struct keel_hc_vm_info info = {.head = {.vm = vm->id}};
	struct keel_hc_info hyp;

	if (keeld->hyp->vm_info(keeld->hyp, &info) != 0 || info.head.vm != vm->id)
		return;
	cJSON_AddNumberToObject(entry, "cpus", info.vcpus);
	cJSON_AddNumberToObject(
	        entry, "memory_bytes", (double)(info.ram_bytes - info.firmware_bytes));
	cJSON_AddStringToObject(entry, "hyp_state", hyp_state_name(info.state));
	cJSON_AddNumberToObject(entry, "exits_waiting", info.exits_waiting);
	cJSON_AddNumberToObject(entry, "resets", info.resets);
	if (keeld->hyp->info(keeld->hyp, &hyp) == 0 && hyp.tsc_hz != 0)
		cJSON_AddNumberToObject(
		        entry, "uptime_s", (double)((hyp.now_tsc - info.created_tsc) / hyp.tsc_hz));
}

/* file: its definition, or NULL. */
static void describe(struct keeld *keeld, cJSON *entry, const struct vm *vm, const char *name,
        const struct vmfile *file)
{
	bool is_there = vm != NULL && vm->id != 0;

	cJSON_AddStringToObject(entry, "name", name);
	cJSON_AddStringToObject(entry, "state", vm == NULL ? "off" : vm_state_name(vm));
	if (is_there) {
		cJSON_AddNumberToObject(entry, "id", vm->id);
		add_hyp_state(keeld, entry, vm);
		cJSON_AddNumberToObject(entry, "restarts", vm->restarts);
		if (vm->process.pid != 0)
			cJSON_AddNumberToObject(entry, "pid", vm->process.pid);
	} else if (file != NULL) {
		cJSON_AddNumberToObject(entry, "cpus", file->cpus);
		cJSON_AddNumberToObject(entry, "memory_bytes", (double)file->memory_bytes);
	}
	cJSON_AddBoolToObject(entry, "autostart", file != NULL && file->autostart);
	if (vm != NULL && vm->error[0] != '\0')
		cJSON_AddStringToObject(entry, "error", vm->error);
}

struct listing {
	struct keeld *keeld;
	cJSON *list;
};

static void list_one(void *ctx, const char *name, const char *path)
{
	static struct vmfile_error error;
	static struct vmfile file;
	const struct listing *listing = ctx;
	cJSON *entry = cJSON_CreateObject();
	bool good = vmfile_load(path, &file, &error);
	const struct vm *vm = vm_find(listing->keeld, name);

	describe(listing->keeld, entry, vm, name, good ? &file : NULL);
	if (!good && cJSON_GetObjectItemCaseSensitive(entry, "error") == NULL)
		cJSON_AddStringToObject(entry, "error", error.text);
	cJSON_AddItemToArray(listing->list, entry);
}

static void do_list(struct request *request)
{
	struct keeld *keeld = request->server->keeld;
	struct listing listing = {keeld, cJSON_AddArrayToObject(request->out, "vms")};

	keeld_each_definition(keeld, list_one, &listing);
	/* And those whose file is gone, or that somebody else made. */
	for (const struct vm *vm = keeld->vms; vm != NULL; vm = vm->next)
		if (vm->state != VM_OFF && !definition_exists(keeld, vm->name)) {
			cJSON *entry = cJSON_CreateObject();

			describe(keeld, entry, vm, vm->name, NULL);
			cJSON_AddItemToArray(listing.list, entry);
		}
}

static void do_show(struct request *request)
{
	struct keeld *keeld = request->server->keeld;
	static struct vmfile_error error;
	static struct vmfile file;
	struct vm *vm = get_vm(request);
	char path[KEELD_PATH_BYTES];
	bool good = false;
	cJSON *entry;

	if (vm == NULL)
		return;
	/* Of a VM that is there, what it was made of. */
	if (vm->id != 0 && vm->known) {
		file = vm->file;
		good = true;
	} else if (settings_path(path, keeld->settings.definitions, vm->name, ".conf")) {
		good = vmfile_load(path, &file, &error);
	}
	entry = cJSON_AddObjectToObject(request->out, "vm");
	describe(keeld, entry, vm, vm->name, good ? &file : NULL);
	if (good) {
		vmfile_fill_identity(&file, keeld->settings.seed);
		cJSON_AddItemToObject(request->out, "definition", vmfile_to_json(&file));
	} else if (vm->id == 0) {
		refuse(request, "%s", error.text);
	}
}

static const struct {
	const char *word;
	void (*act)(struct request *request);
} words[] = {
        {"create", do_create},
        {"delete", do_delete},
        {"start", do_start},
        {"stop", do_stop},
        {"kill", do_kill},
        {"upgrade", do_upgrade},
        {"list", do_list},
        {"show", do_show},
};

struct cJSON *server_answer(struct server *server, struct client *client, const char *line)
{
	cJSON *in = cJSON_Parse(line);
	struct request request = {server, client, in, cJSON_CreateObject(), false};
	const char *word = get_text(&request, "cmd");
	size_t i = 0, count = sizeof(words) / sizeof(words[0]);

	while (word != NULL && i < count && strcmp(word, words[i].word) != 0)
		i++;
	if (word == NULL)
		refuse(&request, "a request is {\"cmd\": WORD, …} on one line");
	else if (i == count)
		refuse(&request, "unknown cmd '%.40s'", word);
	else
		words[i].act(&request);
	cJSON_Delete(in);
	if (!request.later)
		return request.out;
	cJSON_Delete(request.out);
	return NULL;
}
