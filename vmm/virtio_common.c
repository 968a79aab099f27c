/* SPDX-License-Identifier: BSD-2-Clause */
/* The common configuration structure of a virtio PCI device: registers, feature negotiation,
 * queues' life (virtio 1.2 §4.1.4.3). */
#include <string.h>

#include "vmm/log.h"
#include "vmm/virtio_pci.h"

#define AT(field) offsetof(struct virtio_pci_common, field)

/* Size of the register that begins at each offset; 0: none does. 64-bit ones are two halves
 * (§4.1.3.1). */
static const uint8_t register_bytes[sizeof(struct virtio_pci_common)] = {
        [AT(device_feature_select)] = 4,
        [AT(device_feature)] = 4,
        [AT(driver_feature_select)] = 4,
        [AT(driver_feature)] = 4,
        [AT(config_msix_vector)] = 2,
        [AT(num_queues)] = 2,
        [AT(device_status)] = 1,
        [AT(config_generation)] = 1,
        [AT(queue_select)] = 2,
        [AT(queue_size)] = 2,
        [AT(queue_msix_vector)] = 2,
        [AT(queue_enable)] = 2,
        [AT(queue_notify_off)] = 2,
        [AT(queue_desc)] = 4,
        [AT(queue_desc) + 4] = 4,
        [AT(queue_driver)] = 4,
        [AT(queue_driver) + 4] = 4,
        [AT(queue_device)] = 4,
        [AT(queue_device) + 4] = 4,
};

void virtio_state_make_fresh(const struct virtio_pci *vp, struct virtio_state *state)
{
	*state = (struct virtio_state){.config_vector = VIRTIO_PCI_NO_VECTOR};
	for (unsigned q = 0; q < vp->dev->queues; q++) {
		state->queues[q].size = (uint16_t)vp->dev->queue_size_max;
		state->queues[q].vector = VIRTIO_PCI_NO_VECTOR;
	}
}

void virtio_state_keep(struct virtio_pci *vp)
{
	vault_write(vp->fn.bus->vault, vp->section, &vp->state, sizeof(vp->state));
}

static bool area_is_sound(const struct gmem *gmem, uint64_t gpa, unsigned align, size_t bytes)
{
	return gpa % align == 0 && gmem_range(gmem, gpa, bytes) != NULL;
}

static bool queue_is_sound(const struct virtio_pci *vp, const struct virtio_queue_state *queue)
{
	size_t size = queue->size;

	/* §2.7: 16 a descriptor; flags, idx, ring and the event word around it. */
	return size != 0 && (size & (size - 1)) == 0 && size <= vp->dev->queue_size_max &&
	       area_is_sound(vp->gmem, queue->desc, VIRTIO_RING_DESC_ALIGN, 16 * size) &&
	       area_is_sound(vp->gmem, queue->driver, VIRTIO_RING_DRIVER_ALIGN, 6 + 2 * size) &&
	       area_is_sound(vp->gmem, queue->device, VIRTIO_RING_DEVICE_ALIGN, 6 + 8 * size);
}

static uint8_t *inflight_area(const struct virtio_pci *vp, unsigned q)
{
	return (uint8_t *)vault_live(vp->fn.bus->vault, vp->inflight) + vp->inflight_at[q];
}

void virtio_queue_run(struct virtio_pci *vp, unsigned q, bool resumed)
{
	const struct virtio_queue_state *queue = &vp->state.queues[q];
	struct virtio_device *dev = vp->dev;
	struct virtio_queue_setup setup = {
	        .index = q,
	        .size = queue->size,
	        .features = vp->state.driver_features,
	        .desc_gpa = queue->desc,
	        .driver_gpa = queue->driver,
	        .device_gpa = queue->device,
	        .kick_fd = vp->kick_fds[q],
	        .resumed = resumed,
	};
	int rc = -EFAULT;

	if (dev->ops->inflight_bytes != NULL)
		setup.inflight_bytes = dev->ops->inflight_bytes(dev, q, queue->size);
	if (setup.inflight_bytes != 0)
		setup.inflight = inflight_area(vp, q);
	if (queue_is_sound(vp, queue))
		rc = dev->ops->queue_start(dev, &setup);
	if (rc != 0) {
		log_line("%s: queue %u cannot run: %s", dev->name, q, strerror(-rc));
		virtio_set_broken(dev);
	}
}

/* The vault first, then the device: a successor finds either nothing enabled or a queue it can run.
 */
static void enable_queue(struct virtio_pci *vp, unsigned q)
{
	struct virtio_queue_state *queue = &vp->state.queues[q];
	bool run;

	if (!queue_is_sound(vp, queue)) {
		log_line("%s: queue %u lies outside memory or is misaligned", vp->dev->name, q);
		virtio_set_broken(vp->dev);
		return;
	}
	if (vp->inflight_at[q + 1] > vp->inflight_at[q])
		memset(inflight_area(vp, q), 0, vp->inflight_at[q + 1] - vp->inflight_at[q]);
	pthread_mutex_lock(&vp->lock);
	queue->enabled = 1;
	virtio_state_keep(vp);
	run = vp->state.status & VIRTIO_STATUS_DRIVER_OK;
	pthread_mutex_unlock(&vp->lock);
	if (run)
		virtio_queue_run(vp, q, false);
}

static void reset_device(struct virtio_pci *vp)
{
	/* Quiet first: while the vault says DRIVER_OK a successor would just start it again. */
	vp->dev->ops->reset(vp->dev);
	pthread_mutex_lock(&vp->lock);
	virtio_state_make_fresh(vp, &vp->state);
	virtio_state_keep(vp);
	pthread_mutex_unlock(&vp->lock);
	pci_intx_set(&vp->fn, false);
}

/* §2.1, §3.1.1: bits are only added; FEATURES_OK stays away when the features are not acceptable.
 */
static void write_status(struct virtio_pci *vp, uint8_t value)
{
	const uint8_t settable = VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER |
	                         VIRTIO_STATUS_DRIVER_OK | VIRTIO_STATUS_FEATURES_OK |
	                         VIRTIO_STATUS_FAILED;
	struct virtio_state *state = &vp->state;
	bool run;

	if (value == 0) {
		reset_device(vp);
		return;
	}
	pthread_mutex_lock(&vp->lock);
	uint8_t added = value & settable & (uint8_t)~state->status;

	if ((state->driver_features & ~vp->offered) != 0 ||
	        !(state->driver_features & 1ull << VIRTIO_F_VERSION_1))
		added &= (uint8_t)~VIRTIO_STATUS_FEATURES_OK;
	if (!((state->status | added) & VIRTIO_STATUS_FEATURES_OK))
		added &= (uint8_t)~VIRTIO_STATUS_DRIVER_OK;
	state->status |= added;
	run = added & VIRTIO_STATUS_DRIVER_OK;
	virtio_state_keep(vp);
	pthread_mutex_unlock(&vp->lock);
	for (unsigned q = 0; run && q < vp->dev->queues; q++)
		if (state->queues[q].enabled)
			virtio_queue_run(vp, q, false);
}

static uint32_t feature_word(uint64_t features, uint32_t select)
{
	return select < 2 ? (uint32_t)(features >> (32 * select)) : 0;
}

static uint16_t usable_vector(const struct virtio_pci *vp, uint16_t vector)
{
	return vector < vp->msix.vectors ? vector : VIRTIO_PCI_NO_VECTOR;
}

static uint32_t half(uint64_t value, unsigned offset)
{
	return (uint32_t)(offset & 4 ? value >> 32 : value);
}

static void set_half(uint64_t *field, unsigned offset, uint32_t value)
{
	unsigned shift = offset & 4 ? 32 : 0;

	*field = (*field & ~(0xffffffffull << shift)) | (uint64_t)value << shift;
}

/* long: one line a register */
static uint32_t read_queue_register(
        const struct virtio_queue_state *queue, unsigned index, unsigned offset)
{
	switch (offset) {
	case AT(queue_size): return queue->size;
	case AT(queue_msix_vector): return queue->vector;
	case AT(queue_enable): return queue->enabled;
	case AT(queue_notify_off): return index;
	case AT(queue_desc):
	case AT(queue_desc) + 4: return half(queue->desc, offset);
	case AT(queue_driver):
	case AT(queue_driver) + 4: return half(queue->driver, offset);
	case AT(queue_device):
	case AT(queue_device) + 4: return half(queue->device, offset);
	default: return 0;
	}
}

static uint32_t read_register(const struct virtio_pci *vp, unsigned offset)
{
	const struct virtio_state *state = &vp->state;

	switch (offset) {
	case AT(device_feature_select): return state->device_feature_select;
	case AT(device_feature): return feature_word(vp->offered, state->device_feature_select);
	case AT(driver_feature_select): return state->driver_feature_select;
	case AT(driver_feature):
		return feature_word(state->driver_features, state->driver_feature_select);
	case AT(config_msix_vector): return state->config_vector;
	case AT(num_queues): return vp->dev->queues;
	case AT(device_status): return state->status;
	case AT(config_generation): return state->generation;
	case AT(queue_select): return state->queue_select;
	default: break;
	}
	if (state->queue_select >= vp->dev->queues)
		return 0;
	return read_queue_register(
	        &state->queues[state->queue_select], state->queue_select, offset);
}

uint64_t virtio_common_read(struct virtio_pci *vp, unsigned offset, unsigned size)
{
	uint64_t value = 0;

	pthread_mutex_lock(&vp->lock);
	if (offset < sizeof(register_bytes) && register_bytes[offset] == size)
		value = read_register(vp, offset);
	else if (size == 8 && offset >= AT(queue_desc) && offset <= AT(queue_device) &&
	         offset % 8 == 0)
		value = read_register(vp, offset) | (uint64_t)read_register(vp, offset + 4) << 32;
	pthread_mutex_unlock(&vp->lock);
	return value;
}

/* Needs: lock. Size and addresses only while the queue is not enabled; the vector at any time. */
static void write_queue_register(
        struct virtio_pci *vp, struct virtio_queue_state *queue, unsigned offset, uint32_t value)
{
	if (offset == AT(queue_msix_vector)) {
		queue->vector = usable_vector(vp, (uint16_t)value);
		return;
	}
	if (queue->enabled)
		return;
	switch (offset) {
	case AT(queue_size):
		if (value != 0 && (value & (value - 1)) == 0 && value <= vp->dev->queue_size_max)
			queue->size = (uint16_t)value;
		break;
	case AT(queue_desc):
	case AT(queue_desc) + 4: set_half(&queue->desc, offset, value); break;
	case AT(queue_driver):
	case AT(queue_driver) + 4: set_half(&queue->driver, offset, value); break;
	case AT(queue_device):
	case AT(queue_device) + 4: set_half(&queue->device, offset, value); break;
	default: break;
	}
}

/* Needs: lock. */
static void write_driver_feature(struct virtio_state *state, uint32_t value)
{
	if (state->driver_feature_select < 2 && !(state->status & VIRTIO_STATUS_FEATURES_OK))
		set_half(&state->driver_features, state->driver_feature_select * 4, value);
}

/* Needs: lock. All registers whose writing only changes the state. */
static void write_register(struct virtio_pci *vp, unsigned offset, uint32_t value)
{
	struct virtio_state *state = &vp->state;

	switch (offset) {
	case AT(device_feature_select): state->device_feature_select = value; break;
	case AT(driver_feature_select): state->driver_feature_select = value; break;
	case AT(driver_feature): write_driver_feature(state, value); break;
	case AT(config_msix_vector):
		state->config_vector = usable_vector(vp, (uint16_t)value);
		break;
	case AT(queue_select): state->queue_select = (uint16_t)value; break;
	default:
		if (state->queue_select < vp->dev->queues)
			write_queue_register(
			        vp, &state->queues[state->queue_select], offset, value);
		break;
	}
}

void virtio_common_write(struct virtio_pci *vp, unsigned offset, unsigned size, uint64_t value)
{
	unsigned q = vp->state.queue_select;
	bool halves = size == 8 && offset >= AT(queue_desc) && offset <= AT(queue_device) &&
	              offset % 8 == 0;

	if (!halves && (offset >= sizeof(register_bytes) || register_bytes[offset] != size))
		return;
	if (offset == AT(device_status)) {
		write_status(vp, (uint8_t)value);
		return;
	}
	if (offset == AT(queue_enable)) {
		if (value == 1 && q < vp->dev->queues && !vp->state.queues[q].enabled)
			enable_queue(vp, q);
		return;
	}
	pthread_mutex_lock(&vp->lock);
	write_register(vp, offset, (uint32_t)value);
	if (halves)
		write_register(vp, offset + 4, (uint32_t)(value >> 32));
	virtio_state_keep(vp);
	pthread_mutex_unlock(&vp->lock);
}
