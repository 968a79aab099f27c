/* SPDX-License-Identifier: BSD-2-Clause */
/* The PCI side of a virtio device: capabilities, the BAR's parts, doorbells, interrupts
 * (virtio_pci.h has the rules). */
#include "vmm/virtio_pci.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vmm/log.h"

static struct virtio_pci *of_function(struct pci_function *fn)
{
	return (struct virtio_pci *)(void *)fn;
}

/* Needs: lock. */
static void drive_intx(struct virtio_pci *vp)
{
	pci_intx_set(&vp->fn, vp->state.isr != 0 && !vp->msix.enabled);
}

/* Needs: lock. */
static void interrupt(struct virtio_pci *vp, uint16_t vector, uint8_t isr)
{
	if (vp->msix.enabled) {
		if (vector != VIRTIO_PCI_NO_VECTOR)
			msix_signal(&vp->msix, vector);
		return;
	}
	if ((vp->state.isr & isr) != isr) {
		vp->state.isr |= isr;
		virtio_state_keep(vp);
	}
	drive_intx(vp);
}

void virtio_signal_queue(struct virtio_device *dev, unsigned queue)
{
	struct virtio_pci *vp = dev->transport;

	pthread_mutex_lock(&vp->lock);
	interrupt(vp, vp->state.queues[queue].vector, VIRTIO_PCI_ISR_QUEUE);
	pthread_mutex_unlock(&vp->lock);
}

void virtio_signal_config(struct virtio_device *dev)
{
	struct virtio_pci *vp = dev->transport;

	pthread_mutex_lock(&vp->lock);
	vp->state.generation++;
	virtio_state_keep(vp);
	if (vp->state.status & VIRTIO_STATUS_DRIVER_OK)
		interrupt(vp, vp->state.config_vector, VIRTIO_PCI_ISR_CONFIG);
	pthread_mutex_unlock(&vp->lock);
}

void virtio_set_broken(struct virtio_device *dev)
{
	struct virtio_pci *vp = dev->transport;

	pthread_mutex_lock(&vp->lock);
	if (!(vp->state.status & VIRTIO_STATUS_NEEDS_RESET)) {
		vp->state.status |= VIRTIO_STATUS_NEEDS_RESET;
		virtio_state_keep(vp);
		if (vp->state.status & VIRTIO_STATUS_DRIVER_OK)
			interrupt(vp, vp->state.config_vector, VIRTIO_PCI_ISR_CONFIG);
	}
	pthread_mutex_unlock(&vp->lock);
}

/* §4.1.4.5: reading clears. The same exit, answered again by a successor, gets the same value. */
static uint64_t read_isr(struct virtio_pci *vp)
{
	const struct hv_exit *exit = vp->fn.bus->current;
	struct virtio_state *state = &vp->state;
	uint32_t value;

	pthread_mutex_lock(&vp->lock);
	if (exit != NULL && state->reply_valid && state->reply_vcpu == exit->vcpu &&
	        state->reply_sequence == exit->sequence) {
		value = state->reply_data;
	} else {
		value = state->isr;
		state->isr = 0;
		state->reply_valid = exit != NULL;
		state->reply_vcpu = exit != NULL ? exit->vcpu : 0;
		state->reply_sequence = exit != NULL ? exit->sequence : 0;
		state->reply_data = value;
		virtio_state_keep(vp);
	}
	drive_intx(vp);
	pthread_mutex_unlock(&vp->lock);
	return value;
}

static uint64_t read_device_config(struct virtio_pci *vp, unsigned offset, unsigned size)
{
	uint64_t value = 0;

	if (offset < vp->dev->config_bytes && size <= vp->dev->config_bytes - offset)
		vp->dev->ops->config_read(vp->dev, offset, &value, size);
	return value;
}

static void write_device_config(
        struct virtio_pci *vp, unsigned offset, unsigned size, uint64_t value)
{
	if (vp->dev->ops->config_write != NULL && offset < vp->dev->config_bytes &&
	        size <= vp->dev->config_bytes - offset)
		vp->dev->ops->config_write(vp->dev, offset, &value, size);
}

/* A notification that came as an exit. */
static void kick(struct virtio_pci *vp, uint64_t offset)
{
	uint64_t one = 1;

	vp->slow_kicks++;
	/* Full (EAGAIN) means that it is signalled already. */
	if (offset / VIRTIO_PCI_NOTIFY_STEP < vp->dev->queues &&
	        offset % VIRTIO_PCI_NOTIFY_STEP == 0 &&
	        write(vp->kick_fds[offset / VIRTIO_PCI_NOTIFY_STEP], &one, sizeof(one)) < 0 &&
	        errno != EAGAIN)
		log_line("%s: cannot signal a kick: %s", vp->dev->name, strerror(errno));
}

static uint64_t bar_read(struct pci_function *fn, unsigned bar, uint64_t offset, unsigned size)
{
	struct virtio_pci *vp = of_function(fn);
	uint64_t value = 0;

	(void)bar;
	if (offset >= VIRTIO_PCI_TABLE_AT) {
		pthread_mutex_lock(&vp->lock);
		value = offset >= VIRTIO_PCI_PENDING_AT
		                ? msix_pending_read(&vp->msix, offset - VIRTIO_PCI_PENDING_AT, size)
		                : msix_table_read(&vp->msix, offset - VIRTIO_PCI_TABLE_AT, size);
		pthread_mutex_unlock(&vp->lock);
	} else if (offset >= VIRTIO_PCI_NOTIFY_AT) {
		value = 0;
	} else if (offset >= VIRTIO_PCI_DEVICE_AT) {
		value = read_device_config(vp, (unsigned)offset - VIRTIO_PCI_DEVICE_AT, size);
	} else if (offset >= VIRTIO_PCI_ISR_AT) {
		value = offset == VIRTIO_PCI_ISR_AT ? read_isr(vp) : 0;
	} else {
		value = virtio_common_read(vp, (unsigned)offset, size);
	}
	return value;
}

static void bar_write(
        struct pci_function *fn, unsigned bar, uint64_t offset, unsigned size, uint64_t value)
{
	struct virtio_pci *vp = of_function(fn);

	(void)bar;
	if (offset >= VIRTIO_PCI_PENDING_AT) {
		return;
	} else if (offset >= VIRTIO_PCI_TABLE_AT) {
		pthread_mutex_lock(&vp->lock);
		msix_table_write(&vp->msix, offset - VIRTIO_PCI_TABLE_AT, size, value);
		pthread_mutex_unlock(&vp->lock);
	} else if (offset >= VIRTIO_PCI_NOTIFY_AT) {
		kick(vp, offset - VIRTIO_PCI_NOTIFY_AT);
	} else if (offset >= VIRTIO_PCI_DEVICE_AT) {
		write_device_config(vp, (unsigned)offset - VIRTIO_PCI_DEVICE_AT, size, value);
	} else if (offset < VIRTIO_PCI_ISR_AT) {
		virtio_common_write(vp, (unsigned)offset, size, value);
	}
}

/* The window that VIRTIO_PCI_CAP_PCI_CFG opens into the BAR (§4.1.4.9). False: the guest set it to
 * nothing sensible. */
static bool find_window(const struct virtio_pci *vp, struct virtio_pci_cfg_cap *cap)
{
	memcpy(cap, vp->fn.config + vp->cfg_cap, sizeof(*cap));
	return cap->cap.bar == VIRTIO_PCI_BAR &&
	       (cap->cap.length == 1 || cap->cap.length == 2 || cap->cap.length == 4) &&
	       cap->cap.offset % cap->cap.length == 0 &&
	       cap->cap.offset <= VIRTIO_PCI_BAR_BYTES - cap->cap.length;
}

static bool touches(unsigned offset, unsigned size, unsigned at, unsigned bytes)
{
	return offset < at + bytes && at < offset + size;
}

static void config_read(struct pci_function *fn, unsigned offset, unsigned size)
{
	struct virtio_pci *vp = of_function(fn);
	unsigned data = vp->cfg_cap + (unsigned)offsetof(struct virtio_pci_cfg_cap, data);
	struct virtio_pci_cfg_cap cap;
	uint32_t value;

	if (!touches(offset, size, data, sizeof(cap.data)) || !find_window(vp, &cap))
		return;
	value = (uint32_t)bar_read(fn, VIRTIO_PCI_BAR, cap.cap.offset, cap.cap.length);
	memcpy(fn->config + data, &value, cap.cap.length);
}

static void config_written(struct pci_function *fn, unsigned offset, unsigned size)
{
	struct virtio_pci *vp = of_function(fn);
	unsigned data = vp->cfg_cap + (unsigned)offsetof(struct virtio_pci_cfg_cap, data);
	struct virtio_pci_cfg_cap cap;
	uint32_t value = 0;

	pthread_mutex_lock(&vp->lock);
	msix_control_written(&vp->msix);
	drive_intx(vp);
	pthread_mutex_unlock(&vp->lock);
	if (!touches(offset, size, data, sizeof(cap.data)) || !find_window(vp, &cap))
		return;
	memcpy(&value, fn->config + data, cap.cap.length);
	bar_write(fn, VIRTIO_PCI_BAR, cap.cap.offset, cap.cap.length, value);
}

static void decode_changed(struct pci_function *fn, bool come)
{
	struct virtio_pci *vp = of_function(fn);
	uint64_t bar = pci_bar_address(fn, VIRTIO_PCI_BAR);
	struct hv *hv = fn->bus->hv;

	for (unsigned q = 0; q < vp->dev->queues; q++) {
		unsigned index = vp->doorbell_first + q;
		uint64_t want = bar == PCI_BAR_SILENT
		                        ? PCI_BAR_SILENT
		                        : bar + VIRTIO_PCI_NOTIFY_AT + q * VIRTIO_PCI_NOTIFY_STEP;
		struct hv_doorbell doorbell = {.index = index,
		        .space = KEEL_DOORBELL_MMIO,
		        .address = want,
		        .fd = vp->kick_fds[q]};

		if (vp->doorbell_at[q] == want || index >= KEEL_MAX_DOORBELLS)
			continue;
		if (vp->doorbell_at[q] != PCI_BAR_SILENT) {
			hv->ops->doorbell_remove(hv, index);
			vp->doorbell_at[q] = PCI_BAR_SILENT;
		}
		/* A refusal (another function is still there) is tried again at the next change. */
		if (come && want != PCI_BAR_SILENT && hv->ops->doorbell_add(hv, &doorbell) == 0)
			vp->doorbell_at[q] = want;
	}
}

static const struct pci_function_ops function_ops = {
        .bar_read = bar_read,
        .bar_write = bar_write,
        .config_read = config_read,
        .config_written = config_written,
        .decode_changed = decode_changed,
};

static void add_caps(struct virtio_pci *vp)
{
	static const struct {
		uint8_t type;
		uint32_t offset, length;
	} parts[] = {
	        {VIRTIO_PCI_CAP_COMMON, VIRTIO_PCI_COMMON_AT, sizeof(struct virtio_pci_common)},
	        {VIRTIO_PCI_CAP_ISR, VIRTIO_PCI_ISR_AT, 1},
	        {VIRTIO_PCI_CAP_DEVICE, VIRTIO_PCI_DEVICE_AT, 256},
	};
	struct virtio_pci_notify_cap notify = {
	        .cap = {.id = PCI_CAP_VENDOR,
	                .cap_bytes = sizeof(notify),
	                .type = VIRTIO_PCI_CAP_NOTIFY,
	                .bar = VIRTIO_PCI_BAR,
	                .offset = VIRTIO_PCI_NOTIFY_AT,
	                .length = vp->dev->queues * VIRTIO_PCI_NOTIFY_STEP},
	        .multiplier = VIRTIO_PCI_NOTIFY_STEP,
	};
	struct virtio_pci_cfg_cap cfg = {.cap = {.id = PCI_CAP_VENDOR,
	                                         .cap_bytes = sizeof(cfg),
	                                         .type = VIRTIO_PCI_CAP_PCI_CFG}};

	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct virtio_pci_cap cap = {.id = PCI_CAP_VENDOR,
		        .cap_bytes = sizeof(cap),
		        .type = parts[i].type,
		        .bar = VIRTIO_PCI_BAR,
		        .offset = parts[i].offset,
		        .length = parts[i].length};

		/* §4.1.4.6: a device without configuration need not have the structure. */
		if (cap.type != VIRTIO_PCI_CAP_DEVICE || vp->dev->config_bytes != 0)
			pci_function_add_cap(&vp->fn, &cap, sizeof(cap));
	}
	pci_function_add_cap(&vp->fn, &notify, sizeof(notify));
	vp->cfg_cap = pci_function_add_cap(&vp->fn, &cfg, sizeof(cfg));
	vp->fn.writable[vp->cfg_cap + offsetof(struct virtio_pci_cap, bar)] = 0xff;
	memset(vp->fn.writable + vp->cfg_cap + offsetof(struct virtio_pci_cap, offset), 0xff, 12);
}

/* Finds or makes the in-flight areas of all queues: one section, each area 64-byte aligned. */
static int attach_inflight(struct virtio_pci *vp)
{
	struct virtio_device *dev = vp->dev;
	size_t at = 0;

	for (unsigned q = 0; q < dev->queues; q++) {
		vp->inflight_at[q] = at;
		if (dev->ops->inflight_bytes != NULL)
			at += (dev->ops->inflight_bytes(dev, q, dev->queue_size_max) + 63) &
			      ~(size_t)63;
	}
	vp->inflight_at[dev->queues] = at;
	if (at == 0)
		return 0;
	vp->inflight = vault_make(
	        vp->fn.bus->vault, VAULT_INFLIGHT, vp->fn.slot << 3, VAULT_LIVE, 1, at);
	return vp->inflight == NULL ? -ENOSPC : 0;
}

static int attach_state(struct virtio_pci *vp)
{
	const struct vault *vault = vp->fn.bus->vault;
	int rc;

	vp->section = vault_make(
	        vault, VAULT_VIRTIO, vp->fn.slot << 3, VAULT_RECORD, 1, sizeof(vp->state));
	if (vp->section == NULL)
		return -ENOSPC;
	rc = vault_read(vault, vp->section, &vp->state, sizeof(vp->state));
	if (rc == -ENOENT) {
		virtio_state_make_fresh(vp, &vp->state);
		virtio_state_keep(vp);
	} else if (rc != (int)sizeof(vp->state)) {
		return rc < 0 ? rc : -EIO;
	}
	return 0;
}

static int open_kicks(struct virtio_pci *vp)
{
	for (unsigned q = 0; q < vp->dev->queues; q++) {
		vp->doorbell_at[q] = PCI_BAR_SILENT;
		vp->kick_fds[q] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (vp->kick_fds[q] < 0)
			return -errno;
	}
	return 0;
}

static void build_function(struct virtio_pci *vp)
{
	struct virtio_device *dev = vp->dev;

	vp->fn.ops = &function_ops;
	pci_function_init(&vp->fn, VIRTIO_PCI_VENDOR,
	        (uint16_t)(VIRTIO_PCI_DEVICE_BASE + dev->device_id), dev->class_code);
	vp->fn.config[offsetof(struct pci_header, revision)] = 1; /* §4.1.2.1 */
	vp->fn.config[offsetof(struct pci_header, interrupt_pin)] = 1;
	pci_function_add_bar(&vp->fn, VIRTIO_PCI_BAR, VIRTIO_PCI_BAR_BYTES, PCI_BAR_64);
	msix_init(&vp->msix, &vp->fn, dev->queues + 1, VIRTIO_PCI_BAR, VIRTIO_PCI_TABLE_AT,
	        VIRTIO_PCI_PENDING_AT);
	add_caps(vp);
}

struct virtio_pci *virtio_pci_create(struct pci_bus *bus, unsigned slot, struct virtio_device *dev,
        const struct gmem *gmem, unsigned doorbell_first, char *error, size_t error_bytes)
{
	/* Of the bits that belong to the transport only these; packed rings and the like are
	 * nobody's here. */
	const uint64_t reserved = ((1ull << (VIRTIO_F_RESERVED_LAST + 1)) - 1) &
	                          ~((1ull << VIRTIO_F_RESERVED_FIRST) - 1);
	const uint64_t known = 1ull << VIRTIO_F_INDIRECT_DESC | 1ull << VIRTIO_F_EVENT_IDX;
	struct virtio_pci *vp = calloc(1, sizeof(*vp));
	int rc;

	if (vp == NULL) {
		snprintf(error, error_bytes, "%s: out of memory", dev->name);
		return NULL;
	}
	vp->dev = dev;
	vp->gmem = gmem;
	vp->doorbell_first = doorbell_first;
	vp->offered = (dev->features & (~reserved | known)) | 1ull << VIRTIO_F_VERSION_1;
	pthread_mutex_init(&vp->lock, NULL);
	dev->transport = vp;
	build_function(vp);
	rc = open_kicks(vp);
	if (rc == 0)
		rc = pci_add(bus, &vp->fn, slot);
	if (rc == 0)
		rc = msix_attach(&vp->msix);
	if (rc == 0)
		rc = attach_state(vp);
	if (rc == 0)
		rc = attach_inflight(vp);
	if (rc == 0)
		return vp;
	/* The process ends on this; the function may be in the bus already. */
	snprintf(error, error_bytes, "%s: cannot use its state in the vault: %s", dev->name,
	        rc == -EEXIST ? "it belongs to another kind of device" : strerror(-rc));
	return NULL;
}

void virtio_pci_resume(struct virtio_pci *vp)
{
	pthread_mutex_lock(&vp->lock);
	drive_intx(vp);
	pthread_mutex_unlock(&vp->lock);
	if (!(vp->state.status & VIRTIO_STATUS_DRIVER_OK))
		return;
	for (unsigned q = 0; q < vp->dev->queues; q++)
		if (vp->state.queues[q].enabled)
			virtio_queue_run(vp, q, true);
}

void virtio_pci_reset(struct virtio_pci *vp)
{
	vp->dev->ops->reset(vp->dev);
	pthread_mutex_lock(&vp->lock);
	virtio_state_make_fresh(vp, &vp->state);
	virtio_state_keep(vp);
	msix_reset(&vp->msix);
	pthread_mutex_unlock(&vp->lock);
	pci_intx_set(&vp->fn, false);
}
