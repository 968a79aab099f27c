/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables for people: columns as wide as what is in them. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#define TABLE_COLUMNS 12u
#define TABLE_ROWS    96u

struct table {
	unsigned columns;
	unsigned rows;             /* with the head */
	bool right[TABLE_COLUMNS]; /* aligned so: numbers */
	char cells[TABLE_ROWS][TABLE_COLUMNS][72];
};

/* heads: their names; one that begins with '>' is aligned to the right. */
void table_init(struct table *table, unsigned columns, const char *const *heads);
/* Begins a row; false: the table is full. */
bool table_row(struct table *table);
/* Of the row that was begun last. What is too long is cut. */
__attribute__((format(printf, 3, 4))) void table_set(
        struct table *table, unsigned column, const char *format, ...);
void table_print(const struct table *table, FILE *out);
