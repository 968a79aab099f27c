/* SPDX-License-Identifier: BSD-2-Clause */
/* The state machine of vm.h: what begins a step, and what its end leads to. */
#include "keeld/vm.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "keeld/keeld.h"
#include "keeld/log.h"
#include "keeld/vm_parts.h"

/* What keelvm ends with (vmm/run.h). */
#define KEELVM_OFF      0
#define KEELVM_ERROR    1
#define KEELVM_DETACHED 3
#define KEELVM_DEAD     4

#define VM_OF(pointer, member)                                                                     \
	((struct vm *)(void *)((char *)(pointer)-offsetof(struct vm, member)))

/* On the way to the first RUNNING it also is how a failure takes everything back. */
static void end_begin(struct vm *vm);

const char *vm_state_name(const struct vm *vm)
{
	static const char *const names[] = {
	        [VM_OFF] = "off",
	        [VM_FORMATTING] = "starting",
	        [VM_STARTING] = "starting",
	        [VM_RUNNING] = "running",
	        [VM_WAITING] = "reattaching",
	        [VM_PRESERVED] = "preserved",
	        [VM_DEAD] = "dead",
	        [VM_ENDING] = "ending",
	        [VM_BROKEN] = "broken",
	};

	if (vm->state == VM_RUNNING && vm->stop_wanted)
		return "stopping";
	/* The VM itself runs on. */
	if (vm->state == VM_STARTING && !vm->fresh)
		return "reattaching";
	return names[vm->state];
}

__attribute__((format(printf, 2, 3))) static bool refuse(
        struct vmfile_error *error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return false;
}

__attribute__((format(printf, 2, 3))) static void remember(struct vm *vm, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(vm->error, sizeof(vm->error), format, args);
	va_end(args);
	log_line("%s: %s", vm->name, vm->error);
}

static void tell(struct vm *vm, enum vm_wish wish, const char *error)
{
	if (vm->keeld->done != NULL)
		vm->keeld->done(vm->keeld, vm, wish, error);
}

/* ---- the way to RUNNING ---- */

static bool serve_begin(struct vm *vm)
{
	int rc;

	vm->state = VM_STARTING;
	rc = vm_spawn(vm, false);
	vm->restart = false;
	if (rc != 0) {
		remember(vm, "cannot start %s: %s", vm->keeld->settings.keelvm, strerror(-rc));
		return false;
	}
	loop_timer_set(&vm->keeld->loop, &vm->retry, vm->keeld->settings.connect_ns);
	return true;
}

static void press_button(struct vm *vm)
{
	if (link_ask(&vm->link, "powerbutton") == 0)
		log_line("%s: power button pressed", vm->name);
	loop_timer_set(&vm->keeld->loop, &vm->button, vm->keeld->settings.press_again_ns);
}

static void on_button(struct loop_timer *timer)
{
	struct vm *vm = VM_OF(timer, button);

	/* If not, then when it is served again. */
	if (vm->stop_wanted && vm->state == VM_RUNNING)
		press_button(vm);
}

/* Nobody waits for the guest to switch itself off any more. */
static void drop_stop(struct vm *vm)
{
	vm->stop_wanted = false;
	loop_timer_clear(&vm->keeld->loop, &vm->stop_limit);
	loop_timer_clear(&vm->keeld->loop, &vm->button);
}

static void set_running(struct vm *vm)
{
	vm->state = VM_RUNNING;
	vm->fresh = false;
	vm->served_ns = loop_now_ns();
	vm->error[0] = '\0';
	loop_timer_clear(&vm->keeld->loop, &vm->start_limit);
	log_line("%s: VM %u is served by process %d", vm->name, vm->id, (int)vm->process.pid);
	tell(vm, VM_WISH_START, NULL);
	if (vm->stop_wanted)
		press_button(vm);
}

/* Waits, longer each time, and then starts a device process; until then the VM runs on alone. */
static void wait_begin(struct vm *vm)
{
	const struct settings *settings = &vm->keeld->settings;
	uint64_t pause = 0;

	if (loop_now_ns() - vm->served_ns > settings->stable_ns && vm->served_ns != 0)
		vm->failures = 0;
	if (vm->failures > 0)
		pause = settings->backoff_ns << (vm->failures < 20 ? vm->failures - 1 : 19);
	if (pause > settings->backoff_max_ns)
		pause = settings->backoff_max_ns;
	vm->state = VM_WAITING;
	vm->failures++;
	vm->restarts++;
	vm->served_ns = 0;
	loop_timer_set(&vm->keeld->loop, &vm->retry, pause);
}

/* ---- the way to OFF ---- */

static void set_off(struct vm *vm)
{
	struct vmfile_error error;

	vm_forget_parts(vm);
	vm->id = 0;
	vm->known = false;
	vm->state = VM_OFF;
	vm->failures = vm->restarts = 0;
	drop_stop(vm);
	log_line("%s: off", vm->name);
	/* vm->error says why, if it is a start that failed. */
	snprintf(error.text, sizeof(error.text), "%s",
	        vm->error[0] != '\0' ? vm->error : "it was killed while it started");
	if (vm->fresh)
		tell(vm, VM_WISH_START, error.text);
	tell(vm, VM_WISH_STOP, NULL);
	tell(vm, VM_WISH_KILL, NULL);
}

static void destroy(struct vm *vm)
{
	const struct settings *settings = &vm->keeld->settings;
	int rc = vm->id == 0 ? 0 : vm->keeld->hyp->vm_destroy(vm->keeld->hyp, vm->id);

	/* -ENOENT: somebody else did it. */
	if (rc == 0 || rc == -ENOENT) {
		set_off(vm);
		return;
	}
	if (rc == -EBUSY && ++vm->tries < settings->destroy_tries) {
		loop_timer_set(&vm->keeld->loop, &vm->retry, settings->destroy_retry_ns);
		return;
	}
	vm->state = VM_BROKEN;
	remember(vm, "hyp does not free VM %u: %s%s", vm->id, strerror(-rc),
	        rc == -EBUSY ? "; another process has it open: end that, then 'keel vm kill' again"
	                     : "");
	if (vm->fresh)
		tell(vm, VM_WISH_START, vm->error);
	tell(vm, VM_WISH_STOP, vm->error);
	tell(vm, VM_WISH_KILL, vm->error);
}

/* From any state. The device process goes first, since its mappings keep the partition. */
static void end_begin(struct vm *vm)
{
	struct loop *loop = &vm->keeld->loop;

	vm->state = VM_ENDING;
	vm->tries = 0;
	loop_timer_clear(loop, &vm->retry);
	loop_timer_clear(loop, &vm->start_limit);
	link_close(&vm->link);
	if (vm->process.pid != 0)
		process_signal(&vm->process, SIGKILL);
	else
		destroy(vm);
}

/* ---- what processes, sockets and timers report ---- */

static void on_guest_off(struct vm *vm)
{
	bool keep = vm->known && vm->file.on_poweroff == DEFINITION_PRESERVE;

	log_line("%s: the guest is off", vm->name);
	vm->error[0] = '\0';
	if (vm->fresh) {
		vm->fresh = false;
		tell(vm, VM_WISH_START, NULL);
	}
	if (!keep) {
		end_begin(vm);
		return;
	}
	vm->state = VM_PRESERVED;
	drop_stop(vm);
	tell(vm, VM_WISH_STOP, NULL);
}

static void on_dead(struct vm *vm)
{
	vm->state = VM_DEAD;
	drop_stop(vm);
	remember(vm,
	        "a vCPU cannot go on ('keel log' has hyp's reason); 'keel vm kill %s' removes it",
	        vm->name);
	if (vm->fresh)
		tell(vm, VM_WISH_START, vm->error);
	tell(vm, VM_WISH_STOP, vm->error);
}

/* long: one arm for each way in which a device process ends */
static void on_server_end(struct vm *vm, int status)
{
	char why[VMFILE_ERROR_BYTES - 128];

	switch (status) {
	case KEELVM_OFF: on_guest_off(vm); return;
	case KEELVM_DEAD: on_dead(vm); return;
	case KEELVM_DETACHED:
		log_line("%s: the device process was told to go; starting another", vm->name);
		/* On purpose: no failure that the next pause has to be longer for. */
		vm->failures = 0;
		break;
	case KEELVM_ERROR:
		vm_read_failure(vm, why, sizeof(why));
		remember(vm, "%s", why);
		break;
	case PROCESS_UNKNOWN: log_line("%s: the device process is gone", vm->name); break;
	default:
		vm_read_failure(vm, why, sizeof(why));
		if (status > 128)
			remember(vm, "the device process was ended by signal %d", status - 128);
		else
			remember(vm, "the device process ended with %d: %s", status, why);
	}
	if (vm->fresh) {
		end_begin(vm);
		return;
	}
	if (vm->error[0] != '\0')
		tell(vm, VM_WISH_START, vm->error);
	wait_begin(vm);
}

static void on_format_end(struct vm *vm, int status)
{
	char why[VMFILE_ERROR_BYTES - 128];
	int rc;

	if (status != 0) {
		vm_read_failure(vm, why, sizeof(why));
		remember(vm, "%s", why);
		end_begin(vm);
		return;
	}
	rc = record_commit(&vm->keeld->settings, vm->name);
	if (rc != 0)
		remember(vm, "cannot write to %s: %s", vm->keeld->settings.state, strerror(-rc));
	if (rc != 0 || !serve_begin(vm))
		end_begin(vm);
}

static void on_process_end(struct process *process, int status)
{
	struct vm *vm = VM_OF(process, process);

	loop_timer_clear(&vm->keeld->loop, &vm->retry);
	link_close(&vm->link);
	switch (vm->state) {
	case VM_FORMATTING: on_format_end(vm, status); break;
	case VM_STARTING:
	case VM_RUNNING: on_server_end(vm, status); break;
	case VM_ENDING: destroy(vm); break;
	default: break;
	}
}

/* A daemon that is new has no process yet: this one says which it is. */
static bool take_process(struct vm *vm, const struct cJSON *answer)
{
	double pid = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(answer, "pid"));
	double id = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(answer, "id"));

	if (!(pid >= 1 && pid < 4194305) || !(id >= 0 && (uint32_t)id == vm->id))
		return false;
	return vm->process.pid != 0 ? vm->process.pid == (pid_t)pid
	                            : process_adopt(&vm->process, (pid_t)pid) == 0;
}

static void on_answer(struct link *link, const struct cJSON *answer)
{
	struct vm *vm = VM_OF(link, link);
	const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "error"));

	if (vm->state == VM_STARTING) {
		if (error == NULL && take_process(vm, answer)) {
			set_running(vm);
			return;
		}
		/* Somebody else's socket, or a dying process's: try again. */
		link_close(link);
		loop_timer_set(&vm->keeld->loop, &vm->retry, vm->keeld->settings.connect_ns);
	} else if (error != NULL) {
		remember(vm, "its device process refuses: %s", error);
		drop_stop(vm);
		tell(vm, VM_WISH_STOP, vm->error);
	}
}

/* A process that ends is told of by itself; one that only hung up is called again. */
static void on_hangup(struct link *link)
{
	struct vm *vm = VM_OF(link, link);

	if (vm->state == VM_STARTING || vm->state == VM_RUNNING)
		loop_timer_set(&vm->keeld->loop, &vm->retry, vm->keeld->settings.connect_ns);
}

/* True: a request for its status is on its way. */
static bool connect_server(struct vm *vm)
{
	char path[KEELD_PATH_BYTES];

	if (!vm_socket_path(vm, path) || link_open(&vm->link, path) != 0)
		return false;
	if (link_ask(&vm->link, "status") == 0)
		return true;
	link_close(&vm->link);
	return false;
}

/* The VM may have gone meanwhile by somebody else's hand. */
static bool hyp_has(struct vm *vm)
{
	struct keel_hc_vm_info info = {.head = {.vm = vm->id}};
	int rc = vm->keeld->hyp->vm_info(vm->keeld->hyp, &info);

	return rc == 0 ? info.head.vm == vm->id : rc != -ENOENT;
}

static void serve_again(struct vm *vm)
{
	if (!hyp_has(vm)) {
		remember(vm, "hyp has it no more");
		vm->id = 0;
		end_begin(vm);
		return;
	}
	/* One that nobody told us of may serve it already. */
	vm->state = VM_STARTING;
	if (connect_server(vm))
		return;
	vm_add_taps(vm);
	if (!serve_begin(vm))
		wait_begin(vm);
}

static void on_retry(struct loop_timer *timer)
{
	struct vm *vm = VM_OF(timer, retry);

	switch (vm->state) {
	case VM_STARTING:
	case VM_RUNNING:
		if (vm->state == VM_STARTING && vm->process.pid == 0)
			serve_again(vm);
		else if (!link_is_open(&vm->link) && !connect_server(vm))
			loop_timer_set(&vm->keeld->loop, timer, vm->keeld->settings.connect_ns);
		break;
	case VM_WAITING: serve_again(vm); break;
	case VM_ENDING: destroy(vm); break;
	default: break;
	}
}

static void on_start_limit(struct loop_timer *timer)
{
	struct vm *vm = VM_OF(timer, start_limit);

	remember(vm, "its device process did not answer within %llu s; %s/%s.log may say why",
	        (unsigned long long)(vm->keeld->settings.start_limit_ns / 1000000000),
	        vm->keeld->settings.log, vm->name);
	end_begin(vm);
}

static void on_stop_limit(struct loop_timer *timer)
{
	struct vm *vm = VM_OF(timer, stop_limit);
	char text[512];

	drop_stop(vm);
	snprintf(text, sizeof(text),
	        "%s did not switch itself off in time and runs on; see 'keel vm console %s', or "
	        "end "
	        "it by 'keel vm kill %s'",
	        vm->name, vm->name, vm->name);
	log_line("%s", text);
	tell(vm, VM_WISH_STOP, text);
}

/* ---- what a client asks for ---- */

static bool format_begin(struct vm *vm, struct vmfile_error *error)
{
	int rc;

	vm->state = VM_FORMATTING;
	rc = vm_spawn(vm, true);
	if (rc == 0)
		return true;
	return refuse(error, "%s: cannot start %s: %s", vm->name, vm->keeld->settings.keelvm,
	        strerror(-rc));
}

/* Until the formatter runs nothing needs waiting for, so what fails is undone at once. */
static bool make(struct vm *vm, struct vmfile_error *error)
{
	if (!vm_make_record(vm, error))
		return false;
	if (!vm_make_partition(vm, error))
		goto no_partition;
	if (!vm_make_taps(vm, error))
		goto no_taps;
	if (!format_begin(vm, error))
		goto no_process;
	return true;

no_process:
	vm_remove_taps(vm);
no_taps:
	vm->keeld->hyp->vm_destroy(vm->keeld->hyp, vm->id);
	vm->id = 0;
no_partition:
	record_remove(&vm->keeld->settings, vm->name);
	vm->state = VM_OFF;
	vm->known = false;
	return false;
}

static bool start_preserved(struct vm *vm, struct vmfile_error *error)
{
	vm->restart = true;
	vm->fresh = false;
	if (!serve_begin(vm)) {
		vm->state = VM_PRESERVED;
		return refuse(error, "%s", vm->error);
	}
	return true;
}

bool vm_start(struct vm *vm, struct vmfile_error *error)
{
	switch (vm->state) {
	case VM_OFF: break;
	case VM_PRESERVED: return start_preserved(vm, error);
	case VM_ENDING: return refuse(error, "%s is just ending; try again", vm->name);
	default:
		return refuse(error, "%s is %s already; 'keel vm list' shows it", vm->name,
		        vm_state_name(vm));
	}
	vm->error[0] = '\0';
	if (!vm_load_checked(vm, error) || !make(vm, error))
		return false;
	vm->fresh = true;
	vm->stop_wanted = false;
	loop_timer_set(&vm->keeld->loop, &vm->start_limit, vm->keeld->settings.start_limit_ns);
	return true;
}

bool vm_stop(struct vm *vm, unsigned timeout_s, struct vmfile_error *error)
{
	switch (vm->state) {
	case VM_OFF: return refuse(error, "%s is off", vm->name);
	case VM_ENDING: return true;
	case VM_PRESERVED:
	case VM_DEAD:
	case VM_BROKEN:
		return refuse(error,
		        "%s is %s and has no guest to ask; 'keel vm kill %s' removes it", vm->name,
		        vm_state_name(vm), vm->name);
	default: break;
	}
	vm->stop_wanted = true;
	loop_timer_set(&vm->keeld->loop, &vm->stop_limit, (uint64_t)timeout_s * 1000000000u);
	/* Else when it is served again. */
	if (vm->state == VM_RUNNING)
		press_button(vm);
	return true;
}

bool vm_kill(struct vm *vm, struct vmfile_error *error)
{
	if (vm->state == VM_OFF)
		return refuse(error, "%s is off", vm->name);
	if (vm->state != VM_ENDING) {
		log_line("%s: killed by request", vm->name);
		vm->error[0] = '\0';
		end_begin(vm);
	}
	return true;
}

bool vm_upgrade(struct vm *vm, struct vmfile_error *error)
{
	if (vm->state != VM_RUNNING)
		return refuse(error, "%s is %s; only a running VM's device process is replaced",
		        vm->name, vm_state_name(vm));
	/* It lets go between two requests of the guest's; one that cannot hear is killed. */
	if (link_ask(&vm->link, "quit") != 0)
		process_signal(&vm->process, SIGKILL);
	log_line("%s: replacing its device process", vm->name);
	return true;
}

void vm_adopt(struct vm *vm, uint32_t id)
{
	vm->id = id;
	vm->fresh = false;
	vm->known = record_load(&vm->keeld->settings, vm->name, &vm->file);
	if (record_is_making(&vm->keeld->settings, vm->name)) {
		log_line("%s: half made when its daemon ended; removing it", vm->name);
		end_begin(vm);
		return;
	}
	log_line("%s: hyp has it as VM %u", vm->name, vm->id);
	serve_again(vm);
}

/* ---- the list ---- */

struct vm *vm_find(const struct keeld *keeld, const char *name)
{
	struct vm *vm = keeld->vms;

	while (vm != NULL && strcmp(vm->name, name) != 0)
		vm = vm->next;
	return vm;
}

struct vm *vm_get(struct keeld *keeld, const char *name)
{
	struct vm *vm = vm_find(keeld, name);

	if (vm != NULL)
		return vm;
	vm = calloc(1, sizeof(*vm));
	if (vm == NULL)
		return NULL;
	snprintf(vm->name, sizeof(vm->name), "%s", name);
	vm->keeld = keeld;
	vm->process.loop = vm->link.loop = &keeld->loop;
	vm->process.ended = on_process_end;
	vm->link.source.fd = -1;
	vm->link.answered = on_answer;
	vm->link.closed = on_hangup;
	vm->retry.fire = on_retry;
	vm->start_limit.fire = on_start_limit;
	vm->stop_limit.fire = on_stop_limit;
	vm->button.fire = on_button;
	vm->next = keeld->vms;
	keeld->vms = vm;
	return vm;
}

void vm_free(struct vm *vm)
{
	struct loop *loop = &vm->keeld->loop;
	struct vm **at = &vm->keeld->vms;

	while (*at != vm)
		at = &(*at)->next;
	*at = vm->next;
	loop_timer_clear(loop, &vm->retry);
	loop_timer_clear(loop, &vm->start_limit);
	drop_stop(vm);
	link_close(&vm->link);
	process_release(&vm->process);
	free(vm);
}
