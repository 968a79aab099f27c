/* SPDX-License-Identifier: BSD-2-Clause */
/* /dev/keel as the command uses it: to look, never with the right to serve a VM. */
#pragma once

#include "abi/hypercall.h"

/* A descriptor of /dev/keel, or -1 after a line on standard error with *code = EXIT_*. */
int device_open(int *code);
/* All below: 0 or -errno. */
int device_info(int fd, struct keel_hc_info *info);
/* The first VM with an id of at least head.vm. -ENOENT: none. */
int device_next_vm(int fd, struct keel_hc_vm_info *info);
/* Of root (VM 0) on /dev/keel's descriptor, or of the VM on its own; all its vCPUs added up. */
int device_counters(int fd, struct keel_hc_counters *counters);
/* A descriptor of that VM to look by, or -errno (-ENOENT: there is none of that name). */
int device_open_vm(int fd, const char *name);
int device_open_vm_id(int fd, uint32_t vm);
/* On a VM's descriptor: its console; on /dev/keel's: hyp's log. block: position and bytes wanted.
 */
int device_console_read(int vm_fd, struct keel_hc_console *block);
int device_console_write(int vm_fd, struct keel_hc_console *block);
int device_log_read(int fd, struct keel_hc_console *block);

/* A VM in device_list. */
struct device_vm {
	struct keel_hc_vm_info info;
	struct keel_hc_counters counters;
};
/* Fills in vms[], at most `max`. Returns how many, or -errno. */
int device_list(int fd, struct device_vm *vms, unsigned max);
/* All exits added up, but of kind NONE. */
uint64_t device_exits(const struct keel_hc_counters *counters);
