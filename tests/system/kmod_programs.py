# SPDX-License-Identifier: BSD-2-Clause
"""The module's test programs (tests/kmod), as cases for a server that has /dev/keel."""
import os
import tarfile

from harness import Hardware, Wrong, has, same
from lab.paths import BUILD

PROGRAMS = os.path.join(BUILD, "kmodtest")
SCRATCH = "/srv/keel-io-test"


def make_hardware(**more):
    """A server with the programs as a tar on its last disk, which put_programs unpacks."""
    path = os.path.join(BUILD, "kmodtest.tar")
    with tarfile.open(path, "w") as tar:
        for name in sorted(os.listdir(PROGRAMS)):
            if os.path.isfile(os.path.join(PROGRAMS, name)):
                tar.add(os.path.join(PROGRAMS, name), f"kmodtest/{name}")
    return Hardware(disks=[path], **more)


def put_programs(machine):
    machine.check("cd /tmp && tar x -f $(ls /dev/nvme*n1 | tail -1) && ls kmodtest")


def run_program(machine, name, arguments="", timeout_s=120):
    """What it printed; its own report tells which of its tests failed where."""
    result = machine.run(f"/tmp/kmodtest/{name} {arguments} 2>&1", timeout_s)
    if result.code:
        raise Wrong(f"tests/kmod/{name}: exit {result.code}\n{result.output}")
    has(result.output, "^ok ", f"the report of tests/kmod/{name}")
    return result.output


def test_mapping(machine):
    """2 MiB entries, their limits, memory in use is not given away."""
    run_program(machine, "map")


def test_direct_io(machine):
    """O_DIRECT and io_uring with registered buffers between the NVMe disk and a VM's memory."""
    run_program(machine, "io", SCRATCH)


def test_rights_and_events(machine):
    """The device right, doorbells, exits, notifications, interrupts; what is refused."""
    run_program(machine, "rights")


def test_create_and_destroy(machine):
    """200 VMs; the pool is as full as before."""
    run_program(machine, "churn")


def test_pages_are_accounted(machine):
    """The kernel's count of mapped file pages is where it was: each 2 MiB entry was taken off again."""
    script = "awk '/^Mapped|^FilePmdMapped/ {print $2}' /proc/meminfo"
    before = [int(n) for n in machine.check(script).split()]
    run_program(machine, "map")
    after = [int(n) for n in machine.check(script).split()]
    same(after[1], before[1], "FilePmdMapped")
    if abs(after[0] - before[0]) > 16384:
        raise Wrong(f"Mapped went from {before[0]} to {after[0]} kB")


def test_kernel_says_nothing(machine):
    """No warning, no bad page, no stack trace while all that went on."""
    bad = machine.run("dmesg | grep -E 'BUG:|WARNING:|[Bb]ad page|Call Trace|Oops|refcount_t|rss-counter'")
    same(bad.output, "", "complaints in root's log")


ALL = [test_mapping, test_direct_io, test_rights_and_events, test_create_and_destroy,
       test_pages_are_accounted, test_kernel_says_nothing]
