/* SPDX-License-Identifier: BSD-2-Clause */
/* Formats (text.h). */
#include "cli/text.h"

#include <stdio.h>

#include "config/paths.h"

const char *text_size(uint64_t bytes, char out[TEXT_BYTES])
{
	static const char units[] = "KMGTP";
	double value = (double)bytes / 1024;
	unsigned unit = 0;

	while (value >= 1024 && unit < 4) {
		value /= 1024;
		unit++;
	}
	if (bytes == 0)
		snprintf(out, TEXT_BYTES, "0");
	else
		snprintf(out, TEXT_BYTES, "%.*f%c", value == (double)(uint64_t)value ? 0 : 1, value,
		        units[unit]);
	return out;
}

const char *text_rate(double per_second, char out[TEXT_BYTES])
{
	if (per_second < 1000)
		snprintf(out, TEXT_BYTES, "%.0f", per_second);
	else if (per_second < 1e6)
		snprintf(out, TEXT_BYTES, "%.1fk", per_second / 1e3);
	else
		snprintf(out, TEXT_BYTES, "%.1fM", per_second / 1e6);
	return out;
}

const char *text_duration(uint64_t seconds, char out[TEXT_BYTES])
{
	unsigned long long s = seconds;

	if (s < 60)
		snprintf(out, TEXT_BYTES, "%llus", s);
	else if (s < 3600)
		snprintf(out, TEXT_BYTES, "%llum %llus", s / 60, s % 60);
	else if (s < 86400)
		snprintf(out, TEXT_BYTES, "%lluh %llum", s / 3600, s / 60 % 60);
	else
		snprintf(out, TEXT_BYTES, "%llud %lluh", s / 86400, s / 3600 % 24);
	return out;
}

int text_print_json(cJSON *json)
{
	char *text = cJSON_Print(json);

	cJSON_Delete(json);
	if (text != NULL)
		puts(text);
	cJSON_free(text);
	return text == NULL ? EXIT_REFUSED : EXIT_OK;
}

double text_number(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

const char *text_string(const cJSON *object, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

	return text != NULL ? text : "";
}
