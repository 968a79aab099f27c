/* SPDX-License-Identifier: BSD-2-Clause */
/* Two places for root's images, and how the next one is brought here by the current root. */

#include "hyp/core/root_images.h"
#include "hyp/core/pool.h"
#include "hyp/core/root_plan.h"
#include "hyp/x86/linux_image.h"
#include "hyp/x86/x86.h"
#include "lib/spinlock.h"
#include "lib/string.h"

#define READY_MS 180000u

struct image {
	uint32_t frame; /* HPA >> 21 of its first page; the initramfs follows the kernel,
	                   page-aligned */
	uint64_t kernel_bytes, initrd_bytes;
	uint64_t initrd_offset; /* from the first page */
	uint32_t ready_ms;
	char label[KEEL_ROOT_LABEL_BYTES];
	char cmdline[KEEL_ROOT_CMDLINE_BYTES];
};
_Static_assert(BOOT_CMDLINE_MAX <= KEEL_ROOT_CMDLINE_BYTES, "a boot command line fits");

static struct spinlock lock; /* all below, but what is (c) */
static struct image images[2];
static struct root_plan plan;
static bool bringing; /* the free place is taken and not yet committed */
static uint64_t rsdp; /* (c) after boot */

static uint8_t *image_bytes(const struct image *m)
{
	return hpa_to_virt(HPA((uint64_t)m->frame << 21));
}

/* Takes pages for m's sizes. Needs: the place is empty. */
static bool take_pages(unsigned place)
{
	struct image *m = &images[place];
	uint64_t bytes;

	m->initrd_offset = (m->kernel_bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	bytes = m->initrd_offset + m->initrd_bytes;
	return pool_take_run(POOL_ROOT_IMAGE(place),
	        (uint32_t)((bytes + LARGE_BYTES - 1) / LARGE_BYTES), &m->frame);
}

static void empty_place(unsigned place)
{
	if (images[place].kernel_bytes != 0)
		pool_give_all(POOL_ROOT_IMAGE(place));
	memset(&images[place], 0, sizeof(images[place]));
}

void root_images_keep(const struct boot_info *info)
{
	struct image *m = &images[0];

	rsdp = info->rsdp;
	m->kernel_bytes = info->modules[0].size_bytes;
	m->initrd_bytes = info->module_count > 1 ? info->modules[1].size_bytes : 0;
	if (!take_pages(0)) {
		memset(m, 0, sizeof(*m));
		log_line("root: the pool has no piece large enough to keep root's images: root "
		         "cannot be "
		         "started again without a reset of the machine");
		return;
	}
	memcpy(m->label, "as booted", sizeof("as booted"));
	memcpy(m->cmdline, info->modules[0].cmdline, BOOT_CMDLINE_MAX);
	memcpy(image_bytes(m), hpa_to_virt(info->modules[0].start), m->kernel_bytes);
	if (m->initrd_bytes != 0)
		memcpy(image_bytes(m) + m->initrd_offset, hpa_to_virt(info->modules[1].start),
		        m->initrd_bytes);
}

bool root_images_next(void)
{
	bool up;

	spin_lock(&lock);
	bringing = false; /* who brought it is gone */
	up = root_plan_next(&plan) != ROOT_PLAN_NONE;
	spin_unlock(&lock);
	return up;
}

bool root_images_current(struct linux_image *image)
{
	const struct image *m;

	if (plan.current == ROOT_PLAN_NONE || images[plan.current].kernel_bytes == 0)
		return false;
	m = &images[plan.current];
	image->kernel = virt_to_hpa(image_bytes(m));
	image->kernel_bytes = m->kernel_bytes;
	image->initrd = virt_to_hpa(image_bytes(m) + m->initrd_offset);
	image->initrd_bytes = m->initrd_bytes;
	image->cmdline = m->cmdline;
	image->rsdp = rsdp;
	return true;
}

const char *root_images_label(void)
{
	return plan.current == ROOT_PLAN_NONE ? "none" : images[plan.current].label;
}

bool root_images_is_ready(void)
{
	return plan.ready;
}

uint32_t root_images_trial_ms(void)
{
	return plan.current == plan.good ? 0 : images[plan.current].ready_ms;
}

static bool terminated(const char *text, size_t size)
{
	return strnlen(text, size) < size;
}

static int64_t stage(const struct keel_hc_root_stage *s)
{
	uint32_t place = root_plan_free(&plan);
	struct image *m;

	if (place == ROOT_PLAN_NONE)
		return -KEEL_EBUSY;
	m = &images[place];
	plan.staged = bringing = false;
	empty_place(place);
	if (s->kernel_bytes == 0)
		return 0;
	m->kernel_bytes = s->kernel_bytes;
	m->initrd_bytes = s->initrd_bytes;
	m->ready_ms = s->ready_ms != 0 ? s->ready_ms : READY_MS;
	if (!take_pages(place)) {
		memset(m, 0, sizeof(*m));
		return -KEEL_ENOMEM;
	}
	memcpy(m->label, s->label, sizeof(m->label));
	memcpy(m->cmdline, s->cmdline, sizeof(m->cmdline));
	bringing = true;
	return 0;
}

int64_t root_images_stage(const struct keel_hc_root_stage *s)
{
	const uint64_t max = 1ull << 32;
	int64_t result;

	if (s->kernel_bytes > max || s->initrd_bytes > max ||
	        (s->kernel_bytes == 0 && s->initrd_bytes != 0) || s->reserved != 0 ||
	        !terminated(s->label, sizeof(s->label)) ||
	        !terminated(s->cmdline, sizeof(s->cmdline)))
		return -KEEL_EINVAL;
	spin_lock(&lock);
	result = stage(s);
	spin_unlock(&lock);
	return result;
}

int64_t root_images_data(const struct keel_hc_root_data *d)
{
	const struct image *m;
	int64_t result = -KEEL_EINVAL;
	uint64_t size, at;

	if (d->image > KEEL_ROOT_INITRD || d->bytes == 0 || d->bytes > KEEL_ROOT_PIECE)
		return -KEEL_EINVAL;
	spin_lock(&lock);
	if (bringing) {
		m = &images[root_plan_free(&plan)];
		size = d->image == KEEL_ROOT_KERNEL ? m->kernel_bytes : m->initrd_bytes;
		at = d->image == KEEL_ROOT_KERNEL ? 0 : m->initrd_offset;
		if (d->offset <= size && d->bytes <= size - d->offset) {
			memcpy(image_bytes(m) + at + d->offset, d->data, d->bytes);
			result = 0;
		}
	}
	spin_unlock(&lock);
	return result;
}

int64_t root_images_commit(void)
{
	struct linux_layout layout;
	const struct image *m;
	const char *why;
	int64_t result = -KEEL_EINVAL;

	spin_lock(&lock);
	if (bringing) {
		m = &images[root_plan_free(&plan)];
		why = linux_image_parse(image_bytes(m), m->kernel_bytes, &layout);
		if (why != NULL)
			log_line("root: the staged kernel is refused: %s", why);
		else
			result = 0;
		plan.staged = why == NULL;
		bringing = false;
	}
	spin_unlock(&lock);
	return result;
}

void root_images_ready(void)
{
	bool news;

	spin_lock(&lock);
	news = plan.current != ROOT_PLAN_NONE && root_plan_ready(&plan);
	spin_unlock(&lock);
	if (news)
		log_line("root: ready; its image \"%s\" is the good one", root_images_label());
}

void root_images_status(struct keel_hc_root_status *s)
{
	spin_lock(&lock);
	s->ready = plan.ready;
	s->is_good = plan.current == plan.good;
	s->staged = plan.staged;
	memcpy(s->good_label, images[plan.good].label, sizeof(s->good_label));
	if (plan.current != ROOT_PLAN_NONE)
		memcpy(s->label, images[plan.current].label, sizeof(s->label));
	if (plan.staged)
		memcpy(s->staged_label, images[1 - plan.good].label, sizeof(s->staged_label));
	spin_unlock(&lock);
}
