/* SPDX-License-Identifier: BSD-2-Clause */
/* keel status: hyp itself, its VMs, and exits by kind. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "abi/exits.h"
#include "cli/device.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/verb.h"

static const char *const kinds[] = {
#define KIND_TEXT(name, text) [KEEL_KIND_##name] = text,
        KEEL_EXIT_KIND_LIST(KIND_TEXT)
#undef KIND_TEXT
};

/* By KEEL_EXIT_* - 1. */
#define EXIT_KINDS 4u
static const char *const exit_kinds[EXIT_KINDS] = {
        "port read", "port write", "memory read", "memory write"};

struct picture {
	struct keel_hc_info info;
	struct keel_hc_counters root;
	struct device_vm vms[KEEL_MAX_VMS];
	unsigned vm_count;
};

static int take(int fd, struct picture *picture)
{
	int rc = device_info(fd, &picture->info);

	if (rc == 0)
		rc = device_counters(fd, &picture->root);
	if (rc != 0)
		return rc;
	rc = device_list(fd, picture->vms, KEEL_MAX_VMS);
	picture->vm_count = rc < 0 ? 0 : (unsigned)rc;
	return rc < 0 ? rc : 0;
}

static const char *vendor_name(uint32_t vendor)
{
	return vendor == 1 ? "AMD SVM" : vendor == 2 ? "Intel VMX" : "unknown";
}

static const char *state_name(uint32_t state)
{
	switch (state) {
	case KEEL_VM_STATE_PAUSED: return "paused";
	case KEEL_VM_STATE_RUNNING: return "running";
	case KEEL_VM_STATE_RESET: return "resetting";
	case KEEL_VM_STATE_DEAD: return "dead";
	default: return "unknown";
	}
}

static double milliseconds(const struct keel_hc_info *info, uint64_t tsc)
{
	return info->tsc_hz == 0 ? 0 : (double)tsc * 1000 / (double)info->tsc_hz;
}

static uint64_t uptime_s(const struct keel_hc_info *info, uint64_t since_tsc)
{
	return info->tsc_hz == 0 ? 0 : (info->now_tsc - since_tsc) / info->tsc_hz;
}

/* "exits": {kind: count}, without those that never happened. */
static void add_exits(cJSON *object, const struct keel_hc_counters *counters)
{
	cJSON *exits = cJSON_AddObjectToObject(object, "exits");

	for (unsigned i = 1; i < KEEL_KIND_COUNT; i++)
		if (counters->exits[i] != 0)
			cJSON_AddNumberToObject(exits, kinds[i], (double)counters->exits[i]);
}

static void add_counters(cJSON *object, const struct keel_hc_counters *counters)
{
	const struct {
		const char *name;
		uint64_t value;
	} list[] = {
	        {"run_ns", counters->run_ns},
	        {"interrupts", counters->interrupts},
	        {"ipis", counters->ipis},
	        {"halts", counters->halts},
	        {"doorbells", counters->doorbells},
	        {"root_exits", counters->root_exits},
	        {"root_wait_ns", counters->root_wait_ns},
	        {"migrations", counters->migrations},
	        {"idle_ns", counters->idle_ns},
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		cJSON_AddNumberToObject(object, list[i].name, (double)list[i].value);
	add_exits(object, counters);
}

static void add_waiting(cJSON *entry, const struct keel_hc_vm_info *info)
{
	cJSON *waiting = cJSON_AddObjectToObject(entry, "waiting_by_kind");

	for (unsigned i = 0; i < EXIT_KINDS; i++)
		if (info->waiting_by_kind[i] != 0)
			cJSON_AddNumberToObject(waiting, exit_kinds[i], info->waiting_by_kind[i]);
	cJSON_AddNumberToObject(entry, "exits_while_root_was_away", info->away_exits);
}

static cJSON *make_json(const struct picture *picture)
{
	const struct keel_hc_info *info = &picture->info;
	cJSON *json = cJSON_CreateObject(), *vms;

	cJSON_AddStringToObject(json, "version", info->version);
	cJSON_AddNumberToObject(json, "abi_version", info->abi_version);
	cJSON_AddStringToObject(json, "vendor", vendor_name(info->vendor));
	cJSON_AddNumberToObject(json, "cpus", info->cpus);
	cJSON_AddNumberToObject(json, "tsc_hz", (double)info->tsc_hz);
	cJSON_AddNumberToObject(json, "uptime_s", (double)uptime_s(info, info->entry_tsc));
	cJSON_AddNumberToObject(json, "entry_to_root_ms",
	        milliseconds(info, info->root_entry_tsc - info->entry_tsc));
	cJSON_AddNumberToObject(json, "pool_bytes", (double)info->pool_bytes);
	cJSON_AddNumberToObject(json, "pool_free_bytes", (double)info->pool_free_bytes);
	cJSON_AddNumberToObject(json, "image_bytes", (double)info->image_bytes);
	cJSON_AddNumberToObject(json, "heap_bytes", (double)info->heap_bytes);
	cJSON_AddNumberToObject(json, "heap_free_bytes", (double)info->heap_free_bytes);
	cJSON_AddNumberToObject(json, "refused_accesses", (double)info->refused_accesses);
	cJSON_AddNumberToObject(json, "stray_interrupts", (double)info->stray_interrupts);
	add_counters(cJSON_AddObjectToObject(json, "root"), &picture->root);
	vms = cJSON_AddArrayToObject(json, "vms");
	for (unsigned i = 0; i < picture->vm_count; i++) {
		const struct device_vm *vm = &picture->vms[i];
		cJSON *entry = cJSON_CreateObject();

		cJSON_AddStringToObject(entry, "name", vm->info.name);
		cJSON_AddNumberToObject(entry, "id", vm->info.head.vm);
		cJSON_AddStringToObject(entry, "state", state_name(vm->info.state));
		cJSON_AddNumberToObject(entry, "cpus", vm->info.vcpus);
		cJSON_AddNumberToObject(entry, "memory_bytes",
		        (double)(vm->info.ram_bytes - vm->info.firmware_bytes));
		cJSON_AddNumberToObject(
		        entry, "uptime_s", (double)uptime_s(info, vm->info.created_tsc));
		cJSON_AddNumberToObject(entry, "resets", vm->info.resets);
		cJSON_AddNumberToObject(entry, "exits_waiting", vm->info.exits_waiting);
		add_waiting(entry, &vm->info);
		add_counters(entry, &vm->counters);
		cJSON_AddItemToArray(vms, entry);
	}
	return json;
}

static void print_hyp(const struct keel_hc_info *info)
{
	char a[TEXT_BYTES], b[TEXT_BYTES];

	printf("hyp      %s (ABI %u), %s, %u CPUs, TSC %.3f MHz\n", info->version,
	        info->abi_version, vendor_name(info->vendor), info->cpus,
	        (double)info->tsc_hz / 1e6);
	printf("up       %s; %.1f ms from hyp's entry to root's\n",
	        text_duration(uptime_s(info, info->entry_tsc), a),
	        milliseconds(info, info->root_entry_tsc - info->entry_tsc));
	printf("pool     %s free of %s\n", text_size(info->pool_free_bytes, a),
	        text_size(info->pool_bytes, b));
	printf("image    %s\n", text_size(info->image_bytes, a));
	printf("heap     %s free of %s\n", text_size(info->heap_free_bytes, a),
	        text_size(info->heap_bytes, b));
	printf("refused  %llu accesses of root to memory that is not its own\n",
	        (unsigned long long)info->refused_accesses);
	if (info->stray_interrupts != 0)
		printf("stray    %llu interrupts where the manual forbids them\n",
		        (unsigned long long)info->stray_interrupts);
}

static void print_vms(const struct picture *picture)
{
	static const char *const heads[] = {"VM", "STATE", ">ID", ">CPUS", ">MEMORY", ">UP",
	        ">RESETS", ">WAITING", ">EXITS", ">CPU TIME"};
	static struct table table;
	char text[TEXT_BYTES];

	table_init(&table, 10, heads);
	for (unsigned i = 0; i < picture->vm_count; i++) {
		const struct device_vm *vm = &picture->vms[i];

		table_row(&table);
		table_set(&table, 0, "%s", vm->info.name);
		table_set(&table, 1, "%s", state_name(vm->info.state));
		table_set(&table, 2, "%u", vm->info.head.vm);
		table_set(&table, 3, "%u", vm->info.vcpus);
		table_set(&table, 4, "%s",
		        text_size(vm->info.ram_bytes - vm->info.firmware_bytes, text));
		table_set(&table, 5, "%s",
		        text_duration(uptime_s(&picture->info, vm->info.created_tsc), text));
		table_set(&table, 6, "%u", vm->info.resets);
		table_set(&table, 7, "%u", vm->info.exits_waiting);
		table_set(&table, 8, "%llu", (unsigned long long)device_exits(&vm->counters));
		table_set(&table, 9, "%.1fs", (double)vm->counters.run_ns / 1e9);
	}
	table_print(&table, stdout);
}

/* A line for each VM of which a vCPU waits, or waited while root was away. */
static void print_waiting(const struct picture *picture)
{
	for (unsigned i = 0; i < picture->vm_count; i++) {
		const struct keel_hc_vm_info *vm = &picture->vms[i].info;

		if (vm->exits_waiting == 0 && vm->away_exits == 0)
			continue;
		printf("%s: %u vCPUs wait for root", vm->name, vm->exits_waiting);
		for (unsigned k = 0; k < EXIT_KINDS; k++)
			if (vm->waiting_by_kind[k] != 0)
				printf(", %u by %s", vm->waiting_by_kind[k], exit_kinds[k]);
		printf("; %u began to while it was away\n", vm->away_exits);
	}
}

/* A row a kind, a column a VM: as many VMs as there are columns for. */
static void print_exits(const struct picture *picture)
{
	unsigned shown = picture->vm_count < TABLE_COLUMNS - 2 ? picture->vm_count
	                                                       : TABLE_COLUMNS - 2;
	static char names[TABLE_COLUMNS][KEEL_VM_NAME_BYTES + 1];
	const char *heads[TABLE_COLUMNS] = {"EXITS", ">root"};
	static struct table table;

	for (unsigned i = 0; i < shown; i++) {
		snprintf(names[i], sizeof(names[i]), ">%s", picture->vms[i].info.name);
		heads[i + 2] = names[i];
	}
	table_init(&table, shown + 2, heads);
	for (unsigned kind = 1; kind < KEEL_KIND_COUNT; kind++) {
		uint64_t sum = picture->root.exits[kind];

		for (unsigned i = 0; i < shown; i++)
			sum += picture->vms[i].counters.exits[kind];
		if (sum == 0)
			continue;
		table_row(&table);
		table_set(&table, 0, "%s", kinds[kind]);
		table_set(&table, 1, "%llu", (unsigned long long)picture->root.exits[kind]);
		for (unsigned i = 0; i < shown; i++)
			table_set(&table, i + 2, "%llu",
			        (unsigned long long)picture->vms[i].counters.exits[kind]);
	}
	table_print(&table, stdout);
	if (shown < picture->vm_count)
		printf("(%u more VMs: see --json)\n", picture->vm_count - shown);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	bool json = false;
	const struct option_rule rules[] = {{"--json", OPTION_FLAG, &json, 0, 0, NULL}};
	int rc = options_read(verb, argc, argv, rules, 1, NULL, 0, 0);
	static struct picture picture;
	int fd;

	if (rc != OPTIONS_GO_ON)
		return rc;
	fd = device_open(&rc);
	if (fd < 0)
		return rc;
	rc = take(fd, &picture);
	close(fd);
	if (rc != 0)
		return complain(EXIT_REFUSED, "hyp does not answer: %s", strerror(-rc));
	if (json)
		return text_print_json(make_json(&picture));
	print_hyp(&picture.info);
	putchar('\n');
	print_vms(&picture);
	print_waiting(&picture);
	putchar('\n');
	print_exits(&picture);
	return EXIT_OK;
}

const struct verb verb_status = {
        .name = "status",
        .words = "[--json]",
        .summary = "Show hyp's version, CPUs, pool, VMs, and exits by kind",
        .help = "  --json  the same for scripts, with all counters\n",
        .run = run,
};
