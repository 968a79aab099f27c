#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The guests' disk images, on plain QEMU: when a VM fails on keelOS it is not for its image."""
import hashlib
import os
import tempfile

from harness import Hardware, Machine, has, run_alone, same
from lab import debian, initramfs
from lab.kernel import Kernel
from lab.machine import Boot

ARGS = "root=/dev/vda rw keel.ip=10.77.0.11/24 keel.name=vm-a systemd.log_color=0"


def boot_image(name, image):
    """A machine that is the guest itself: its ttyS0 is what else is hyp's log."""
    kernel = Kernel()
    boot = Boot(kernel=kernel.image, initrd=initramfs.build_guest(kernel), root_args=ARGS,
                console="ttyS0")
    drive = f"if=none,id=guest,format=raw,snapshot=on,file={image}"
    hardware = Hardware(memory_mib=512, more=["-drive", drive, "-device",
                                              "virtio-blk-pci,drive=guest"])
    return Machine(name, boot, "none", hardware, limit_s=120)


def check_guest(machine):
    console = machine.hyp
    console.send("cd /srv; sha256sum -c checked.sha256; hostname; ip -4 -o addr show; echo end\n")
    text = console.expect(r"(?s)checked.bin: (.*)\nend", 60).group(1)
    has(text, r"^OK", "the checked file")
    has(text, r"^vm-a\r?$", "host name")
    has(text, r"10\.77\.0\.11/24", "address")
    console.send("poweroff\n")
    machine.wait_end(60)


def test_tiny_guest():
    with boot_image("guest-tiny", debian.build_tiny(Kernel())) as machine:
        machine.hyp.expect("guest-userland", 60)
        machine.hyp.expect("guest# ", 30)
        check_guest(machine)


def test_debian_guest():
    with boot_image("guest-debian", debian.build_guest(Kernel())) as machine:
        machine.hyp.expect(r"vm-a login: |guest login: ", 90)
        machine.hyp.send("root\n")
        machine.hyp.expect(r"root@[a-z-]+:~# ", 30)
        check_guest(machine)


def test_checked_file_is_checked():
    """A flipped byte in the file's source would be found: the sum is of what was written."""
    with tempfile.TemporaryDirectory() as folder:
        debian.write_checked_file(folder, 1)
        with open(os.path.join(folder, "checked.bin"), "rb") as file:
            data = file.read()
        with open(os.path.join(folder, "checked.sha256"), encoding="utf-8") as file:
            same(file.read().split()[0], hashlib.sha256(data).hexdigest(), "sum")
        same(len(data), 1 << 20, "size")


run_alone([test_checked_file_is_checked, test_tiny_guest, test_debian_guest])
