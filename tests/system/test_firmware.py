#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""VMs that begin as a PC does: OVMF from a GPT disk, by the path of removable disks, and SeaBIOS from an MBR."""
import re

from harness import Hardware, Wrong, finish, has, run_case, same
from lab import guests, images, iso
from lab.kernel import Kernel
from lab.machine import Machine

FILE = """name = {name}
cpus = 2
memory = 384M
firmware = /firmware/{firmware}
disk {{ path = /firmware/{disk} }}
net {{ bridge = br0 }}
"""
VMS = {"uefi": ("OVMF.fd", "gpt.img"), "bios": ("bios-256k.bin", "dos.img")}
# OVMF takes some ten seconds here, and says nothing until GRUB has started Linux.
BOOT_S = 180
KILLS = 6
MENDED = r".*(no compatible bridge window|BAR \d+: assigned|ACPI BIOS Error|ACPI Error).*"


def make_machine():
    boot, disks = images.make_boot(below="keel", data=True, tell=print)
    return Machine("test_firmware", boot, "keel", Hardware(disks=disks + [iso.build_firmware_guests(Kernel(), print)]), 600)


def set_up(machine):
    guests.wait_daemon(machine)
    guests.make_bridge(machine)
    machine.check("mkdir -p /firmware; mount $(ls /dev/nvme*n1 | tail -1) /firmware; ls /firmware/OVMF.fd")
    for name, (firmware, disk) in VMS.items():
        machine.put(f"/tmp/{name}.conf", FILE.format(name=name, firmware=firmware, disk=disk))
        machine.check(f"keel vm create /tmp/{name}.conf")


def wait_userland(machine, name, from_start=True):
    return guests.console(machine, name, ("expect", "guest-userland [0-9.]+"), ("expect", guests.PROMPT["initramfs"]),
                          timeout_s=BOOT_S, from_start=from_start)


def start(machine, name):
    machine.check(f"keel vm start {name}", 60)
    text = wait_userland(machine, name)
    has(text, r"smp: Brought up 1 node, 2 CPUs", "both vCPUs")
    has(text, r" vda: vda1", "the disk's partition")
    mended = re.search(MENDED, text)
    if mended:
        raise Wrong(f"the kernel had to mend what firmware left: {mended.group()}")
    return text


def test_uefi(machine):
    has(start(machine, "uefi"), r"efi: EFI v2\.\d+ by EDK II", "the kernel was started by UEFI")


def test_bios(machine):
    has(start(machine, "bios"), r"SMBIOS 2\.\d present", "a table that SeaBIOS makes")


def test_reboots(machine):
    """The firmware is in place again, whatever was written over it."""
    for name in VMS:
        guests.console(machine, name, ("send", "reboot -f"), ("expect", r"reboot: Restarting system"), timeout_s=60)
        wait_userland(machine, name, from_start=False)
        same(machine.check(f"grep -c 'guest started' /var/log/keel/{name}.log").strip(), "2", "starts")


def test_device_process_dies_under_firmware(machine):
    """Each successor goes on where the firmware's question was."""
    machine.check("keel vm kill uefi; keel vm kill bios", 60)
    machine.check("keel vm start uefi", 60)
    for kill in range(KILLS):
        machine.check("kill -9 $(pidof keelvm)")
        guests.wait_for(machine, f"[ $(grep -c 'attached to the running guest' /var/log/keel/uefi.log) -gt {kill} ]", 60)
    if "Linux version" in guests.console(machine, "uefi", from_start=True, timeout_s=1):
        raise Wrong("the kernel was there before the last kill")
    wait_userland(machine, "uefi")


if __name__ == "__main__":
    with make_machine() as server:
        server.wait_ready()
        set_up(server)
        finish([run_case(test, server) for test in (test_uefi, test_bios, test_reboots, test_device_process_dies_under_firmware)])
