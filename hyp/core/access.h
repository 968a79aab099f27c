/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a guest's port or MMIO access goes: to hyp's platform, to a doorbell, or to root by the
 * exit slot. */
#pragma once

#include "hyp/core/vm.h"

#define ACCESS_PIO  KEEL_DOORBELL_PIO
#define ACCESS_MMIO KEEL_DOORBELL_MMIO

/*
 * One access of 1 to 8 bytes. True: done, *data holds what a read gave. False: only root can
 * answer; the access is recorded and the vCPU's run_state is KEEL_RUN_EXIT. Once `answered` is set,
 * access_answer gives the data.
 */
bool access_do(
        struct vcpu *v, uint8_t space, uint64_t address, uint32_t size, bool write, uint64_t *data);
/* Takes the answer of a parked access: what a read gives, cut to its size. */
uint64_t access_answer(struct vcpu *v);

/*
 * The parked vCPU leaves this CPU (sched_put as EXIT) and root is told. Last of all: v may run
 * elsewhere before this returns. Needs: vm->inside held.
 */
void access_park(struct vcpu *v);
/* (any CPU) Root's answer. 0; -KEEL_EAGAIN: that exit does not wait (any more); HYPERCALL_AGAIN:
 * not now. */
int64_t access_complete(struct vm *vm, uint32_t index, uint32_t sequence, uint64_t data);
/* (any CPU) A reset: what waits is dropped, its answer would be refused. Needs: the VM still. */
void access_drop(struct vcpu *v);
