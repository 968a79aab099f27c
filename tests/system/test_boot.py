#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""hyp boots root by each of its ways: Multiboot 1, and Multiboot 2 by GRUB in BIOS and UEFI mode."""
from harness import Hardware, boot_server, has, run_alone, same, within

POOL_MIB = 1536
MEMORY_MIB = 4096


def check_root(machine):
    """Root has both CPUs, its own clock, all memory but hyp's and the pool, and turns off in order."""
    machine.wait_ready(180)
    same(machine.check("nproc").strip(), "2", "CPUs of root")
    clock = machine.check("cat /sys/devices/system/clocksource/clocksource0/current_clocksource")
    same(clock.strip(), "tsc", "clock source")
    total = has(machine.check("cat /proc/meminfo"), r"^MemTotal: +(\d+) kB", "memory").group(1)
    # Linux keeps some 100 MiB for itself, hyp a few for its tables.
    within(int(total) // 1024, MEMORY_MIB - POOL_MIB - 200, MEMORY_MIB - POOL_MIB, "MiB of root")
    has(machine.check("dmesg"), r"smp: Brought up 1 node, 2 CPUs", "root's log")
    machine.power_off()


def test_multiboot1():
    with boot_server("boot-multiboot1", root="initramfs") as machine:
        check_root(machine)


def test_debian_on_nvme():
    with boot_server("boot-debian", root="debian") as machine:
        check_root(machine)


def test_grub_bios():
    with boot_server("boot-grub-bios", iso="bios") as machine:
        check_root(machine)


def test_grub_uefi():
    with boot_server("boot-grub-uefi", iso="uefi") as machine:
        check_root(machine)


def test_no_svm():
    """A CPU without SVM gets one clear line, and no root."""
    with boot_server("boot-no-svm", hardware=Hardware(cpu="max,svm=off")) as machine:
        line = machine.hyp.expect(r"^.*\bSVM\b.*$", 60).group(0)
        has(line, r"(?i)no|not|without|lacks|needs", "hyp's line")


run_alone([test_multiboot1, test_debian_on_nvme, test_grub_bios, test_grub_uefi, test_no_svm])
