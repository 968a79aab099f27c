/* SPDX-License-Identifier: BSD-2-Clause */
/* The ioctls of abi/ioctl.h that only look (device.h). */
#include "cli/device.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "abi/exits.h"
#include "abi/ioctl.h"
#include "cli/verb.h"

static int call(int fd, unsigned long request, void *block)
{
	return ioctl(fd, request, block) < 0 ? -errno : 0;
}

int device_open(int *code)
{
	int fd = open("/dev/keel", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	if (errno == EACCES || errno == EPERM)
		*code = complain(EXIT_REFUSED, "/dev/keel: only root may; use sudo");
	else
		*code = complain(EXIT_NO_HYP,
		        "/dev/keel: %s; this is not root on hyp, or keel.ko is not loaded "
		        "(modprobe keel)",
		        strerror(errno));
	return -1;
}

int device_info(int fd, struct keel_hc_info *info)
{
	*info = (struct keel_hc_info){0};
	return call(fd, KEEL_IOC_INFO, info);
}

int device_next_vm(int fd, struct keel_hc_vm_info *info)
{
	int rc;

	*info = (struct keel_hc_vm_info){.head = {.vm = info->head.vm}};
	if (info->head.vm > KEEL_MAX_VMS)
		return -ENOENT;
	rc = call(fd, KEEL_IOC_VM_INFO, info);
	info->name[sizeof(info->name) - 1] = '\0';
	return rc;
}

int device_counters(int fd, struct keel_hc_counters *counters)
{
	*counters = (struct keel_hc_counters){.vcpu = KEEL_COUNTERS_SUM};
	return call(fd, KEEL_IOC_COUNTERS, counters);
}

int device_open_vm_id(int fd, uint32_t vm)
{
	struct keel_ioc_open request = {.vm = vm};
	int vm_fd = ioctl(fd, KEEL_IOC_VM_OPEN, &request);

	return vm_fd < 0 ? -errno : vm_fd;
}

int device_open_vm(int fd, const char *name)
{
	struct keel_hc_vm_info info = {.head = {.vm = 1}};
	int rc;

	while ((rc = device_next_vm(fd, &info)) == 0) {
		if (strcmp(info.name, name) == 0)
			return device_open_vm_id(fd, info.head.vm);
		info.head.vm++;
	}
	return rc;
}

int device_console_read(int vm_fd, struct keel_hc_console *block)
{
	return call(vm_fd, KEEL_IOC_CONSOLE_READ, block);
}

int device_console_write(int vm_fd, struct keel_hc_console *block)
{
	return call(vm_fd, KEEL_IOC_CONSOLE_WRITE, block);
}

int device_log_read(int fd, struct keel_hc_console *block)
{
	return call(fd, KEEL_IOC_LOG_READ, block);
}

int device_list(int fd, struct device_vm *vms, unsigned max)
{
	struct keel_hc_vm_info info = {.head = {.vm = 1}};
	unsigned count = 0;
	int rc = 0;

	while (count < max && (rc = device_next_vm(fd, &info)) == 0) {
		int vm_fd = device_open_vm_id(fd, info.head.vm);

		vms[count] = (struct device_vm){.info = info};
		/* One that has just gone is left out. */
		if (vm_fd >= 0 && device_counters(vm_fd, &vms[count].counters) == 0)
			count++;
		if (vm_fd >= 0)
			close(vm_fd);
		info.head.vm++;
	}
	return rc == 0 || rc == -ENOENT ? (int)count : rc;
}

uint64_t device_exits(const struct keel_hc_counters *counters)
{
	uint64_t sum = 0;

	for (unsigned i = 1; i < KEEL_KIND_COUNT; i++)
		sum += counters->exits[i];
	return sum;
}
