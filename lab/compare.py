# SPDX-License-Identifier: BSD-2-Clause
"""The images by which keelOS and KVM are compared: one root and one guest disk for both sides.

Root is the lab's Debian 12 with keelOS and, beside it, QEMU as Debian's backports have it. The guest is Debian 13
with the programs that measure; its kernel is the one of backports, which is Debian 13's.
"""
import os

from lab import cache, debian, initramfs
from lab.kernel import Kernel

GUEST_SUITE = "trixie"
GUEST_PACKAGES = ["kmod", "iproute2", "procps", "fio", "iperf3", "sysbench", "7zip", "linux-perf", "gcc", "libc6-dev",
                  "make", "pkg-config", "dpkg-dev"]
MIRROR = "http://deb.debian.org/debian"
# Redis of Debian 12: all C, and its 7.0 is what others' figures are of.
GUEST_SOURCES = [f"deb {MIRROR} {GUEST_SUITE} main", f"deb-src {MIRROR} bookworm main"]
BACKPORTS = "bookworm-backports"
ROOT_SOURCES = [f"deb {MIRROR} bookworm main", f"deb {MIRROR} bookworm-updates main",
                "deb http://deb.debian.org/debian-security bookworm-security main", f"deb {MIRROR} {BACKPORTS} main"]
ROOT_PACKAGES = ["python3"] + [f"{name}/{BACKPORTS}" for name in (
    "qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")]
ROOT_MIB = 3072
GUEST_MIB = 1536
DATA_MIB = 4096
TEST_DISK_MIB = 1024


def build_root(kernel, tell=None):
    """Root's disk and its initramfs: two paths, used on both sides."""
    packages = debian.ROOT_PACKAGES + ROOT_PACKAGES + [f"linux-image-{kernel.release}"]
    tar = debian.build_tar("compare-root", packages, ["debian", "debian-root"], tell, sources=ROOT_SOURCES)
    base = cache.get("compare-root", ".base.img", [os.path.basename(tar), str(ROOT_MIB)],
                     lambda path: debian.make_ext4(path, ROOT_MIB, f'tar xf {tar} -C "$tree" --exclude=\'./dev/*\'',
                                                   "keel-root"), tell)
    initrd = cache.get("compare-root", ".initrd", [os.path.basename(tar)],
                       lambda path: debian.extract(tar, f"./boot/initrd.img-{kernel.release}", path), tell)
    return debian.add_keel(base, kernel, tell, "compare-root-keel"), initrd


def build_guest(tell=None):
    """The guest's disk."""
    tar = debian.build_tar("compare-guest", GUEST_PACKAGES, ["compare-guest"], tell, GUEST_SUITE, GUEST_SOURCES)

    def build(path):
        debian.make_ext4(path, GUEST_MIB, f"tar xf {tar} -C \"$tree\" --exclude='./dev/*'", "guest")

    return cache.get("compare-guest", ".img", [os.path.basename(tar), str(GUEST_MIB)], build, tell)


def guest_files(tell=None):
    """Name to path of what a server needs to start the guests."""
    kernel = Kernel(tell, "backports")
    return {"vmlinuz": kernel.image, "initrd.img": initramfs.build_guest(kernel, tell), "guest.img": build_guest(tell)}


def build_data(tell=None):
    """The disk that root mounts on /srv: the guests' kernel, initramfs, and a system disk each."""
    files = guest_files(tell)

    def build(path):
        copies = f'cp {files["vmlinuz"]} "$tree"/vmlinuz; cp {files["initrd.img"]} "$tree"/initrd.img; '
        copies += "".join(f'cp --sparse=always {files["guest.img"]} "$tree"/guest-{n}.img; ' for n in "ab")
        debian.make_ext4(path, DATA_MIB, copies, "keel-data")

    inputs = [os.path.basename(p) for p in files.values()] + [str(DATA_MIB)]
    return cache.get("compare-data", ".img", inputs, build, tell)


def build_test_disk(tell=None):
    """An empty disk: whoever measures writes it once before."""
    def build(path):
        with open(path, "wb") as out:
            out.truncate(TEST_DISK_MIB << 20)

    return cache.get("compare-test", ".img", [str(TEST_DISK_MIB)], build, tell)


def build_disks(tell=None):
    """Root's kernel, its initramfs, and the server's three disks."""
    kernel = Kernel(tell)
    root, initrd = build_root(kernel, tell)
    return kernel.image, initrd, [root, build_data(tell), build_test_disk(tell)]
