#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Root panics while a slow disk has reads under way into its memory and a VM's: nothing of them lands in the next root."""
import os
import tempfile

from harness import Hardware, finish, has, run_case, same, within
from kmod_programs import make_hardware
from lab import images, upgrade
from lab.machine import Machine

DISK_MIB = 64
# 64 MiB under way take over a minute: most of it is still to come when root ends.
READ_BPS = 1 << 20
HELD_MIB = 1400
WATCH_S = 12
# What the next root does without, so that no driver of its resets the slow disk.
DRIVERS = {"nvme": "nvme_init", "virtio-blk-pci": "virtio_blk_init"}


def make_machine(folder, slow, programs_on):
    """A server with a disk of one byte's value that is read slowly, beside the usual ones."""
    boot, disks = images.make_boot(below="keel", data=True, tell=print)
    path = os.path.join(folder, "slow.img")
    with open(path, "wb") as out:
        out.write(b"\xc3" * (DISK_MIB << 20))
    programs = make_hardware().disks[0]
    hardware = Hardware(disks=disks + [images.build_next(print)], more=[
        "-drive", f"if=none,id=slow,format=raw,readonly=on,file={path},throttling.bps-read={READ_BPS}",
        "-device", f"{slow},drive=slow,serial=slow",
        "-drive", f"if=none,id=programs,format=raw,readonly=on,file={programs}",
        "-device", f"{programs_on},drive=programs,serial=programs"])
    return Machine(f"test_quiesce_{slow[:4]}", boot, "keel", hardware, 600)


def find_disk(serial):
    """Shell words that set $disk to the disk with this serial number, whatever its driver; /dev/ alone if there is none."""
    return (f"disk=; for s in /sys/block/*/device/serial /sys/block/*/serial; do ! grep -q {serial} $s 2>/dev/null || "
            "{ disk=${s#/sys/block/}; disk=${disk%%/*}; }; done; disk=/dev/$disk; ")


def put(machine):
    machine.check(find_disk("programs") + "cd /tmp && tar x -f $disk && ls kmodtest/inflight")


def begin_reads(machine):
    """Returns the VM's number once some places were read."""
    machine.check(find_disk("slow") + "/tmp/kmodtest/inflight read $disk >/tmp/read.out 2>&1 & "
                  "n=0; until grep -q ' 3 read' /tmp/read.out; do n=$((n + 1)); [ $n -lt 200 ] || { cat /tmp/read.out; exit 1; }; "
                  "usleep 100000; done", 180)
    return int(has(machine.check("tail -n 1 /tmp/read.out"), r"VM (\d+), 128 in flight", "the reads").group(1))


def bytes_read(machine):
    """What the slow disk has read into memory, by the emulator's count."""
    return next(disk["stats"]["rd_bytes"] for disk in machine.qmp.command("query-blockstats") if disk["device"] == "slow")


def reads_in_flight(slow, programs_on):
    """The VM's memory and most of the new root's are watched while the old root's reads would still come."""
    with tempfile.TemporaryDirectory(prefix="keel-quiesce-") as folder, make_machine(folder, slow, programs_on) as machine:
        machine.wait_ready()
        put(machine)
        upgrade.stage(machine, cmdline=f"console=ttyS1 tsc=reliable panic=-1 initcall_blacklist={DRIVERS[slow]}")
        vm = begin_reads(machine)
        within(bytes_read(machine), 0, DISK_MIB << 19, "bytes read so far: most are under way")
        machine.fire("echo c >/proc/sysrq-trigger")
        machine.hyp.expect("root: start 2 ", 120)
        before = bytes_read(machine)
        machine.wait_ready(180)
        same(machine.check(find_disk("slow") + "echo $disk").strip(), "/dev/", "what the next root sees of the slow disk")
        put(machine)
        said = machine.check(f"/tmp/kmodtest/inflight hold {vm} {HELD_MIB} {WATCH_S}", WATCH_S + 120)
        print(said.strip())
        seen = has(said, r"changed: (\d+) bytes of the VM, (\d+) of root", "what was seen")
        same(bytes_read(machine), before, "bytes that the disk had read when the new root started, and now")
        same(seen.groups(), ("0", "0"), "bytes of the VM and of root that changed under the next root")


def test_reads_of_nvme():
    """The controller is reset by its function (without that, 8 MiB of the VM and 12 of root changed in 12 s)."""
    reads_in_flight("nvme", "virtio-blk-pci")


def test_reads_of_virtio():
    """A virtio disk has no reset of its function; without bus mastering it ends what it has."""
    reads_in_flight("virtio-blk-pci", "nvme")


if __name__ == "__main__":
    finish([run_case(test_reads_of_nvme), run_case(test_reads_of_virtio)])
