/* SPDX-License-Identifier: BSD-2-Clause */
/* The fake hypervisor's calls: each does to plain fields what hyp does, with hyp's refusals. */
#include "tests/unit/vmm/hv_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/cpuid.h"
#include "vmm/layout.h"

static struct hv_fake *of(struct hv *hv)
{
	return (struct hv_fake *)hv;
}

static void fake_close(struct hv *hv)
{
	hv_fake_free(of(hv));
}

static int fake_info(struct hv *hv, struct keel_hc_vm_info *info)
{
	*info = (struct keel_hc_vm_info){.head = {.vm = hv->vm},
	        .vcpus = hv->vcpus,
	        .ram_bytes = hv->ram_bytes,
	        .vault_bytes = hv->vault_bytes,
	        .state = of(hv)->state,
	        .away_policy = of(hv)->away_policy};
	return 0;
}

static int fake_run(struct hv *hv)
{
	of(hv)->runs++;
	of(hv)->state = KEEL_VM_STATE_RUNNING;
	return 0;
}

static int fake_pause(struct hv *hv)
{
	of(hv)->pauses++;
	if (of(hv)->state == KEEL_VM_STATE_RUNNING)
		of(hv)->state = KEEL_VM_STATE_PAUSED;
	return 0;
}

static int fake_reset(struct hv *hv)
{
	if (of(hv)->state == KEEL_VM_STATE_RUNNING)
		return -EBUSY;
	of(hv)->resets++;
	of(hv)->state = KEEL_VM_STATE_PAUSED;
	of(hv)->vcpu0_set = false;
	for (unsigned i = 0; i < hv->vcpus; i++)
		hv->shared->slots[i].state = KEEL_SLOT_IDLE;
	return 0;
}

static int fake_vcpu_get(struct hv *hv, unsigned vcpu, struct keel_vcpu_state *state)
{
	if (vcpu != 0)
		return -EINVAL;
	*state = of(hv)->vcpu0;
	return 0;
}

static int fake_vcpu_set(struct hv *hv, unsigned vcpu, const struct keel_vcpu_state *state)
{
	if (vcpu != 0 || of(hv)->state == KEEL_VM_STATE_RUNNING)
		return -EBUSY;
	of(hv)->vcpu0 = *state;
	of(hv)->vcpu0_set = true;
	return 0;
}

int hv_fake_find(const struct hv_fake *fake, uint64_t address)
{
	for (unsigned i = 0; i < KEEL_MAX_DOORBELLS; i++)
		if (fake->doorbells[i].used && fake->doorbells[i].address == address)
			return (int)i;
	return -1;
}

static int fake_doorbell_add(struct hv *hv, const struct hv_doorbell *doorbell)
{
	struct hv_fake *fake = of(hv);

	if (doorbell->index >= KEEL_MAX_DOORBELLS)
		return -EINVAL;
	if (fake->doorbells[doorbell->index].used || hv_fake_find(fake, doorbell->address) >= 0) {
		fake->doorbell_refusals++;
		return fake->doorbells[doorbell->index].used ? -EBUSY : -EEXIST;
	}
	fake->doorbells[doorbell->index] = (struct fake_doorbell){
	        true, doorbell->address, doorbell->fd};
	fake->doorbell_adds++;
	return 0;
}

static int fake_doorbell_remove(struct hv *hv, unsigned index)
{
	struct hv_fake *fake = of(hv);

	if (index >= KEEL_MAX_DOORBELLS || !fake->doorbells[index].used)
		return -ENOENT;
	fake->doorbells[index] = (struct fake_doorbell){0};
	fake->doorbell_removes++;
	return 0;
}

static int fake_irqfd_set(struct hv *hv, int fd, uint64_t address, uint32_t data)
{
	(void)hv, (void)fd, (void)address, (void)data;
	return 0;
}

static int fake_irqfd_clear(struct hv *hv, int fd)
{
	(void)hv, (void)fd;
	return 0;
}

static int fake_msi_raise(struct hv *hv, uint64_t address, uint32_t data)
{
	struct hv_fake *fake = of(hv);

	fake->msis[fake->msi_count++ % FAKE_MSI_LOG] = (struct fake_msi){address, data};
	return 0;
}

static int fake_pin_set(struct hv *hv, unsigned pin, bool high)
{
	if (pin >= 24)
		return -EINVAL;
	of(hv)->pins[pin] = high;
	of(hv)->pin_writes[pin]++;
	return 0;
}

static int fake_exit_complete(struct hv *hv, unsigned vcpu, uint32_t sequence, uint64_t data)
{
	struct keel_exit_slot *slot = &hv->shared->slots[vcpu];

	if (slot->state != KEEL_SLOT_PENDING || slot->sequence != sequence)
		return -EAGAIN;
	slot->data = data;
	slot->state = KEEL_SLOT_IDLE;
	of(hv)->completed[vcpu] = data;
	of(hv)->completes++;
	if (of(hv)->again > 0) {
		of(hv)->again--;
		hv_fake_exit(of(hv), vcpu, slot->kind, slot->address, slot->size, slot->data);
	}
	return 0;
}

static int fake_notify(struct hv *hv, int fd, uint32_t events)
{
	(void)events;
	of(hv)->notify_fd = fd;
	return 0;
}

static int fake_counters(struct hv *hv, unsigned vcpu, struct keel_hc_counters *counters)
{
	(void)hv, (void)vcpu;
	*counters = (struct keel_hc_counters){0};
	return 0;
}

static const struct hv_ops fake_ops = {
        .close = fake_close,
        .info = fake_info,
        .run = fake_run,
        .pause = fake_pause,
        .reset = fake_reset,
        .vcpu_get = fake_vcpu_get,
        .vcpu_set = fake_vcpu_set,
        .doorbell_add = fake_doorbell_add,
        .doorbell_remove = fake_doorbell_remove,
        .irqfd_set = fake_irqfd_set,
        .irqfd_clear = fake_irqfd_clear,
        .msi_raise = fake_msi_raise,
        .pin_set = fake_pin_set,
        .exit_complete = fake_exit_complete,
        .notify = fake_notify,
        .counters = fake_counters,
};

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		abort();
	return at;
}

struct hv_fake *hv_fake_new(
        unsigned vcpus, uint64_t ram_bytes, size_t vault_bytes, const char *definition)
{
	struct hv_fake *fake = calloc(1, sizeof(*fake));
	char error[200];

	if (fake == NULL)
		abort();
	fake->state = KEEL_VM_STATE_PAUSED;
	fake->hv = (struct hv){.ops = &fake_ops,
	        .vm = 1,
	        .name = "fake",
	        .vcpus = vcpus,
	        .ram_bytes = ram_bytes,
	        .ram_low_bytes = layout_ram_low(ram_bytes),
	        .vault_bytes = vault_bytes,
	        .ram = map(ram_bytes),
	        .vault = map(vault_bytes)};
	fake->hv.shared = (struct keel_vm_shared *)(void *)fake->hv.vault;
	fake->hv.shared->magic = KEEL_VM_SHARED_MAGIC;
	fake->hv.shared->version = KEEL_ABI_VERSION;
	fake->hv.shared->vcpus = vcpus;
	if (definition != NULL &&
	        vault_format(fake->hv.vault, vault_bytes, definition, error, sizeof(error)) != 0) {
		fprintf(stderr, "%s\n", error);
		abort();
	}
	return fake;
}

void hv_fake_free(struct hv_fake *fake)
{
	munmap(fake->hv.ram, fake->hv.ram_bytes);
	munmap(fake->hv.vault, fake->hv.vault_bytes);
	free(fake);
}

void hv_fake_forget(struct hv_fake *fake)
{
	for (unsigned i = 0; i < KEEL_MAX_DOORBELLS; i++)
		fake->doorbells[i].fd = -1;
	fake->hv.exits_taken = 0;
	fake->msi_count = 0;
}

void hv_fake_exit(struct hv_fake *fake, unsigned vcpu, uint32_t kind, uint64_t address,
        uint32_t size, uint64_t data)
{
	struct keel_exit_slot *slot = &fake->hv.shared->slots[vcpu];

	slot->kind = kind;
	slot->sequence++;
	slot->size = size;
	slot->address = address;
	slot->data = data;
	__atomic_store_n(&slot->state, KEEL_SLOT_PENDING, __ATOMIC_RELEASE);
	__atomic_fetch_or(&fake->hv.shared->exit_pending, 1ull << vcpu, __ATOMIC_SEQ_CST);
}

struct vault hv_fake_vault(struct hv_fake *fake)
{
	struct vault vault = {0};
	char error[200];

	if (vault_attach(&vault, fake->hv.vault, fake->hv.vault_bytes, error, sizeof(error)) != 0)
		abort();
	return vault;
}
