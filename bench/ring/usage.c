/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading /proc. */
#include "bench/ring/usage.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t thread_ns(pid_t pid, const char *tid)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", pid, tid);
	in = fopen(path, "re");
	if (in) {
		if (fscanf(in, "%llu", &ns) != 1)
			ns = 0;
		fclose(in);
	}
	return ns;
}

static uint64_t thread_switches(pid_t pid, const char *tid)
{
	unsigned long long n = 0;
	char path[64], line[128];
	FILE *in;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/status", pid, tid);
	in = fopen(path, "re");
	if (!in)
		return 0;
	while (fgets(line, sizeof(line), in))
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1)
			break;
	fclose(in);
	return n;
}

static void device_take(struct usage *u, pid_t pid)
{
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return;
	for (struct dirent *e; (e = readdir(dir));) {
		if (e->d_name[0] == '.')
			continue;
		u->device_ns += thread_ns(pid, e->d_name);
		u->device_switches += thread_switches(pid, e->d_name);
	}
	closedir(dir);
}

static uint64_t machine_busy_ns(void)
{
	unsigned long long v[8] = {0};
	FILE *in = fopen("/proc/stat", "re");
	int n = 0;

	if (in) {
		n = fscanf(in, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
		        &v[3], &v[4], &v[5], &v[6], &v[7]);
		fclose(in);
	}
	if (n != 8)
		return 0;
	/* All but idle (3) and waiting for storage (4); in ticks. */
	return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) *
	       (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
}

void usage_take(struct usage *u, pid_t device)
{
	struct timespec own;

	memset(u, 0, sizeof(*u));
	device_take(u, device);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
	u->own_ns = (uint64_t)own.tv_sec * 1000000000ull + (uint64_t)own.tv_nsec;
	u->busy_ns = machine_busy_ns();
}

double usage_others(const struct usage *before, const struct usage *after, double seconds)
{
	double all = (double)(after->busy_ns - before->busy_ns);
	double ours = (double)(after->device_ns - before->device_ns) +
	              (double)(after->own_ns - before->own_ns);

	return all > ours ? (all - ours) / seconds / 1e9 : 0;
}
