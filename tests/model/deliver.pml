/* SPDX-License-Identifier: BSD-2-Clause */
/* Workers that answer a disk queue's thread: none of their answers is slept over, and none of them
 * touches a queue that was taken down.
 *
 * Worker (blk_queue_deliver):            Thread (wait_for_work, reap_done, thread_end):
 *   delivering++                           take the whole list `done`
 *   push onto `done`, a full fence         all answered: wait until delivering is 0, take down
 *   if sleeps, and it was I who            sleeps := true           buffered, then a full fence
 *   took it back: signal done_fd           look at `done`: sleep until a signal only if empty
 *   delivering--                           sleeps := false
 *
 * As on x86 a store waits in its CPU's buffer until memory takes it or a fence waits for that; the
 * workers' steps are locked instructions, which are fences. A signal stays until it is taken, as a
 * multishot poll's does. An answer slept over shows as a deadlock.
 *
 * Wrong variants, each of which spin must reject:
 * -DWRONG_LOOK_FIRST: looks at the list before it says that it sleeps
 * -DWRONG_NO_FENCE: looks while its own store may still be in the buffer
 * -DWRONG_NO_COUNT: is taken down while a worker is still about to signal
 */

#define WORKERS 3

byte done;        /* length of the list */
byte delivering;
bool sleeps;      /* visible */
bool buffered, store;
bool signal;
bool gone;        /* the queue was taken down */

proctype drain()
{
end:	do
	:: atomic { buffered -> sleeps = store; buffered = false }
	od
}

inline put_sleeps(value)
{
	atomic { !buffered -> store = value; buffered = true }
}

proctype worker()
{
	bool mine;

	assert(!gone);
	delivering++;
	atomic { assert(!gone); done++ }
	assert(delivering > 0);
	if
	:: sleeps ->
		atomic { mine = sleeps; sleeps = false };
		if
		:: mine -> assert(!gone); signal = true
		:: else
		fi
	:: else
	fi;
	atomic { assert(!gone); delivering-- }
}

proctype thread()
{
	byte left = WORKERS;
	bool seen;

	do
	:: atomic { left = left - done; done = 0 };
		if
		:: left == 0 -> break
		:: else
		fi;
#ifdef WRONG_LOOK_FIRST
		seen = (done != 0);
		put_sleeps(true);
		(!buffered);
#else
		put_sleeps(true);
#ifndef WRONG_NO_FENCE
		(!buffered);
#endif
		seen = (done != 0);
#endif
		if
		:: seen
		:: else -> atomic { signal -> signal = false }
		fi;
		put_sleeps(false)
	od;
#ifndef WRONG_NO_COUNT
	(delivering == 0);
#endif
	gone = true
}

init {
	byte i = 0;

	atomic {
		run drain();
		run thread();
		do
		:: i < WORKERS -> run worker(); i++
		:: else -> break
		od
	}
}
