/* SPDX-License-Identifier: BSD-2-Clause */
/* hyp.h on /dev/keel. */
#include "keeld/hyp.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "abi/ioctl.h"

static int call(int fd, unsigned long request, void *block)
{
	return ioctl(fd, request, block) < 0 ? -errno : 0;
}

static int keel_info(struct hyp *hyp, struct keel_hc_info *info)
{
	*info = (struct keel_hc_info){0};
	return call(hyp->fd, KEEL_IOC_INFO, info);
}

static int keel_vm_info(struct hyp *hyp, struct keel_hc_vm_info *info)
{
	*info = (struct keel_hc_vm_info){.head = {.vm = info->head.vm}};
	return info->head.vm > KEEL_MAX_VMS ? -ENOENT : call(hyp->fd, KEEL_IOC_VM_INFO, info);
}

static int keel_vm_create(struct hyp *hyp, struct keel_hc_vm_create *block)
{
	return call(hyp->fd, KEEL_IOC_VM_CREATE, block);
}

static int keel_vm_destroy(struct hyp *hyp, uint32_t vm)
{
	struct keel_ioc_open request = {.vm = vm, .flags = KEEL_OPEN_DEVICE};
	struct keel_hc_vm block = {.head = {.vm = vm}};
	int fd = ioctl(hyp->fd, KEEL_IOC_VM_OPEN, &request);
	int rc;

	if (fd < 0)
		return -errno;
	rc = call(fd, KEEL_IOC_VM_DESTROY, &block);
	close(fd);
	return rc;
}

static int keel_root_ready(struct hyp *hyp)
{
	struct keel_hc_vm block = {0};

	return call(hyp->fd, KEEL_IOC_ROOT_READY, &block);
}

static int keel_root_beat(struct hyp *hyp, uint32_t timeout_ms)
{
	struct keel_hc_root_beat block = {.timeout_ms = timeout_ms};

	return call(hyp->fd, KEEL_IOC_ROOT_BEAT, &block);
}

int hyp_open(struct hyp *hyp)
{
	*hyp = (struct hyp){
	        .info = keel_info,
	        .vm_info = keel_vm_info,
	        .vm_create = keel_vm_create,
	        .vm_destroy = keel_vm_destroy,
	        .root_ready = keel_root_ready,
	        .root_beat = keel_root_beat,
	        .fd = open("/dev/keel", O_RDWR | O_CLOEXEC),
	};
	return hyp->fd < 0 ? -errno : 0;
}

void hyp_close(struct hyp *hyp)
{
	close(hyp->fd);
}
