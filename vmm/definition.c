/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a VM's definition from JSON by tables of keys, refusing what is unknown, missing or out of
 * range. */
#include "vmm/definition.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "abi/hypercall.h"

struct reader {
	char *error;
	size_t error_bytes;
	char where[32]; /* "" or "disks[1]." */
};

__attribute__((format(printf, 2, 3))) static bool refuse(
        struct reader *reader, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reader->error, reader->error_bytes, format, args);
	va_end(args);
	return false;
}

/* One key of an object: how to read its value, and whether it must be there. */
struct key {
	const char *name;
	bool (*read)(struct reader *reader, const cJSON *item, void *out);
	bool needed;
};

static bool read_object(struct reader *reader, const cJSON *object, const struct key *keys,
        unsigned key_count, void *out)
{
	uint32_t seen = 0;
	const cJSON *item;

	if (!cJSON_IsObject(object))
		return refuse(reader, "%s: must be an object",
		        reader->where[0] ? reader->where : "definition");
	cJSON_ArrayForEach(item, object)
	{
		unsigned i = 0;

		while (i < key_count && strcmp(item->string, keys[i].name) != 0)
			i++;
		if (i == key_count)
			return refuse(reader, "%s%.40s: unknown key", reader->where, item->string);
		if (seen & 1u << i)
			return refuse(reader, "%s%s: given twice", reader->where, item->string);
		seen |= 1u << i;
		if (!keys[i].read(reader, item, out))
			return false;
	}
	for (unsigned i = 0; i < key_count; i++)
		if (keys[i].needed && !(seen & 1u << i))
			return refuse(reader, "%s%s: missing", reader->where, keys[i].name);
	return true;
}

static bool read_string(struct reader *reader, const cJSON *item, char *out, size_t out_bytes)
{
	const char *text = cJSON_GetStringValue(item);

	if (text == NULL)
		return refuse(reader, "%s%s: must be a string", reader->where, item->string);
	if (strlen(text) >= out_bytes)
		return refuse(reader, "%s%s: longer than %zu bytes", reader->where, item->string,
		        out_bytes - 1);
	strcpy(out, text);
	return true;
}

static bool read_bool(struct reader *reader, const cJSON *item, bool *out)
{
	if (!cJSON_IsBool(item))
		return refuse(reader, "%s%s: must be true or false", reader->where, item->string);
	*out = cJSON_IsTrue(item);
	return true;
}

static bool read_number(
        struct reader *reader, const cJSON *item, double low, double high, uint64_t *out)
{
	double value = cJSON_GetNumberValue(item);

	/* cJSON gives NaN for what is no number; doubles hold every whole number up to 2^53. */
	if (!(value >= low && value <= high) || value != (double)(uint64_t)value)
		return refuse(reader, "%s%s: must be a whole number from %.0f to %.0f",
		        reader->where, item->string, low, high);
	*out = (uint64_t)value;
	return true;
}

static bool read_path(struct reader *reader, const cJSON *item, char *out)
{
	if (!read_string(reader, item, out, DEFINITION_PATH_BYTES))
		return false;
	if (out[0] != '/')
		return refuse(
		        reader, "%s%s: must be an absolute path", reader->where, item->string);
	return true;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Pairs of hex digits, and in between what `pattern` has besides x. False: not of that form. */
static bool read_hex(const char *text, const char *pattern, uint8_t *out)
{
	for (; *pattern != '\0'; pattern++) {
		if (*pattern != 'x') {
			if (*text++ != *pattern)
				return false;
			continue;
		}
		int high = hex_value(text[0]);
		int low = high < 0 ? -1 : hex_value(text[1]);

		if (low < 0)
			return false;
		*out++ = (uint8_t)(high << 4 | low);
		text += 2;
	}
	return *text == '\0';
}

static bool key_name(struct reader *reader, const cJSON *item, void *out)
{
	struct definition *definition = out;
	const char *at = definition->name;

	if (!read_string(reader, item, definition->name, sizeof(definition->name)))
		return false;
	/* It becomes a file name and a word on command lines. A number would be taken for an id. */
	for (; *at != '\0'; at++)
		if (!isalnum((unsigned char)*at) && strchr("-_.", *at) == NULL)
			break;
	if (*at != '\0' || !isalpha((unsigned char)definition->name[0]))
		return refuse(reader, "name: must begin with a letter and have only letters, "
		                      "digits, '-', '_', '.'");
	return true;
}

static bool key_uuid(struct reader *reader, const cJSON *item, void *out)
{
	struct definition *definition = out;
	char text[40];

	if (!read_string(reader, item, text, sizeof(text)))
		return false;
	if (!read_hex(text, "xxxx-xx-xx-xx-xxxxxx", definition->uuid))
		return refuse(reader, "uuid: must look like 123e4567-e89b-12d3-a456-426614174000");
	return true;
}

static bool key_cpus(struct reader *reader, const cJSON *item, void *out)
{
	uint64_t value = 0;

	if (!read_number(reader, item, 1, KEEL_MAX_VCPUS, &value))
		return false;
	((struct definition *)out)->cpus = (unsigned)value;
	return true;
}

static bool key_memory(struct reader *reader, const cJSON *item, void *out)
{
	uint64_t *value = &((struct definition *)out)->memory_bytes;

	if (!read_number(reader, item, (double)(1u << 25), (double)(1ull << 46), value))
		return false;
	if (*value % (2u << 20) != 0)
		return refuse(reader, "memory_bytes: must be a multiple of 2 MiB");
	return true;
}

static bool key_kernel(struct reader *reader, const cJSON *item, void *out)
{
	return read_path(reader, item, ((struct definition *)out)->kernel);
}

static bool key_initrd(struct reader *reader, const cJSON *item, void *out)
{
	return read_path(reader, item, ((struct definition *)out)->initrd);
}

static bool key_firmware(struct reader *reader, const cJSON *item, void *out)
{
	return read_path(reader, item, ((struct definition *)out)->firmware);
}

static bool key_firmware_vars(struct reader *reader, const cJSON *item, void *out)
{
	return read_path(reader, item, ((struct definition *)out)->firmware_vars);
}

static bool key_cmdline(struct reader *reader, const cJSON *item, void *out)
{
	struct definition *definition = out;

	return read_string(reader, item, definition->cmdline, sizeof(definition->cmdline));
}

static bool key_path(struct reader *reader, const cJSON *item, void *out)
{
	return read_path(reader, item, ((struct definition_disk *)out)->path);
}

static bool key_readonly(struct reader *reader, const cJSON *item, void *out)
{
	return read_bool(reader, item, &((struct definition_disk *)out)->readonly);
}

static bool key_serial(struct reader *reader, const cJSON *item, void *out)
{
	struct definition_disk *disk = out;

	return read_string(reader, item, disk->serial, sizeof(disk->serial));
}

static bool key_iops(struct reader *reader, const cJSON *item, void *out)
{
	return read_number(
	        reader, item, 1, DEFINITION_IOPS_MAX, &((struct definition_disk *)out)->iops);
}

static bool key_bandwidth(struct reader *reader, const cJSON *item, void *out)
{
	return read_number(reader, item, DEFINITION_BANDWIDTH_MIN, (double)DEFINITION_BANDWIDTH_MAX,
	        &((struct definition_disk *)out)->bandwidth);
}

static bool key_backend(struct reader *reader, const cJSON *item, void *out)
{
	const char *text = cJSON_GetStringValue(item);
	struct definition_disk *disk = out;

	if (text != NULL && strcmp(text, "io_uring") == 0)
		disk->backend = DEFINITION_IO_URING;
	else if (text != NULL && strcmp(text, "workers") == 0)
		disk->backend = DEFINITION_WORKERS;
	else
		return refuse(
		        reader, "%sbackend: must be \"io_uring\" or \"workers\"", reader->where);
	return true;
}

static bool key_fixed_buffers(struct reader *reader, const cJSON *item, void *out)
{
	return read_bool(reader, item, &((struct definition_disk *)out)->fixed_buffers);
}

static bool key_iopoll(struct reader *reader, const cJSON *item, void *out)
{
	return read_bool(reader, item, &((struct definition_disk *)out)->iopoll);
}

static bool key_tap(struct reader *reader, const cJSON *item, void *out)
{
	struct definition_net *net = out;

	if (!read_string(reader, item, net->tap, sizeof(net->tap)))
		return false;
	if (net->tap[0] == '\0' || strchr(net->tap, '/') != NULL || strchr(net->tap, '%') != NULL)
		return refuse(
		        reader, "%stap: must be the name of a network interface", reader->where);
	return true;
}

static bool key_mac(struct reader *reader, const cJSON *item, void *out)
{
	struct definition_net *net = out;
	char text[20];

	if (!read_string(reader, item, text, sizeof(text)))
		return false;
	if (!read_hex(text, "x:x:x:x:x:x", net->mac))
		return refuse(reader, "%smac: must look like 52:54:00:12:34:56", reader->where);
	if (net->mac[0] & 1)
		return refuse(reader, "%smac: is a group address, must be a single station's",
		        reader->where);
	return true;
}

#define COUNT(array) ((unsigned)(sizeof(array) / sizeof((array)[0])))

static const struct key disk_keys[] = {
        {"path", key_path, true},
        {"readonly", key_readonly, false},
        {"serial", key_serial, false},
        {"iops", key_iops, false},
        {"bandwidth", key_bandwidth, false},
        {"backend", key_backend, false},
        {"fixed_buffers", key_fixed_buffers, false},
        {"iopoll", key_iopoll, false},
};

static const struct key net_keys[] = {
        {"tap", key_tap, true},
        {"mac", key_mac, true},
};

/* Reads an array of at most max objects, each of `size` bytes in `out`. */
static bool read_array(struct reader *reader, const cJSON *item, unsigned max,
        const struct key *keys, unsigned key_count, void *out, size_t size, unsigned *count)
{
	const cJSON *entry;

	if (!cJSON_IsArray(item))
		return refuse(reader, "%s: must be an array", item->string);
	if (cJSON_GetArraySize(item) > (int)max)
		return refuse(reader, "%s: at most %u", item->string, max);
	cJSON_ArrayForEach(entry, item)
	{
		snprintf(reader->where, sizeof(reader->where), "%s[%u].", item->string, *count);
		if (!read_object(reader, entry, keys, key_count, (uint8_t *)out + *count * size))
			return false;
		++*count;
	}
	reader->where[0] = '\0';
	return true;
}

static bool key_disks(struct reader *reader, const cJSON *item, void *out)
{
	struct definition *definition = out;

	return read_array(reader, item, DEFINITION_MAX_DISKS, disk_keys, COUNT(disk_keys),
	        definition->disks, sizeof(definition->disks[0]), &definition->disk_count);
}

static bool key_nets(struct reader *reader, const cJSON *item, void *out)
{
	struct definition *definition = out;

	return read_array(reader, item, DEFINITION_MAX_NETS, net_keys, COUNT(net_keys),
	        definition->nets, sizeof(definition->nets[0]), &definition->net_count);
}

static bool key_rng(struct reader *reader, const cJSON *item, void *out)
{
	return read_bool(reader, item, &((struct definition *)out)->rng);
}

static bool key_testdev(struct reader *reader, const cJSON *item, void *out)
{
	return read_bool(reader, item, &((struct definition *)out)->testdev);
}

static const char *const policy_names[] = {
        [DEFINITION_RESTART] = "restart",
        [DEFINITION_DESTROY] = "destroy",
        [DEFINITION_PRESERVE] = "preserve",
};

static bool read_policy(
        struct reader *reader, const cJSON *item, unsigned count, enum definition_policy *out)
{
	const char *text = cJSON_GetStringValue(item);

	for (unsigned i = 0; text != NULL && i < count; i++)
		if (strcmp(text, policy_names[i]) == 0) {
			*out = (enum definition_policy)i;
			return true;
		}
	return refuse(reader, "%s: must be \"restart\"%s", item->string,
	        count == 2 ? " or \"destroy\"" : ", \"destroy\" or \"preserve\"");
}

static bool key_on_reboot(struct reader *reader, const cJSON *item, void *out)
{
	return read_policy(reader, item, 2, &((struct definition *)out)->on_reboot);
}

static bool key_on_poweroff(struct reader *reader, const cJSON *item, void *out)
{
	return read_policy(reader, item, 3, &((struct definition *)out)->on_poweroff);
}

static const struct key definition_keys[] = {
        {"name", key_name, true},
        {"uuid", key_uuid, true},
        {"cpus", key_cpus, true},
        {"memory_bytes", key_memory, true},
        {"kernel", key_kernel, false},
        {"initrd", key_initrd, false},
        {"cmdline", key_cmdline, false},
        {"firmware", key_firmware, false},
        {"firmware_vars", key_firmware_vars, false},
        {"disks", key_disks, false},
        {"nets", key_nets, false},
        {"rng", key_rng, false},
        {"testdev", key_testdev, false},
        {"on_reboot", key_on_reboot, false},
        {"on_poweroff", key_on_poweroff, false},
};

int definition_parse(const char *json, struct definition *out, char *error, size_t error_bytes)
{
	struct reader reader = {.error = error, .error_bytes = error_bytes};
	const char *end = NULL;
	cJSON *root;
	bool good;

	*out = (struct definition){
	        .on_reboot = DEFINITION_RESTART, .on_poweroff = DEFINITION_DESTROY};
	if (strlen(json) > DEFINITION_MAX_BYTES)
		return refuse(&reader, "definition: longer than %u bytes", DEFINITION_MAX_BYTES),
		       -EINVAL;
	root = cJSON_ParseWithOpts(json, &end, true);
	if (root == NULL) {
		unsigned line = 1;

		for (const char *at = json; end != NULL && at < end; at++)
			line += *at == '\n';
		return refuse(&reader, "definition: line %u is no JSON", line), -EINVAL;
	}
	good = read_object(&reader, root, definition_keys, COUNT(definition_keys), out);
	cJSON_Delete(root);
	if (good && (out->kernel[0] == '\0') == (out->firmware[0] == '\0'))
		good = refuse(&reader, "kernel: give it, or firmware, and not both");
	if (good && out->firmware[0] != '\0' && (out->initrd[0] != '\0' || out->cmdline[0] != '\0'))
		good = refuse(&reader, "firmware: loads initrd and cmdline from the disk itself");
	if (good && out->firmware_vars[0] != '\0' && out->firmware[0] == '\0')
		good = refuse(&reader, "firmware_vars: are for firmware, which is missing");
	return good ? 0 : -EINVAL;
}
