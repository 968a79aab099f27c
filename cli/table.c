/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows are kept until all are there, since widths depend on the last (table.h). */
#include "cli/table.h"

#include <stdarg.h>
#include <string.h>

void table_init(struct table *table, unsigned columns, const char *const *heads)
{
	memset(table, 0, sizeof(*table));
	table->columns = columns;
	table_row(table);
	for (unsigned i = 0; i < columns; i++) {
		table->right[i] = heads[i][0] == '>';
		table_set(table, i, "%s", heads[i] + table->right[i]);
	}
}

bool table_row(struct table *table)
{
	if (table->rows == TABLE_ROWS)
		return false;
	table->rows++;
	return true;
}

void table_set(struct table *table, unsigned column, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(table->cells[table->rows - 1][column], sizeof(table->cells[0][0]), format, args);
	va_end(args);
}

void table_print(const struct table *table, FILE *out)
{
	size_t width[TABLE_COLUMNS] = {0};

	for (unsigned r = 0; r < table->rows; r++)
		for (unsigned c = 0; c < table->columns; c++)
			if (strlen(table->cells[r][c]) > width[c])
				width[c] = strlen(table->cells[r][c]);
	for (unsigned r = 0; r < table->rows; r++)
		for (unsigned c = 0; c < table->columns; c++) {
			const char *cell = table->cells[r][c];
			const char *end = c + 1 < table->columns ? "  " : "\n";

			if (table->right[c])
				fprintf(out, "%*s%s", (int)width[c], cell, end);
			else if (c + 1 < table->columns)
				fprintf(out, "%-*s%s", (int)width[c], cell, end);
			else
				fprintf(out, "%s%s", cell, end);
		}
}
