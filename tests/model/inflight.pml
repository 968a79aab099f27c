/* SPDX-License-Identifier: BSD-2-Clause */
/* How the in-flight log makes every request be answered exactly once though device processes die. */
/*
 * The in-flight log of a split virtqueue (vhost-user protocol, "Inflight I/O tracking"; engine/vring.c), with a device process that is killed at any
 * step, also within the recovery.
 *
 * Property: every request gets exactly one used entry (assertions), and the guest gets all of them back (invalid end state).
 * Bound: REQUESTS requests over HEADS descriptors, KILLS kills.
 * -DWRONG: a new process goes on at the guest's newest request; spin must find the one that is skipped.
 * -DWRONG_BATCH: the recovery does not look for a batch half published; spin must find the request that is answered twice.
 */
#define REQUESTS 4
#define HEADS 2
#define KILLS 2

byte avail_idx;            /* guest: requests made available */
byte avail_head[REQUESTS];
byte used_idx;             /* device: used entries published */
byte used_head[REQUESTS + 1];
bool outstanding[HEADS];   /* guest: this head waits for its used entry */
/* The log, in the vault. */
bool inflight[HEADS];
byte last_batch_head;
byte log_used_idx;

byte kills = KILLS;
bool over;

#define KILL if :: kills > 0 && !over -> kills--; goto recover :: true fi

proctype guest() {
	byte made, seen, head;
	do
	:: made < REQUESTS && (!outstanding[0] || !outstanding[1]) ->
		if
		:: !outstanding[0] -> head = 0
		:: !outstanding[1] -> head = 1
		fi;
		outstanding[head] = true;
		avail_head[made] = head;
		made++;
		avail_idx = made
	:: seen < used_idx ->
		head = used_head[seen];
		assert(outstanding[head]); /* else: answered twice */
		outstanding[head] = false;
		seen++
	:: seen == REQUESTS -> break
	od;
	over = true
}

proctype device() {
	byte last_avail, head, i;
recover:
	/* A batch (here: of one) half published: the used index says that it was. */
#ifndef WRONG_BATCH
	if
	:: log_used_idx != used_idx ->
		inflight[last_batch_head] = false;
		KILL;
		log_used_idx = used_idx
	:: else
	fi;
	KILL;
#endif
	/* What was taken is what was published and what is in the log. */
#ifdef WRONG
	last_avail = avail_idx;
#else
	last_avail = used_idx + inflight[0] + inflight[1];
#endif
	do
	:: inflight[0] -> head = 0; goto finish
	:: inflight[1] -> head = 1; goto finish
	:: !inflight[0] && !inflight[1] && last_avail < avail_idx ->
		head = avail_head[last_avail];
		KILL;
		inflight[head] = true; /* in the log before it is acted on */
		last_avail++;
		KILL;
finish:
		used_head[used_idx] = head;
		KILL;
		last_batch_head = head;
		KILL;
		used_idx++;
		KILL;
		inflight[head] = false;
		KILL;
		log_used_idx = used_idx
	:: over -> break
	od
}

init { atomic { run guest(); run device() } }
