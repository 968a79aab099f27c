# SPDX-License-Identifier: BSD-2-Clause
"""keel.ko on bare emulated metal: it refuses to load, and on a hyp of the tests' own it works."""
from harness import boot_server, has, run_cases, same
import kmod_programs

# Begins and ends within a 128 MiB section that has RAM of root's too.
POOL_START, POOL_MIB = 0x42200000, 510


def test_refuses_without_hyp(machine):
    """One clear line, nothing left."""
    result = machine.run("modprobe keel || insmod /lib/modules/*/extra/keel.ko")
    same(result.code != 0, True, "loading keel.ko without hyp fails")
    has(machine.check("dmesg"), r"keel: not running on keelOS", "the reason in root's log")
    same(machine.check("ls /dev/keel 2>/dev/null; lsmod | grep -c '^keel' || true").strip(), "0",
         "what is left")


def load_fake(machine):
    machine.check(f"insmod /tmp/kmodtest/keel_fake.ko pool_start={POOL_START} pool_bytes={POOL_MIB << 20}")
    has(machine.check("dmesg"), rf"keel: hyp fake, .* pool {POOL_MIB} MiB", "its line in root's log")


def test_loads(machine):
    kmod_programs.put_programs(machine)
    load_fake(machine)


def test_unloads_and_loads(machine):
    """Unloading gives the pool's pages back; a second load finds all as the first."""
    for _ in range(3):
        machine.check("rmmod keel_fake")
        load_fake(machine)
    kmod_programs.run_program(machine, "map")
    machine.check("rmmod keel_fake")


def make_machine():
    return boot_server(below="none", data=True, limit_s=400, hardware=kmod_programs.make_hardware(),
                       root_args=f"memmap={POOL_MIB}M${POOL_START:#x}")


run_cases(make_machine, [test_refuses_without_hyp, test_loads, *kmod_programs.ALL,
                         test_unloads_and_loads, kmod_programs.test_kernel_says_nothing])
