/* SPDX-License-Identifier: BSD-2-Clause */
/* What a VM is put together from: record, partition, taps, processes; one call makes or removes
 * each. */
#pragma once

#include "keeld/keeld.h"

/* Reads the VM's file and finds what would fail later. *vm->file is it then. */
bool vm_load_checked(struct vm *vm, struct vmfile_error *error);
/* Each makes one thing or nothing; false: *error says why. Needs: vm_load_checked before, nothing
 * in between. */
bool vm_make_record(struct vm *vm, struct vmfile_error *error);
bool vm_make_partition(struct vm *vm, struct vmfile_error *error);
bool vm_make_taps(struct vm *vm, struct vmfile_error *error);

/* For a VM that runs: those that are missing, as in a root that has just started. A failure is
 * logged; the VM goes on without that net. */
void vm_add_taps(struct vm *vm);
void vm_remove_taps(struct vm *vm);
/* What is left when the partition is gone: taps, records, a control socket without a listener. */
void vm_forget_parts(struct vm *vm);

/* Starts the formatter or the device process. 0 or -errno. */
int vm_spawn(struct vm *vm, bool format);
/* Why the process that has just ended says that it did: its last line. */
void vm_read_failure(const struct vm *vm, char *out, size_t out_bytes);
/* False: too long. */
bool vm_socket_path(const struct vm *vm, char path[KEELD_PATH_BYTES]);
