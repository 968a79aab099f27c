#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""VMs that begin as a PC does: OVMF from a GPT disk, by the path of removable disks, and SeaBIOS from an MBR."""
import re
import struct
import uuid

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
NVRAM = FILE.format(name="nvram", firmware="OVMF_CODE_4M.fd", disk="gpt.img") + "firmware_vars = /firmware/nvram.fd\n"
EFIVARS = "/sys/firmware/efi/efivars"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
# UEFI 2.10 §8.2.1: non-volatile, for boot services and at runtime.
ATTRIBUTES = struct.pack("<I", 7)
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


def make_boot_entry():
    """UEFI 2.10 §3.1.3: a load option with the partition by its GUID and the loader's path in it."""
    disk = struct.pack("<BBHIQQ", 4, 1, 42, 1, iso.PARTITION_START, iso.PARTITION_MIB << 11)
    disk += uuid.UUID(iso.PARTITION_UUID).bytes_le + bytes([2, 2])
    path = (iso.GUEST_INSTALLED + "\0").encode("utf-16-le")
    places = disk + struct.pack("<BBH", 4, 4, 4 + len(path)) + path + bytes([0x7f, 0xff, 4, 0])
    return ATTRIBUTES + struct.pack("<IH", 1, len(places)) + "keel\0".encode("utf-16-le") + places


def write_variable(machine, name, data):
    octal = "".join(f"\\{byte:03o}" for byte in data)
    run(machine, "nvram", f"printf '{octal}' > {EFIVARS}/{name}-{GLOBAL}")


def run(machine, name, script):
    code, output = guests.run(machine, guests.Guest(name, kind="initramfs"), script)
    same(code, 0, f"exit of {script} in {name}: {output}")
    return output


def test_variables_are_kept(machine):
    """A boot entry of the guest's starts the loader that an installer leaves, in the VM's next life too."""
    machine.check("keel vm kill uefi; keel vm kill bios", 60)
    machine.check("cp /firmware/OVMF_VARS_4M.fd /firmware/nvram.fd")
    machine.put("/tmp/nvram.conf", NVRAM)
    machine.check("keel vm create /tmp/nvram.conf && keel vm start nvram", 60)
    has(wait_userland(machine, "nvram"), r"Command line: .*keel\.way=removable", "the first boot's way")
    run(machine, "nvram", f"mount -t efivarfs none {EFIVARS}")
    write_variable(machine, "Boot0099", make_boot_entry())
    write_variable(machine, "BootOrder", ATTRIBUTES + struct.pack("<H", 0x99))
    machine.check("keel vm kill nvram; keel vm start nvram", 60)
    has(wait_userland(machine, "nvram"), r"Command line: .*keel\.way=installed", "the second boot's way")
    has(run(machine, "nvram", f"mount -t efivarfs none {EFIVARS}; ls {EFIVARS}"), "Boot0099", "the variables")
    machine.check("keel vm kill nvram", 60)


def test_reboots(machine):
    """The firmware is in place again, whatever was written over it."""
    for name in VMS:
        guests.console(machine, name, ("send", "reboot -f"), ("expect", r"reboot: Restarting system"), timeout_s=60)
        wait_userland(machine, name, from_start=False)
        same(machine.check(f"grep -c 'guest started' /var/log/keel/{name}.log").strip(), "2", "starts")


def test_device_process_dies_under_firmware(machine):
    """Each successor goes on where the firmware's question was, or its write to the flash."""
    machine.check("keel vm start nvram", 60)
    for kill in range(KILLS):
        machine.check("kill -9 $(pidof keelvm)")
        guests.wait_for(machine, f"[ $(grep -c 'attached to the running guest' /var/log/keel/nvram.log) -gt {kill} ]", 60)
    if "Linux version" in guests.console(machine, "nvram", from_start=True, timeout_s=1):
        raise Wrong("the kernel was there before the last kill")
    has(wait_userland(machine, "nvram"), r"Command line: .*keel\.way=installed", "the way that the variables say")


if __name__ == "__main__":
    with make_machine() as server:
        server.wait_ready()
        set_up(server)
        finish([run_case(test, server) for test in (test_uefi, test_bios, test_reboots, test_variables_are_kept,
                                                   test_device_process_dies_under_firmware)])
