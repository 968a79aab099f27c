# SPDX-License-Identifier: BSD-2-Clause
"""Puts together what a machine boots, by what is wanted of it; builds what the cache does not have."""
import os

from lab import debian, initramfs, iso as grub
from lab.kernel import Kernel
from lab.machine import POOL, Boot
from lab.paths import BUILD, need


def make_boot(below="keel", root="initramfs", iso=None, root_args="", hyp_args=POOL, data=False,
              tell=None):
    """A Boot and the disks that go with it.

    iso: None, 'bios' or 'uefi' (then hyp comes by GRUB). data: with the disk that has guests' files,
    which root mounts on /srv.
    """
    kernel = Kernel(tell)
    disks = []
    if root == "debian":
        disk, initrd = debian.build_root(kernel, tell)
        disks.append(disk)
        root_args = f"root=LABEL=keel-root rw systemd.log_color=0 {root_args}".strip()
    else:
        initrd = initramfs.build_root(kernel, tell)
    if data:
        disks.append(debian.build_data(kernel, tell))
    boot = Boot(kernel=kernel.image, initrd=initrd, root_args=root_args, hyp_args=hyp_args)
    if below == "keel":
        boot.hyp = need(os.path.join(BUILD, "hyp.elf32"), "run make hyp")
    if iso:
        boot.iso = grub.build(boot, below, tell)
        boot.uefi = iso == "uefi"
    return boot, disks


def build_next(tell=None):
    """The disk that has another kernel, and root's initramfs for it."""
    return debian.build_next(Kernel(tell, "backports"), tell)


def build_all(tell=None):
    """Every image that tests and demo use, by name."""
    kernel = Kernel(tell)
    built = {"root's initramfs": initramfs.build_root(kernel, tell),
             "guest's initramfs": initramfs.build_guest(kernel, tell)}
    built["root's disk"], built["root's own initramfs"] = debian.build_root(kernel, tell)
    built["the next root"] = build_next(tell)
    built["the guests' disks"] = debian.build_data(kernel, tell)
    return built
