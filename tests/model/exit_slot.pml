/* SPDX-License-Identifier: BSD-2-Clause */
/* How an exit slot is answered exactly once though device processes die. */
/*
 * An exit slot (abi/shared.h) over kills of the device process and a restart of root.
 *
 * Property: each exit is completed exactly once (assertion), and no vCPU waits for ever (invalid end state).
 * Bound: EXITS exits of one vCPU, KILLS kills of the device process at any step.
 * -DWRONG: a process that attaches looks at the exit_pending bit only, not at the slots; spin must find the vCPU that waits for ever.
 */
#define EXITS 3
#define KILLS 2

bool slot_pending;  /* state: false IDLE, true PENDING */
byte slot_sequence;
bool flag;           /* exit_pending */
bool notified;      /* the device process has been told (eventfd) */
byte completed;     /* how many exits were completed */
byte kills = KILLS;
bool over;

proctype vcpu() {
	byte n;
	for (n : 1 .. EXITS) {
		slot_sequence = n;    /* request first, */
		slot_pending = true;  /* then the state (release), */
		flag = true;           /* then the bit, */
		notified = true;      /* then the event */
		!slot_pending;
		assert(completed == n)
	}
	over = true
}

/* hyp: the sequence must fit a slot that is pending. */
inline complete(seq) {
	atomic {
		if
		:: slot_pending && slot_sequence == seq -> completed++; slot_pending = false
		:: else
		fi
	}
}

proctype device() {
	byte seq;
attach:
#ifndef WRONG
	if
	:: slot_pending -> goto answer
	:: else
	fi;
#endif
serve:
	do
	:: over -> goto end
	:: kills > 0 && !over -> kills--; goto attach
	:: notified ->
		notified = false;
		if
		:: flag -> flag = false; goto answer
		:: else
		fi
	od;
answer:
	/* The bit is taken; a kill from here on leaves only the slot to tell of the exit. */
	if
	:: kills > 0 && !over -> kills--; goto attach
	:: slot_pending -> seq = slot_sequence
	:: !slot_pending -> goto serve
	fi;
	if
	:: kills > 0 && !over -> kills--; goto attach
	:: complete(seq)
	fi;
	/* Twice is refused: the sequence belongs to an exit that is over, or to a slot that is idle. */
	complete(seq);
	goto serve;
end:
	skip
}

init { atomic { run vcpu(); run device() } }
