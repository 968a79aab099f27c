#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A VM that begins with OVMF, from a GPT disk, by the path of removable disks."""
import re

from harness import Hardware, Wrong, finish, has, run_case, same
from lab import guests, images, iso
from lab.kernel import Kernel
from lab.machine import Machine

FILE = """name = uefi
cpus = 2
memory = 512M
firmware = /uefi/OVMF.fd
disk { path = /uefi/gpt.img }
net { bridge = br0 }
"""
# OVMF takes some ten seconds here, and says nothing until GRUB has started Linux.
BOOT_S = 180
KILLS = 6


def make_machine():
    boot, disks = images.make_boot(below="keel", data=True, tell=print)
    return Machine("test_uefi", boot, "keel", Hardware(disks=disks + [iso.build_uefi_guest(Kernel(), print)]), 600)


def set_up(machine):
    guests.wait_daemon(machine)
    guests.make_bridge(machine)
    machine.check("mkdir -p /uefi; mount $(ls /dev/nvme*n1 | tail -1) /uefi; ls /uefi/OVMF.fd")
    machine.put("/tmp/uefi.conf", FILE)
    machine.check("keel vm create /tmp/uefi.conf")


def wait_userland(machine, from_start=True):
    text = guests.console(machine, "uefi", ("expect", "guest-userland [0-9.]+"), ("expect", guests.PROMPT["initramfs"]),
                          timeout_s=BOOT_S, from_start=from_start)
    return text


def run(machine, script):
    return guests.run(machine, guests.Guest("uefi", kind="initramfs"), script)[1]


def test_boots(machine):
    machine.check("keel vm start uefi", 60)
    text = wait_userland(machine)
    has(text, r"efi: EFI v2\.\d+ by EDK II", "the kernel was started by UEFI")
    has(text, r"smp: Brought up 1 node, 2 CPUs", "both vCPUs")
    mended = re.search(r".*(no compatible bridge window|BAR \d+: assigned|ACPI BIOS Error|ACPI Error).*", text)
    if mended:
        raise Wrong(f"the kernel had to mend what firmware left: {mended.group()}")
    has(run(machine, "cat /proc/partitions"), r"vda1", "the disk's partition")


def test_reboots(machine):
    """By UEFI's own reset, which Linux takes there; the firmware is in place again."""
    guests.console(machine, "uefi", ("send", "reboot -f"), ("expect", r"reboot: Restarting system"), timeout_s=60)
    wait_userland(machine, from_start=False)
    same(machine.check("grep -c 'guest started' /var/log/keel/uefi.log").strip(), "2", "starts")


def test_device_process_dies_under_firmware(machine):
    """Each successor goes on where the firmware's question was."""
    machine.check("keel vm kill uefi", 60)
    machine.check("keel vm start uefi", 60)
    for kill in range(KILLS):
        machine.check("kill -9 $(pidof keelvm)")
        guests.wait_for(machine, f"[ $(grep -c 'attached to the running guest' /var/log/keel/uefi.log) -gt {kill} ]", 60)
    says = guests.console(machine, "uefi", from_start=True, timeout_s=1)
    if "Linux version" in says:
        raise Wrong("the kernel was there before the last kill")
    wait_userland(machine)


if __name__ == "__main__":
    with make_machine() as server:
        server.wait_ready()
        set_up(server)
        finish([run_case(test, server) for test in (test_boots, test_reboots, test_device_process_dies_under_firmware)])
