#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""hyp as a debug build, whose oracle looks after every hypercall whether each page has one owner.

A violation is a panic of hyp's; the log says how often it looked. tests/unit/hyp/core/test_oracle.c shows
that it finds what it has to.
"""
import os
import re
import subprocess

from harness import Wrong, boot_server, has, run_cases
from lab import guests
from lab.guests import Guest
from lab.paths import BUILD, TOP

PLACE = os.path.join(BUILD, "oracle")
ONE = Guest("one", 1, "initramfs", memory="128M")
TWO = Guest("two", 2, "initramfs", cpus=2, memory="128M")
CHECKS_MIN = 256


def make_server():
    subprocess.run(["make", "-s", "-C", TOP, f"B={PLACE}", "ORACLE=1", "hyp"], check=True)
    machine = boot_server(below="keel", data=True, limit_s=900)
    machine.boot.hyp = os.path.join(PLACE, "hyp.elf32")
    return machine


def test_vms_come_and_go(machine):
    """Two side by side, one ended and made again of what the other left, and a reset."""
    guests.make_bridge(machine)
    guests.wait_daemon(machine)
    for guest in (ONE, TWO):
        guests.start(machine, guest)
        guests.log_in(machine, guest)
    for _ in range(3):
        machine.check("keel vm kill one")
        guests.start(machine, ONE)
        guests.log_in(machine, ONE)
    machine.check("keel vm kill one; keel vm kill two")


def test_it_looked(machine):
    log = machine.check("keel log")
    has(log, r"oracle: 1 checks", "hyp's log")
    most = max(int(n) for n in re.findall(r"oracle: (\d+) checks", log))
    print(f"     it looked at least {most} times")
    if most < CHECKS_MIN:
        raise Wrong(f"only {most} checks")


run_cases(make_server, [test_vms_come_and_go, test_it_looked])
