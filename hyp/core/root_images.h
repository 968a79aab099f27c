/* SPDX-License-Identifier: BSD-2-Clause */
/* The images that root is started from, kept in pages of the pool where no root can reach them. */
#pragma once

#include "abi/hypercall.h"
#include "hyp/x86/boot_info.h"

struct linux_image;

/* Keeps the boot modules' images. Boot CPU, after pool_init and before root's memory is written. */
void root_images_keep(const struct boot_info *info);
/* The image that the next root is started from becomes the current one. False: root is down for
 * good. */
bool root_images_next(void);
/* Fills in kernel, initrd, command line and RSDP of the current image; e820 is the caller's. False:
 * none was kept. */
bool root_images_current(struct linux_image *image);
const char *root_images_label(void);
bool root_images_is_ready(void);
/* How long the current root, on trial, may take to report ready, from its first instruction; 0: it
 * is not on trial. */
uint32_t root_images_trial_ms(void);

/* The hypercalls' work; checks and effects under one lock. 0 or -KEEL_E*. */
int64_t root_images_stage(const struct keel_hc_root_stage *s);
int64_t root_images_data(const struct keel_hc_root_data *d);
int64_t root_images_commit(void);
void root_images_ready(void);
/* Fills in what a status says of images. */
void root_images_status(struct keel_hc_root_status *s);
