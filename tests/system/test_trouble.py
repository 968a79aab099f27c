#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A root that goes wrong beside a VM that ticks: the VM goes on, and hyp does not come down."""
import os
import re
import tarfile

from harness import Hardware, Wrong, boot_server, finish, has, run_case, within
from lab.paths import BUILD

FILES = {"keel_trouble.ko": "kmodtest/fake/keel_trouble.ko", "keel-guest": "guest/keel-guest",
         "tick.elf": "guest/tick.elf"}
HANG_MS = 6000
# The emulator's host takes CPUs away now and then; a VM that root's hang stops misses all of it.
GAP_MS = 2000


def make_machine(name, **more):
    path = os.path.join(BUILD, "trouble.tar")
    with tarfile.open(path, "w") as tar:
        for there, here in FILES.items():
            tar.add(os.path.join(BUILD, here), there)
    return boot_server(name=name, hardware=Hardware(disks=[path]), limit_s=240, **more)


def begin(machine, seconds):
    """The VM ticks from here on, one vCPU on each CPU, for so many seconds."""
    machine.wait_ready()
    machine.check("cd /tmp && tar x -f $(ls /dev/nvme*n1 | tail -1) && modprobe keel; ls /dev/keel")
    machine.check(f"cd /tmp && (./keel-guest -c 2 -m 16 -t {seconds + 60} -a 'seconds={seconds} gap_ms={GAP_MS}' "
                  "tick.elf >tick.log 2>&1 &) && sleep 1")


def test_hang():
    """All of root's CPUs spin with interrupts off, IPIs pending on each; then root goes on."""
    with make_machine("trouble-hang") as machine:
        begin(machine, HANG_MS // 1000 + 8)
        machine.run(f"insmod /tmp/keel_trouble.ko hang_ms={HANG_MS}", 120)
        machine.check("for i in $(seq 600); do pidof keel-guest >/dev/null || exit 0; sleep 0.1; done; exit 1", 120)
        said = machine.check("cat /tmp/tick.log")
        gaps = [int(n) for n in re.findall(r"longest gap (\d+) ms", said)]
        if len(gaps) != 2:
            raise Wrong(f"no two gaps in:\n{said}")
        print(f"longest gaps of the VM's ticks: {gaps} ms, root hung for {HANG_MS} ms")
        for gap in gaps:
            within(gap, 10, GAP_MS, "longest gap in ms")
        machine.power_off()


def test_refused_state():
    """Root sets a bit of CR4 that no CPU has: a #GP, or another root; hyp stays."""
    with make_machine("trouble-state") as machine:
        begin(machine, 60)
        machine.check("(sleep 0.5; insmod /tmp/keel_trouble.ko refused_state=1) >/dev/null 2>&1 &")
        machine.hyp.expect(r"root: start 2 from image", 60)
        panics = [line for _, line in machine.hyp.lines if "PANIC" in line]
        if panics:
            raise Wrong(f"hyp's log: {panics}")


def test_image_that_cannot_start():
    """A staged kernel that takes no command line: hyp falls back to the good image, the VM ticks on."""
    with make_machine("trouble-image", data=True) as machine:
        begin(machine, 60)
        # cmdline_size, offset 238h of the setup header
        machine.check("cp /srv/vmlinuz /tmp/kernel && printf '\\012\\0\\0\\0' | "
                      "dd of=/tmp/kernel bs=1 seek=568 conv=notrunc && echo 1 >/tmp/initrd && "
                      "keel root stage /tmp/kernel /tmp/initrd", 120)
        machine.check("(sleep 0.5; reboot -f) >/dev/null 2>&1 &")
        machine.hyp.expect("cannot be started", 60)
        machine.hyp.expect("root: start 2 from image .as booted", 60)


def test_odd_msrs():
    """Writes of MSRs that hyp depends on: a #GP or no effect, for root alone."""
    with make_machine("trouble-msrs") as machine:
        begin(machine, 4)
        machine.run("insmod /tmp/keel_trouble.ko odd_msrs=1")
        said = machine.check("dmesg | grep keel_trouble")
        has(said, "odd MSRs written", "what the module said")
        if "wrong" in said:
            raise Wrong(said)
        machine.check("for i in $(seq 600); do pidof keel-guest >/dev/null || exit 0; sleep 0.1; done; exit 1", 120)
        has(machine.check("cat /tmp/tick.log"), "longest gap", "the VM's ticks")
        machine.power_off()


finish([run_case(case) for case in (test_odd_msrs, test_hang, test_refused_state, test_image_that_cannot_start)])
