/* SPDX-License-Identifier: BSD-2-Clause */
/* The keelvm that kills itself: at its start it takes an order, to die at the n-th passing of one
 * fault point. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/faults/hook.h"

/*
 * Orders stand in a file, one a line: FUNCTION PLACE before|after PASSING, parted by tabs. Each
 * process takes the first line away and obeys it; the next one finds the next line. So a second
 * line is a second death, in the recovery of the first. `--points` lists all points there are.
 */
#define ORDERS      "/run/keel/faults"
#define ORDERS_REST "/run/keel/faults.rest"
#define LINE_BYTES  256

extern const struct fault_point __start_fault_points[], __stop_fault_points[];

static const struct fault_point *target;
static atomic_long left;

void fault_point_pass(const struct fault_point *point)
{
	char line[LINE_BYTES];
	int bytes;

	if (point != target || atomic_fetch_sub(&left, 1) != 1)
		return;
	bytes = snprintf(line, sizeof(line), "fault: killed %s the store to %s in %s\n",
	        point->after ? "after" : "before", point->place, point->function);
	if (write(STDERR_FILENO, line, (size_t)bytes) == bytes)
		/* All threads at once. The file with the orders can only be our own to fear. */
		raise(SIGKILL);
	abort();
}

static void print_points(void)
{
	for (const struct fault_point *p = __start_fault_points; p < __stop_fault_points; p++)
		printf("%s\t%s\t%s\n", p->function, p->place, p->after ? "after" : "before");
	exit(0);
}

static void obey(char *line)
{
	const char *function = strtok(line, "\t"), *place = strtok(NULL, "\t"),
	           *when = strtok(NULL, "\t"), *passing = strtok(NULL, "\t\n");

	for (const struct fault_point *p = __start_fault_points; p < __stop_fault_points; p++)
		if (passing != NULL && strcmp(function, p->function) == 0 &&
		        strcmp(place, p->place) == 0 && (strcmp(when, "after") == 0) == p->after) {
			left = atol(passing);
			target = p;
		}
	fprintf(stderr, "fault: %s\n", target != NULL ? "armed" : "no such point");
}

/* Before main, and so before any store. */
__attribute__((constructor)) static void take_order(int argc, char **argv)
{
	FILE *orders = fopen(ORDERS, "r"), *rest;
	char line[LINE_BYTES], more[LINE_BYTES];

	if (argc == 2 && strcmp(argv[1], "--points") == 0)
		print_points();
	if (orders == NULL)
		return;
	if (fgets(line, sizeof(line), orders) == NULL) {
		fclose(orders);
		return;
	}
	rest = fopen(ORDERS_REST, "w");
	while (rest != NULL && fgets(more, sizeof(more), orders) != NULL)
		fputs(more, rest);
	fclose(orders);
	if (rest == NULL || fclose(rest) != 0 || rename(ORDERS_REST, ORDERS) != 0)
		abort();
	obey(line);
}
