/* SPDX-License-Identifier: BSD-2-Clause */
/* hv.h on /dev/keel: a descriptor with the device right, its ioctls and its two mappings. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/cpuid.h"
#include "abi/ioctl.h"
#include "vmm/hv.h"
#include "vmm/layout.h"

struct hv_keel {
	struct hv hv; /* first */
	int fd;
};

static int call(struct hv *hv, unsigned long request, void *block)
{
	const struct hv_keel *keel = (const struct hv_keel *)(const void *)hv;

	return ioctl(keel->fd, request, block) < 0 ? -errno : 0;
}

static void keel_close(struct hv *hv)
{
	struct hv_keel *keel = (struct hv_keel *)(void *)hv;

	if (hv->ram != NULL)
		munmap(hv->ram, hv->ram_bytes + hv->firmware_bytes);
	if (hv->vault != NULL)
		munmap(hv->vault, hv->vault_bytes);
	close(keel->fd);
	free(keel);
}

static int keel_info(struct hv *hv, struct keel_hc_vm_info *info)
{
	*info = (struct keel_hc_vm_info){.head = {.vm = hv->vm}};
	return call(hv, KEEL_IOC_VM_INFO, info);
}

static int keel_run(struct hv *hv)
{
	struct keel_hc_vm block = {{hv->vm, 0}};

	return call(hv, KEEL_IOC_VM_RUN, &block);
}

static int keel_pause(struct hv *hv)
{
	struct keel_hc_vm block = {{hv->vm, 0}};

	return call(hv, KEEL_IOC_VM_PAUSE, &block);
}

static int keel_reset(struct hv *hv)
{
	struct keel_hc_vm block = {{hv->vm, 0}};

	return call(hv, KEEL_IOC_VM_RESET, &block);
}

static int keel_vcpu_get(struct hv *hv, unsigned vcpu, struct keel_vcpu_state *state)
{
	struct keel_hc_vcpu block = {.head = {hv->vm, 0}, .vcpu = vcpu, .state = *state};
	int rc = call(hv, KEEL_IOC_VCPU_GET, &block);

	*state = block.state;
	return rc;
}

static int keel_vcpu_set(struct hv *hv, unsigned vcpu, const struct keel_vcpu_state *state)
{
	struct keel_hc_vcpu block = {.head = {hv->vm, 0}, .vcpu = vcpu, .state = *state};

	return call(hv, KEEL_IOC_VCPU_SET, &block);
}

static int keel_doorbell_add(struct hv *hv, const struct hv_doorbell *doorbell)
{
	struct keel_ioc_doorbell block = {
	        .doorbell = {.head = {hv->vm, 0},
	                .index = doorbell->index,
	                .space = doorbell->space,
	                .address = doorbell->address,
	                .size = doorbell->size},
	        .fd = doorbell->fd,
	};

	return call(hv, KEEL_IOC_DOORBELL, &block);
}

static int keel_doorbell_remove(struct hv *hv, unsigned index)
{
	struct keel_ioc_doorbell block = {
	        .doorbell = {.head = {hv->vm, 0}, .index = index},
	        .fd = -1,
	        .remove = 1,
	};

	return call(hv, KEEL_IOC_DOORBELL, &block);
}

static int keel_irqfd_set(struct hv *hv, int fd, uint64_t address, uint32_t data)
{
	struct keel_ioc_irqfd block = {.fd = fd, .address = address, .data = data};

	return call(hv, KEEL_IOC_IRQFD, &block);
}

static int keel_irqfd_clear(struct hv *hv, int fd)
{
	struct keel_ioc_irqfd block = {.fd = fd, .remove = 1};

	return call(hv, KEEL_IOC_IRQFD, &block);
}

static int keel_msi_raise(struct hv *hv, uint64_t address, uint32_t data)
{
	struct keel_hc_irq block = {.head = {hv->vm, 0}, .address = address, .data = data};

	return call(hv, KEEL_IOC_IRQ_MSI, &block);
}

static int keel_pin_set(struct hv *hv, unsigned pin, bool high)
{
	struct keel_hc_irq block = {.head = {hv->vm, 0}, .pin = pin, .level = high, .source = 1};

	return call(hv, KEEL_IOC_IRQ_PIN, &block);
}

static int keel_exit_complete(struct hv *hv, unsigned vcpu, uint32_t sequence, uint64_t data)
{
	struct keel_hc_exit block = {
	        .head = {hv->vm, 0},
	        .vcpu = vcpu,
	        .sequence = sequence,
	        .data = data,
	};

	return call(hv, KEEL_IOC_EXIT_COMPLETE, &block);
}

static int keel_notify(struct hv *hv, int fd, uint32_t events)
{
	struct keel_ioc_notify block = {.fd = fd, .events = events};

	return call(hv, KEEL_IOC_NOTIFY, &block);
}

static int keel_counters(struct hv *hv, unsigned vcpu, struct keel_hc_counters *counters)
{
	*counters = (struct keel_hc_counters){.head = {hv->vm, 0}, .vcpu = vcpu};
	return call(hv, KEEL_IOC_COUNTERS, counters);
}

static const struct hv_ops keel_ops = {
        .close = keel_close,
        .info = keel_info,
        .run = keel_run,
        .pause = keel_pause,
        .reset = keel_reset,
        .vcpu_get = keel_vcpu_get,
        .vcpu_set = keel_vcpu_set,
        .doorbell_add = keel_doorbell_add,
        .doorbell_remove = keel_doorbell_remove,
        .irqfd_set = keel_irqfd_set,
        .irqfd_clear = keel_irqfd_clear,
        .msi_raise = keel_msi_raise,
        .pin_set = keel_pin_set,
        .exit_complete = keel_exit_complete,
        .notify = keel_notify,
        .counters = keel_counters,
};

static bool names_vm(const struct keel_hc_vm_info *info, const char *name_or_id)
{
	char id[16];

	snprintf(id, sizeof(id), "%u", info->head.vm);
	return strcmp(id, name_or_id) == 0 ||
	       strncmp(info->name, name_or_id, sizeof(info->name)) == 0;
}

/* Looks through all VMs that hyp has. 0 or a negative errno. */
static int find_vm(int device, const char *name_or_id, struct keel_hc_vm_info *info)
{
	*info = (struct keel_hc_vm_info){.head = {.vm = 1}};
	while (ioctl(device, KEEL_IOC_VM_INFO, info) == 0) {
		if (names_vm(info, name_or_id))
			return 0;
		*info = (struct keel_hc_vm_info){.head = {.vm = info->head.vm + 1}};
		if (info->head.vm > KEEL_MAX_VMS)
			return -ENOENT;
	}
	return -errno;
}

static int map_regions(struct hv_keel *keel, const struct keel_hc_vm_info *info)
{
	struct hv *hv = &keel->hv;
	const int prot = PROT_READ | PROT_WRITE;
	void *ram = mmap(NULL, info->ram_bytes, prot, MAP_SHARED, keel->fd, KEEL_MMAP_RAM);
	void *vault;

	if (ram == MAP_FAILED)
		return -errno;
	hv->ram = ram;
	hv->ram_bytes = info->ram_bytes - info->firmware_bytes;
	hv->firmware_bytes = info->firmware_bytes;
	vault = mmap(NULL, info->vault_bytes, prot, MAP_SHARED, keel->fd, (off_t)KEEL_MMAP_VAULT);
	if (vault == MAP_FAILED)
		return -errno;
	hv->vault = vault;
	hv->vault_bytes = info->vault_bytes;
	hv->shared = vault;
	hv->ram_low_bytes = layout_ram_low(hv->ram_bytes);
	hv->vcpus = info->vcpus;
	memcpy(hv->name, info->name, sizeof(hv->name));
	hv->name[sizeof(hv->name) - 1] = '\0';
	if (hv->shared->magic != KEEL_VM_SHARED_MAGIC || hv->shared->version != KEEL_ABI_VERSION ||
	        hv->vcpus < 1 || hv->vcpus > KEEL_MAX_VCPUS || hv->vault_bytes < KEEL_VM_VAULT_MIN)
		return -EPROTO;
	return 0;
}

static int open_vm(int device, const char *name_or_id, struct hv_keel **out)
{
	struct keel_hc_vm_info info;
	struct hv_keel *keel;
	int fd, rc = find_vm(device, name_or_id, &info);

	if (rc != 0)
		return rc;
	struct keel_ioc_open request = {info.head.vm, KEEL_OPEN_DEVICE};

	fd = ioctl(device, KEEL_IOC_VM_OPEN, &request);
	if (fd < 0)
		return -errno;
	keel = calloc(1, sizeof(*keel));
	if (keel == NULL) {
		close(fd);
		return -ENOMEM;
	}
	keel->fd = fd;
	keel->hv.ops = &keel_ops;
	keel->hv.vm = info.head.vm;
	rc = map_regions(keel, &info);
	if (rc != 0) {
		keel_close(&keel->hv);
		return rc;
	}
	*out = keel;
	return 0;
}

static const char *explain(int rc)
{
	switch (rc) {
	case -ENOENT: return "there is no such VM";
	case -EBUSY: return "it has a device process already";
	case -EPROTO: return "hyp speaks another version of the interface";
	default: return strerror(-rc);
	}
}

int hv_keel_open(const char *name_or_id, struct hv **hv, char *error, size_t error_bytes)
{
	int device = open("/dev/keel", O_RDWR | O_CLOEXEC);
	struct hv_keel *keel = NULL;
	int rc;

	*hv = NULL;
	if (device < 0) {
		rc = -errno;
		snprintf(error, error_bytes,
		        "/dev/keel: %s (is this root on hyp, with keel.ko loaded?)", strerror(-rc));
		return rc;
	}
	rc = open_vm(device, name_or_id, &keel);
	close(device);
	if (rc != 0) {
		snprintf(error, error_bytes, "VM %s: %s", name_or_id, explain(rc));
		return rc;
	}
	*hv = &keel->hv;
	return 0;
}
