/* SPDX-License-Identifier: BSD-2-Clause */
/* bench-net: two guests' drivers on two taps of one bridge, and what a frame between them costs. */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/lib/clock.h"
#include "bench/net/load.h"

#define GUESTS    2u
#define WAIT_MS   100
#define TURNS_MAX 64u /* in a row without sleep, then a look at whether it is over */
/* No answer for so long: sent anew. The first frames meet a bridge that does not forward yet. */
#define LATE_NS       1000000000ull
#define LATE_FIRST_NS 100000000ull
#define STUCK_NS      10000000000ull

struct options {
	const char *taps[GUESTS];
	double seconds, warmup;
	uint32_t bytes, watch_ns;
	unsigned window;
	bool both, bare, poll, verify;
};

struct guest {
	struct load load;
	const struct options *o;
	pthread_t thread;
	bool ends, failed; /* (any) */
};

struct sums {
	uint64_t frames, bytes, kicks, calls, lost, given_up, all_ns, guests_ns, wall_ns;
};

/* ---- one guest ------------------------------------------------------------------------------- */

/* When the peer last answered, and when what is on its way was last given up. */
struct patience {
	uint64_t acked, answered_ns, begun_ns;
};

static void patience_look(struct patience *p, struct load *l)
{
	uint64_t now = clock_ns();

	if (l->acked != p->acked || !l->window || !p->begun_ns) {
		p->acked = l->acked;
		p->answered_ns = p->begun_ns = now;
	} else if (now - p->answered_ns > STUCK_NS) {
		snprintf(l->error, sizeof(l->error), "nothing arrives");
	} else if (now - p->begun_ns > (l->acked == l->given_up ? LATE_FIRST_NS : LATE_NS)) {
		load_give_up(l);
		p->acked = l->acked;
		p->begun_ns = now;
	}
}

static void *guest_main(void *arg)
{
	struct guest *g = arg;
	struct port *port = g->load.port;
	struct patience patience = {0};

	while (!__atomic_load_n(&g->ends, __ATOMIC_RELAXED) && !g->load.error[0]) {
		unsigned turns = 0;

		while (turns++ < TURNS_MAX && (load_turn(&g->load) || g->o->poll))
			;
		if (turns <= TURNS_MAX)
			port->rest(port, WAIT_MS);
		patience_look(&patience, &g->load);
	}
	__atomic_store_n(&g->failed, g->load.error[0] != 0, __ATOMIC_RELAXED);
	return NULL;
}

/* ---- both ------------------------------------------------------------------------------------ */

static struct sums sums_take(struct guest *guests)
{
	struct sums s = {.all_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID), .wall_ns = clock_ns()};

	for (unsigned i = 0; i < GUESTS; i++) {
		struct load *l = &guests[i].load;
		clockid_t own;

		s.frames += __atomic_load_n(&l->received, __ATOMIC_RELAXED);
		s.bytes += __atomic_load_n(&l->received_bytes, __ATOMIC_RELAXED);
		s.lost += __atomic_load_n(&l->lost, __ATOMIC_RELAXED);
		s.given_up += __atomic_load_n(&l->given_up, __ATOMIC_RELAXED);
		s.kicks += __atomic_load_n(&l->port->kicks, __ATOMIC_RELAXED);
		s.calls += __atomic_load_n(&l->port->calls, __ATOMIC_RELAXED);
		if (!pthread_getcpuclockid(guests[i].thread, &own))
			s.guests_ns += clock_of(own);
	}
	return s;
}

/* A bridge forwards nothing until it has noticed that its ports have somebody. */
static void first_await(const struct guest *guests)
{
	while (!__atomic_load_n(&guests[1].load.received, __ATOMIC_RELAXED) &&
	        !__atomic_load_n(&guests[0].failed, __ATOMIC_RELAXED))
		sleep_s(0.01);
}

static void report(const struct guest *guests, const struct sums *a, const struct sums *b)
{
	double seconds = (double)(b->wall_ns - a->wall_ns) / 1e9;
	double frames = (double)(b->frames - a->frames);
	double per = frames > 0 ? frames : 1;
	uint64_t all = b->all_ns - a->all_ns, guest = b->guests_ns - a->guests_ns, verified = 0;
	static struct hist times;

	for (unsigned i = 0; i < GUESTS; i++) {
		hist_merge(&times, guests[i].load.hist);
		verified += guests[i].load.verified;
	}
	printf("{\"seconds\": %.3f, \"frames\": %.0f, \"frames_s\": %.1f, \"mb_s\": %.2f,\n"
	       " \"answer_us_p50\": %.2f, \"answer_us_p99\": %.2f,\n"
	       " \"cpu_us_per_frame\": %.3f, \"device_cpu_us_per_frame\": %.3f,\n"
	       " \"kicks_per_frame\": %.4f, \"calls_per_frame\": %.4f, \"lost\": %llu, "
	       "\"given_up\": %llu, \"verified\": %llu}\n",
	        seconds, frames, frames / seconds, (double)(b->bytes - a->bytes) / 1e6 / seconds,
	        hist_quantile_us(&times, 0.5), hist_quantile_us(&times, 0.99),
	        (double)all / 1e3 / per, (double)(all - guest) / 1e3 / per,
	        (double)(b->kicks - a->kicks) / per, (double)(b->calls - a->calls) / per,
	        (unsigned long long)(b->lost - a->lost),
	        (unsigned long long)(b->given_up - a->given_up), (unsigned long long)verified);
}

static int guest_begin(struct guest *g, const struct options *o, unsigned index)
{
	struct load *l = &g->load;
	struct port_config c = {.tap = o->taps[index],
	        .frame_bytes = LOAD_HEADS + o->bytes,
	        .watch_ns = o->watch_ns};
	char error[256] = "out of memory";

	g->o = o;
	memcpy(l->mac, "\x52\x54\x00\x6b\x65\x01", 6);
	memcpy(l->peer, l->mac, 6);
	l->mac[5] = (uint8_t)(index + 1);
	l->peer[5] = (uint8_t)(2 - index);
	memcpy(c.mac, l->mac, 6);
	l->bytes = o->bytes;
	l->verify = o->verify;
	l->window = index == 0 || o->both ? o->window : 0;
	l->hist = calloc(1, sizeof(*l->hist));
	if (l->hist)
		l->port = o->bare ? port_open_bare(&c, error, sizeof(error))
		                  : port_open_engine(&c, error, sizeof(error));
	if (!l->port)
		fprintf(stderr, "bench-net: %s\n", error);
	return l->port ? 0 : -1;
}

static int run(const struct options *o)
{
	static struct guest guests[GUESTS];
	struct sums a, b;
	int rc = 0;

	for (unsigned i = 0; i < GUESTS; i++)
		if (guest_begin(&guests[i], o, i))
			return 1;
	for (unsigned i = 0; i < GUESTS; i++)
		pthread_create(&guests[i].thread, NULL, guest_main, &guests[i]);
	first_await(guests);
	sleep_s(o->warmup);
	for (unsigned i = 0; i < GUESTS; i++)
		__atomic_store_n(&guests[i].load.is_timed, true, __ATOMIC_RELAXED);
	a = sums_take(guests);
	sleep_s(o->seconds);
	b = sums_take(guests);
	for (unsigned i = 0; i < GUESTS; i++)
		__atomic_store_n(&guests[i].ends, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < GUESTS; i++) {
		pthread_join(guests[i].thread, NULL);
		if (guests[i].failed)
			fprintf(stderr, "bench-net: guest %u: %s\n", i, guests[i].load.error);
		rc |= guests[i].failed;
	}
	report(guests, &a, &b);
	for (unsigned i = 0; i < GUESTS; i++) {
		guests[i].load.port->close(guests[i].load.port);
		free(guests[i].load.hist);
	}
	return rc;
}

/* ---- the command line ------------------------------------------------------------------------ */

static const char usage_text[] =
        "usage: bench-net --tap=NAME --tap=NAME [options]\n"
        "  two taps (vnet_hdr, up, one bridge), each the card of a guest that is played here\n"
        "  --bytes=N       payload of a frame: 32 to 65160; 65160. Above 1448 by segmentation\n"
        "  --window=N      frames on their way; 16\n"
        "  --both          both guests send\n"
        "  --bare          the taps themselves, without virtqueues and engine: the limit\n"
        "  --poll          guests look for frames all the time, no interrupts\n"
        "  --verify        each byte\n"
        "  --watch=NS      the engine's ring watch; 32000\n"
        "  --seconds=S --warmup=S   3, after 0.3 that do not count\n"
        "Prints one JSON object. Exit code 1: a wrong frame, or none; 2: not understood.\n";

enum {
	O_TAP = 1,
	O_BYTES,
	O_WINDOW,
	O_BOTH,
	O_BARE,
	O_POLL,
	O_VERIFY,
	O_WATCH,
	O_SECONDS,
	O_WARMUP,
	O_HELP
};

static const struct option table[] = {{"tap", 1, NULL, O_TAP}, {"bytes", 1, NULL, O_BYTES},
        {"window", 1, NULL, O_WINDOW}, {"both", 0, NULL, O_BOTH}, {"bare", 0, NULL, O_BARE},
        {"poll", 0, NULL, O_POLL}, {"verify", 0, NULL, O_VERIFY}, {"watch", 1, NULL, O_WATCH},
        {"seconds", 1, NULL, O_SECONDS}, {"warmup", 1, NULL, O_WARMUP}, {"help", 0, NULL, O_HELP},
        {NULL, 0, NULL, 0}};

static bool option_take(struct options *o, int which)
{
	uint64_t n = optarg ? strtoull(optarg, NULL, 10) : 0;

	switch (which) {
	case O_TAP:
		if (o->taps[1])
			return false;
		o->taps[o->taps[0] ? 1 : 0] = optarg;
		return true;
	case O_BYTES: o->bytes = (uint32_t)n; return n >= LOAD_BYTES_MIN && n <= LOAD_BYTES_MAX;
	case O_WINDOW: o->window = (unsigned)n; return n && n <= 256;
	case O_BOTH: o->both = true; return true;
	case O_BARE: o->bare = true; return true;
	case O_POLL: o->poll = true; return true;
	case O_VERIFY: o->verify = true; return true;
	case O_WATCH: o->watch_ns = (uint32_t)n; return n <= 1000000000;
	case O_SECONDS: o->seconds = atof(optarg); return o->seconds > 0;
	case O_WARMUP: o->warmup = atof(optarg); return o->warmup >= 0;
	default: return false;
	}
}

int main(int argc, char **argv)
{
	struct options o = {.seconds = 3,
	        .warmup = 0.3,
	        .bytes = LOAD_BYTES_MAX,
	        .window = 16,
	        .watch_ns = 32000};
	int which;

	while ((which = getopt_long(argc, argv, "", table, NULL)) != -1) {
		if (which == O_HELP)
			return fputs(usage_text, stdout) < 0;
		if (!option_take(&o, which))
			goto wrong;
	}
	if (optind == argc && o.taps[1])
		return run(&o);
wrong:
	fputs(usage_text, stderr);
	return 2;
}
