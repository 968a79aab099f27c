#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What else a VM boots than a bzImage: an unpacked Linux by its PVH note, a Multiboot image; and what it refuses."""
import os
import struct
import tarfile

from harness import Hardware, boot_server, has, run_cases, same
from lab import guests
from lab.guests import Guest
from lab.kernel import Kernel
from lab.paths import BUILD

FILES = os.path.join(BUILD, "boot-ways.tar")
HELLO = os.path.join(BUILD, "guest/suite/hello.mb")
PVH = Guest("pvh", 1, "initramfs", cpus=2, memory="256M")
HEADER_AT = 0x1f1


def length_of(data, at, nibble):
    """LZ4: 15 goes on in further bytes, up to one that is not 255."""
    length = nibble
    while nibble == 15:
        length += data[at]
        at += 1
        if data[at - 1] != 255:
            break
    return length, at


def unpack_block(data, out):
    """One block of LZ4's block format."""
    at, end = 0, len(data)
    while at < end:
        token = data[at]
        count, at = length_of(data, at + 1, token >> 4)
        out += data[at:at + count]
        at += count
        if at >= end:
            break
        back = data[at] | data[at + 1] << 8
        count, at = length_of(data, at + 2, token & 15)
        count += 4
        start = len(out) - back
        if count <= back:
            out += out[start:start + count]
        else:
            out += (bytes(out[start:]) * (count // back + 1))[:count]


def unpack(bzimage, path):
    """The vmlinux in a bzImage (boot.rst, payload_offset), which Debian packs by LZ4's legacy frames."""
    with open(bzimage, "rb") as file:
        data = file.read()
    setup = (data[HEADER_AT] or 4) * 512 + 512
    offset, length = struct.unpack_from("<II", data, 0x248)
    packed = data[setup + offset:setup + offset + length - 4]
    same(packed[:4], b"\x02\x21\x4c\x18", "how the kernel is packed")
    at, out = 4, bytearray()
    while at < len(packed):
        size = struct.unpack_from("<I", packed, at)[0]
        block = bytearray()
        unpack_block(packed[at + 4:at + 4 + size], block)
        out += block
        at += 4 + size
    with open(path, "wb") as file:
        file.write(out)


def make_hardware():
    vmlinux = os.path.join(BUILD, "vmlinux")
    unpack(Kernel().image, vmlinux)
    with tarfile.open(FILES, "w") as tar:
        tar.add(vmlinux, "ways/vmlinux")
        tar.add(HELLO, "ways/hello.mb")
    return Hardware(disks=[FILES])


def test_pvh(machine):
    """Debian's kernel by its PVH note, with its initramfs as the module: all memory, both CPUs, ACPI."""
    machine.check("cd /tmp && tar x -f $(ls /dev/nvme*n1 | tail -1)")
    guests.wait_daemon(machine)
    guests.make_bridge(machine)
    text = PVH.text().replace("/srv/vmlinuz", "/tmp/ways/vmlinux")
    machine.put("/tmp/pvh.conf", text)
    machine.check("keel vm create /tmp/pvh.conf && keel vm start pvh", 120)
    guests.log_in(machine, PVH)
    has(guests.check(machine, PVH, "dmesg"), r"Booting paravirtualized kernel|PVH|Hypervisor detected", "its log")
    same(guests.check(machine, PVH, "nproc").split()[-1], "2", "CPUs")
    total = int(has(guests.check(machine, PVH, "grep MemTotal /proc/meminfo"), r"MemTotal: +(\d+) kB", "memory").group(1))
    same(total > 170000, True, f"memory that it has of 256 MiB: {total} kB")
    machine.check("keel vm kill pvh")


def test_multiboot(machine):
    """A tiny guest with the test device, ended by its exit port; its console is still there."""
    machine.put("/tmp/mb.conf", "name = mb\nmemory = 64M\nkernel = /tmp/ways/hello.mb\ntestdev = yes\nrng = no\n"
                "on_poweroff = preserve\n")
    machine.check("keel vm create /tmp/mb.conf && keel vm start mb", 60)
    guests.wait_state(machine, "mb", "preserved")
    has(guests.console_text(machine, "mb"), "^ok ", "its console")
    has(machine.check("keel vm log mb"), "the guest ended with 0", "its log")
    machine.check("keel vm kill mb")


def test_refusals(machine):
    for kernel, words in (("/bin/busybox", "neither a Multiboot 1 header nor a PVH note"),
                          ("/etc/passwd", "is no bzImage")):
        machine.put("/tmp/bad.conf", f"name = bad\nmemory = 64M\nkernel = {kernel}\n")
        result = machine.run("keel vm create /tmp/bad.conf 2>&1")
        same(result.code, 1, "exit code")
        has(result.output, rf"^keel: /tmp/bad.conf:3: kernel {kernel} .*{words}", "the error")


run_cases(lambda: boot_server(below="keel", data=True, limit_s=600, hardware=make_hardware()),
          [test_pvh, test_multiboot, test_refusals])
