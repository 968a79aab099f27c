/* SPDX-License-Identifier: BSD-2-Clause */
/* The rule of root_plan.h. */

#include "hyp/core/root_plan.h"

uint32_t root_plan_next(struct root_plan *p)
{
	bool was_good = p->current == p->good;

	if (p->ready)
		p->failures = 0;
	else if (was_good)
		p->failures++;
	p->ready = false;
	if (p->staged) {
		p->staged = false;
		p->current = 1 - p->good;
	} else {
		p->current = p->failures < ROOT_PLAN_TRIES ? p->good : ROOT_PLAN_NONE;
	}
	return p->current;
}

bool root_plan_ready(struct root_plan *p)
{
	bool news = !p->ready;

	p->ready = true;
	p->failures = 0;
	p->good = p->current;
	return news;
}

uint32_t root_plan_free(const struct root_plan *p)
{
	return p->current == p->good ? 1 - p->good : ROOT_PLAN_NONE;
}
