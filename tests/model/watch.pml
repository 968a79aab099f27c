/* SPDX-License-Identifier: BSD-2-Clause */
/* The hand-off between ring watch and sleep: no request is ever left unattended.
 *
 * Two rings, each with a driver and the device's thread, and the one token that lets a thread watch.
 * What is modelled is who sees which store when: as on x86, a store waits in its CPU's buffer until
 * a process "drain" or a full fence makes it visible, while that CPU's own loads see memory only.
 *
 * Driver (guest):                       Thread (engine/blk_queue.c):
 *   avail.idx := n         buffered       take all that is visible
 *   full fence                            watch, if it gets the token: look some times
 *   look at avail_event; kick if asked    avail_event := last_avail    buffered (vring_notify_on)
 *                                         full fence
 *                                         look once more; sleep until a kick only if nothing
 *
 * avail_event is modelled as a flag for each ring, on or off, as used.flags is; with event index the
 * thread's store says the same: "kick for the next one".
 *
 * A lost hand-off shows as a deadlock: the driver waits for its last answer, the thread for a kick.
 * Wrong variants, each of which spin must reject:
 * -DWRONG_NO_LAST_LOOK: sleeps without looking after notifications are on
 * -DWRONG_NO_FENCE: looks, but its own store may still be in the buffer
 * -DWRONG_DRIVER_FENCE: the driver's fence is missing (shows that the pairing is needed)
 * -DWRONG_TOKEN: takes the token without an atomic test-and-set
 */

#define RINGS    2
#ifndef REQUESTS
#define REQUESTS 2
#endif
#ifndef LOOKS
#define LOOKS    1
#endif

byte avail[RINGS];       /* visible: how many requests were made available */
byte used[RINGS];        /* visible: how many were answered */
bool notify[RINGS];      /* visible: kicks are wanted */
bool kicked[RINGS];      /* the eventfd */
bool watched;            /* the token */
byte watchers;           /* who believes to have it: the claim */

/* Store buffers: one store each is enough, since each side has one store that matters. */
bool driver_buffered[RINGS];
byte driver_store[RINGS];
bool device_buffered[RINGS];
bool device_store[RINGS];

inline driver_fence(r) { (!driver_buffered[r]) }
inline device_fence(r) { (!device_buffered[r]) }

/* Memory makes buffered stores visible in its own time. */
proctype drain(byte r)
{
end:	do
	:: atomic { driver_buffered[r] -> avail[r] = driver_store[r]; driver_buffered[r] = false }
	:: atomic { device_buffered[r] -> notify[r] = device_store[r]; device_buffered[r] = false }
	od
}

proctype driver(byte r)
{
	byte made = 0;

	do
	:: made < REQUESTS ->
		made++;
		/* A store behind another one waits for it. */
		atomic { !driver_buffered[r] -> driver_store[r] = made; driver_buffered[r] = true };
#ifndef WRONG_DRIVER_FENCE
		driver_fence(r);
#endif
		if
		:: notify[r] -> kicked[r] = true
		:: else
		fi;
		/* Sometimes it waits for the answer first, sometimes it queues more. */
		if
		:: (used[r] == made)
		:: true
		fi
	:: else -> break
	od;
	(used[r] == REQUESTS)
}

proctype thread(byte r)
{
	byte last = 0, looks;
	bool has_token, hit, worked;

	do
	:: last == REQUESTS -> break
	:: else ->
		worked = (avail[r] != last);
		last = avail[r];
		used[r] = last;
		if
		:: last == REQUESTS -> break
		:: else
		fi;
		hit = false;
		has_token = false;
		/* Only after work is there a watch, and only one watches. */
		if
		:: worked ->
#ifdef WRONG_TOKEN
			if
			:: !watched -> watched = true; has_token = true
			:: else
			fi
#else
			atomic {
				if
				:: !watched -> watched = true; has_token = true
				:: else
				fi
			}
#endif
		:: else
		fi;
		if
		:: has_token ->
			watchers++;
			assert(watchers == 1);
			looks = 0;
			do
			:: looks < LOOKS && !hit -> hit = (avail[r] != last); looks++
			:: else -> break
			od;
			watchers--;
			watched = false
		:: else
		fi;
		if
		:: hit
		:: else ->
			atomic { !device_buffered[r] -> device_store[r] = true; device_buffered[r] = true };
#ifndef WRONG_NO_FENCE
			device_fence(r);
#endif
#ifndef WRONG_NO_LAST_LOOK
			if
			:: avail[r] != last
			:: else -> atomic { kicked[r] -> kicked[r] = false }
			fi;
#else
			atomic { kicked[r] -> kicked[r] = false };
#endif
			atomic { !device_buffered[r] -> device_store[r] = false; device_buffered[r] = true }
		fi
	od
}

init {
	byte i;

	atomic {
		for (i : 0 .. RINGS - 1) {
			run drain(i);
			run driver(i);
			run thread(i)
		}
	}
}
