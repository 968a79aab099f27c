/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers as people read them, and JSON as scripts do. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#define TEXT_BYTES 32u

/* "1.5G", "512M", "0". Returns out. */
const char *text_size(uint64_t bytes, char out[TEXT_BYTES]);
/* "12", "4.5k", "1.2M". */
const char *text_rate(double per_second, char out[TEXT_BYTES]);
/* "3d 4h", "5m 12s". */
const char *text_duration(uint64_t seconds, char out[TEXT_BYTES]);
/* Prints and frees it. Returns EXIT_OK. */
int text_print_json(cJSON *json);
/* An object's number or text; 0 or "" if it has none. */
double text_number(const cJSON *object, const char *key);
const char *text_string(const cJSON *object, const char *key);
