/* SPDX-License-Identifier: BSD-2-Clause */
/* A vCPU that cannot go on, and what the log says of it. */
#pragma once

struct vcpu;

/* Its registers, and the last exits of this CPU; a few times for each VM. Owner CPU, after an exit.
 */
void vm_tell_state(struct vcpu *v);
/* The exit of a triple fault: the VM stops and asks to be reset. */
void vm_shutdown(struct vcpu *v);
