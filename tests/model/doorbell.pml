/* SPDX-License-Identifier: BSD-2-Clause */
/* How a doorbell bit and root's event word reach a device process that may die, so that no ring is lost. */
/*
 * Doorbell bits and the root event word (abi/shared.h), with a device process that is killed and comes back at any moment, and root that restarts.
 *
 * Property: every ring is served. The guest waits for it, so a lost one shows as an invalid end state.
 * Bound: ROUNDS rings, KILLS kills of the device process, RESTARTS restarts of root, at any step.
 * -DWRONG: root's handler looks at the VM's bits before it takes the event word; spin must find the lost ring.
 */
#define ROUNDS 3
#define KILLS 2
#define RESTARTS 1

bool bell;      /* keel_vm_shared.doorbells, one bit */
bool pending;   /* keel_root_shared.vm_pending, this VM's bit */
bool irq;       /* the event interrupt is on its way to root */
bool listener;  /* the module has an eventfd for the doorbell */
byte signals;   /* the eventfd's count, as seen by poll */
bool work;      /* something in the ring that nobody has served */
bool over;
byte kills = KILLS;
byte restarts = RESTARTS;

/* hyp: the bit, then the word; the interrupt only if the word was 0. */
inline ring() {
	bool was;
	bell = true;
	atomic { was = pending; pending = true }
	if
	:: was
	:: else -> irq = true
	fi
}

proctype guest() {
	byte i;
	for (i : 1 .. ROUNDS) {
		work = true;
		ring();
		!work
	}
	over = true
}

/* The module's look at one VM: a bit is taken only if somebody listens. */
inline look() {
	if
	:: listener ->
		atomic {
			if
			:: bell && listener -> bell = false; signals = 1
			:: else
			fi
		}
	:: else
	fi
}

proctype module() {
	bool was;
	do
	:: irq ->
		irq = false;
#ifdef WRONG
		look();
		atomic { was = pending; pending = false }
#else
		atomic { was = pending; pending = false };
		if
		:: was -> look()
		:: else
		fi
#endif
	:: over && !irq -> break
	od
}

/* Each life begins by attaching: listen, take a bit that is set already, look at the ring once. */
proctype device() {
attach:
	listener = true;
	look();
	work = false;
	do
	:: signals > 0 ->
		signals = 0;
		if
		:: kills > 0 && !over -> kills--; goto die
		:: work = false
		fi
	:: kills > 0 && !over -> kills--; goto die
	:: over -> break
	od;
	goto end;
die:
	atomic { listener = false; signals = 0 };
	if
	:: restarts > 0 ->
		/* The old root's interrupt and word are gone; its module looks once when it starts (here: by an interrupt). */
		restarts--;
		atomic { pending = false; irq = true }
	:: true
	fi;
	goto attach;
end:
	skip
}

init { atomic { run guest(); run module(); run device() } }
