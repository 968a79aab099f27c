# SPDX-License-Identifier: BSD-2-Clause
"""A server of the other kind: Debian on the bare emulated metal, with KVM and QEMU, to compare with."""
import os

from lab import cache, debian
from lab.kernel import Kernel
from lab.machine import Boot

PACKAGES = debian.ROOT_PACKAGES + ["qemu-system-x86"]
DISK_MIB = 3072
# nested=0: the guests see no SVM, as keelOS's. vgif=0: else the emulator loses its host now and then.
LOAD_KVM = "modprobe kvm_amd nested=0 vgif=0 && [ -w /dev/kvm ]"


def make_boot(tell=None):
    """A Boot for a machine with below="none", and its disks."""
    kernel = Kernel(tell)
    packages = PACKAGES + [f"linux-image-{kernel.release}"]
    tar = debian.build_tar("debian-peer", packages, ["debian", "debian-root"], tell)
    disk = cache.get("debian-peer", ".img", [os.path.basename(tar), str(DISK_MIB)],
                     lambda path: debian.make_ext4(path, DISK_MIB, f'tar xf {tar} -C "$tree" '
                                                   "--exclude='./dev/*'", "keel-root"), tell)
    initrd = cache.get("debian-peer", ".initrd", [os.path.basename(tar)],
                       lambda path: debian.extract(tar, f"./boot/initrd.img-{kernel.release}", path),
                       tell)
    return Boot(kernel=kernel.image, initrd=initrd,
                root_args="root=LABEL=keel-root rw systemd.log_color=0"), [disk]
