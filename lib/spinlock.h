/* SPDX-License-Identifier: BSD-2-Clause */
/* The one lock of hyp: short sections between CPUs; works in a program too, so that tests can use
 * what holds it. */
#pragma once

#include "abi/types.h"

/* All zero is unlocked. Not recursive. hyp takes it with interrupts held, so that a holder is never
 * away for long. */
struct spinlock {
	uint32_t held;
};

static inline void spin_lock(struct spinlock *lock)
{
	while (__atomic_exchange_n(&lock->held, 1u, __ATOMIC_ACQUIRE) != 0)
		while (__atomic_load_n(&lock->held, __ATOMIC_RELAXED) != 0)
			__builtin_ia32_pause();
}

static inline bool spin_trylock(struct spinlock *lock)
{
	return __atomic_exchange_n(&lock->held, 1u, __ATOMIC_ACQUIRE) == 0;
}

/* Pairs with the acquiring exchange of the next holder. */
static inline void spin_unlock(struct spinlock *lock)
{
	__atomic_store_n(&lock->held, 0u, __ATOMIC_RELEASE);
}
