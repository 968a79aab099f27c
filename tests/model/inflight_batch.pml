/* SPDX-License-Identifier: BSD-2-Clause */
/* The in-flight log: a device killed between any two stores loses no request and doubles none.
 *
 * The stores of engine/vring.h in their order, one statement each, and a kill possible before every
 * one of them, also in the recovery from an earlier kill. What a process knows is lost with it; the
 * ring and the log stay. Storage answers in any order, in batches of any size.
 *
 * A lost request shows as a deadlock, a doubled one as a head that came back while it was free.
 * Wrong variants, each of which spin must reject:
 * -DWRONG_CLEAR_FIRST: the log is cleared before the used index is published
 * -DWRONG_NO_REPAIR: a batch that was published but not closed is done again
 * -DWRONG_NEWEST: goes on at avail.idx and forgets what was in flight (C-51)
 * -DWRONG_ONE_REPAIRED: the repair of a half closed batch stops at its first head
 */

#define HEADS    2
#ifndef REQUESTS
#define REQUESTS 4
#endif
#ifndef KILLS
#define KILLS    2
#endif

/* The ring. Indices are not wrapped: there are few. */
byte avail_idx, used_idx;
byte avail_ring[HEADS], used_ring[HEADS];

/* The log. */
bool inflight[HEADS];
byte next[HEADS];
byte last_batch_head, log_used_idx;

byte kills;
bool busy[HEADS]; /* the driver's */

proctype driver()
{
	byte made = 0, seen = 0, h;

	do
	:: seen == REQUESTS -> break
	:: made < REQUESTS && !(busy[0] && busy[1]) ->
		atomic {
			if
			:: !busy[0] -> h = 0
			:: !busy[1] -> h = 1
			fi;
			busy[h] = true;
			avail_ring[made % HEADS] = h;
			made++;
			avail_idx = made
		}
	:: used_idx != seen ->
		atomic {
			h = used_ring[seen % HEADS];
			assert(busy[h]);
			busy[h] = false;
			seen++
		}
	od
}

/* A store that a kill may come before. */
#define STEP(store) if :: store :: kills < KILLS -> kills++; goto attach fi

proctype device()
{
	byte last_avail, h, i, batch, start_used;
	bool held[HEADS]; /* what this process has taken and not put */

attach:
	atomic {
		i = 0; batch = 0;
		h = last_batch_head
	};
#ifndef WRONG_NO_REPAIR
	do
	:: log_used_idx + i != used_idx ->
		STEP(inflight[h] = false);
		h = next[h];
		i++
#ifdef WRONG_ONE_REPAIRED
		; break
#endif
	:: else -> break
	od;
#endif
	STEP(log_used_idx = used_idx);
	atomic {
		held[0] = inflight[0];
		held[1] = inflight[1];
#ifdef WRONG_NEWEST
		held[0] = false;
		held[1] = false;
		last_avail = avail_idx
#else
		last_avail = used_idx + inflight[0] + inflight[1]
#endif
	};

	do
	:: avail_idx != last_avail ->
		h = avail_ring[last_avail % HEADS];
		/* vring_pop breaks the queue on this; a driver that keeps the rules never sees it. */
		assert(!inflight[h]);
		STEP(inflight[h] = true);
		held[h] = true;
		last_avail++
	:: held[0] || held[1] ->
		/* A batch of one or two, in any order. */
		start_used = used_idx;
		do
		:: held[0] || held[1] ->
			if
			:: held[0] -> h = 0
			:: held[1] -> h = 1
			fi;
			STEP(used_ring[(start_used + batch) % HEADS] = h);
			STEP(next[h] = last_batch_head);
			STEP(last_batch_head = h);
			held[h] = false;
			batch++
		:: batch > 0 -> break
		od;
#ifndef WRONG_CLEAR_FIRST
		STEP(used_idx = start_used + batch);
#endif
		h = last_batch_head;
		i = 0;
		do
		:: i < batch ->
			STEP(inflight[h] = false);
			h = next[h];
			i++
		:: else -> break
		od;
#ifdef WRONG_CLEAR_FIRST
		STEP(used_idx = start_used + batch);
#endif
		STEP(log_used_idx = used_idx);
		batch = 0
	:: used_idx == REQUESTS && log_used_idx == REQUESTS -> break
	od
}

init {
	atomic {
		run driver();
		run device()
	}
}
