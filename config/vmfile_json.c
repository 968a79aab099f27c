/* SPDX-License-Identifier: BSD-2-Clause */
/* What a VM's file becomes: the definition that the vault keeps, and the same for people to read.
 */
#include "config/vmfile.h"
#include "abi/hypercall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

static const char *const policies[] = {
        [DEFINITION_RESTART] = "restart",
        [DEFINITION_DESTROY] = "destroy",
        [DEFINITION_PRESERVE] = "preserve",
};

/* FNV-1a, with `salt` so that two give independent words; then mixed, since its low bits are weak.
 */
static uint64_t hash(const char *seed, const char *name, unsigned salt)
{
	uint64_t value = 0xcbf29ce484222325ull + salt;

	for (const char *at = seed; *at != '\0'; at++)
		value = (value ^ (uint8_t)*at) * 0x100000001b3ull;
	value = (value ^ 0xff) * 0x100000001b3ull;
	for (const char *at = name; *at != '\0'; at++)
		value = (value ^ (uint8_t)*at) * 0x100000001b3ull;
	value ^= value >> 33;
	value *= 0xff51afd7ed558ccdull;
	return value ^ value >> 33;
}

void vmfile_fill_identity(struct vmfile *vm, const char *seed)
{
	if (!vm->has_uuid) {
		const uint64_t words[2] = {hash(seed, vm->name, 0), hash(seed, vm->name, 1)};

		memcpy(vm->uuid, words, sizeof(vm->uuid));
		vm->uuid[6] = (uint8_t)((vm->uuid[6] & 0x0f) |
		                        0x80); /* version 8: ours (RFC 9562) */
		vm->uuid[8] = (uint8_t)((vm->uuid[8] & 0x3f) | 0x80);
		vm->has_uuid = true;
	}
	for (unsigned i = 0; i < vm->net_count; i++) {
		struct vmfile_net *net = &vm->nets[i];
		uint64_t word = hash(seed, vm->name, 2 + i);

		if (net->has_mac)
			continue;
		memcpy(net->mac, &word, sizeof(net->mac));
		net->mac[0] = 0x02; /* locally administered, a single station's */
		net->has_mac = true;
	}
}

static void format_uuid(const uint8_t *uuid, char out[37])
{
	size_t used = 0;

	for (unsigned i = 0; i < 16; i++)
		used += (size_t)snprintf(out + used, 37 - used, "%s%02x",
		        i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static void format_mac(const uint8_t *mac, char out[18])
{
	snprintf(out, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
	        mac[5]);
}

const char *vmfile_format_size(uint64_t bytes, char *out, size_t out_bytes)
{
	static const char units[] = "KMGT";
	unsigned unit = 0;

	bytes >>= 10;
	while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(out, out_bytes, "%llu%c", (unsigned long long)bytes, units[unit]);
	return out;
}

static void add_text(cJSON *object, const char *key, const char *text)
{
	if (text[0] != '\0')
		cJSON_AddStringToObject(object, key, text);
}

static void add_disks(cJSON *object, const struct vmfile *vm)
{
	cJSON *disks = cJSON_AddArrayToObject(object, "disks");

	for (unsigned i = 0; i < vm->disk_count; i++) {
		const struct vmfile_disk *disk = &vm->disks[i];
		cJSON *entry = cJSON_CreateObject();

		cJSON_AddStringToObject(entry, "path", disk->path);
		cJSON_AddBoolToObject(entry, "readonly", disk->readonly);
		add_text(entry, "serial", disk->serial);
		/* Only what was asked for: a device process of before knows no such keys. */
		if (disk->iops != 0)
			cJSON_AddNumberToObject(entry, "iops", disk->iops);
		if (disk->bandwidth != 0)
			cJSON_AddNumberToObject(entry, "bandwidth", (double)disk->bandwidth);
		if (disk->backend != DEFINITION_MEASURED)
			cJSON_AddStringToObject(entry, "backend",
			        disk->backend == DEFINITION_WORKERS ? "workers" : "io_uring");
		if (disk->fixed_buffers)
			cJSON_AddBoolToObject(entry, "fixed_buffers", true);
		if (disk->iopoll)
			cJSON_AddBoolToObject(entry, "iopoll", true);
		cJSON_AddItemToArray(disks, entry);
	}
}

/* taps: NULL for what people read, with the bridge instead. */
static void add_nets(cJSON *object, const struct vmfile *vm, const char (*taps)[16])
{
	cJSON *nets = cJSON_AddArrayToObject(object, "nets");

	for (unsigned i = 0; i < vm->net_count; i++) {
		const struct vmfile_net *net = &vm->nets[i];
		cJSON *entry = cJSON_CreateObject();
		char mac[18];

		format_mac(net->mac, mac);
		if (taps == NULL)
			add_text(entry, "bridge", net->bridge);
		add_text(entry, "tap", taps == NULL ? net->tap : taps[i]);
		if (net->has_mac)
			cJSON_AddStringToObject(entry, "mac", mac);
		cJSON_AddItemToArray(nets, entry);
	}
}

static cJSON *make_common(const struct vmfile *vm, const char (*taps)[16])
{
	cJSON *object = cJSON_CreateObject();
	char uuid[37];

	format_uuid(vm->uuid, uuid);
	cJSON_AddStringToObject(object, "name", vm->name);
	if (vm->has_uuid)
		cJSON_AddStringToObject(object, "uuid", uuid);
	cJSON_AddNumberToObject(object, "cpus", vm->cpus);
	cJSON_AddNumberToObject(object, "memory_bytes", (double)vm->memory_bytes);
	add_text(object, "firmware", vm->firmware);
	add_text(object, "firmware_vars", vm->firmware_vars);
	add_text(object, "kernel", vm->kernel);
	add_text(object, "initrd", vm->initrd);
	add_text(object, "cmdline", vm->cmdline);
	add_disks(object, vm);
	add_nets(object, vm, taps);
	cJSON_AddBoolToObject(object, "rng", vm->rng);
	if (vm->testdev)
		cJSON_AddBoolToObject(object, "testdev", true);
	cJSON_AddStringToObject(object, "on_reboot", policies[vm->on_reboot]);
	cJSON_AddStringToObject(object, "on_poweroff", policies[vm->on_poweroff]);
	return object;
}

char *vmfile_to_definition(const struct vmfile *vm, const char (*taps)[16])
{
	cJSON *object = make_common(vm, taps);
	char *text = cJSON_PrintUnformatted(object);

	cJSON_Delete(object);
	return text;
}

struct cJSON *vmfile_to_json(const struct vmfile *vm)
{
	cJSON *object = make_common(vm, NULL);

	cJSON_AddBoolToObject(object, "autostart", vm->autostart);
	cJSON_AddBoolToObject(object, "pinned", vm->pinned);
	cJSON_AddNumberToObject(object, "weight", vm->weight);
	cJSON_AddStringToObject(object, "without_root", vmfile_without_root[vm->without_root]);
	if (vm->without_root != KEEL_AWAY_WAIT)
		cJSON_AddNumberToObject(object, "without_root_after", vm->without_root_s);
	return object;
}
