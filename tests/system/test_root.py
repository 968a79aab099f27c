#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Root on hyp: what it may not touch is refused and logged, and nothing comes of it."""
from harness import Wrong, boot_server, has, run_cases, same
from lab import guests

ONES = "0xFFFFFFFFFFFFFFFF"
PAGE = 4096


def find_ranges(machine):
    """hyp's own memory and the pool, by hyp's log: two (start, end)."""
    log = "\n".join(line for _, line in machine.hyp.lines)
    own = has(log, r"hyp at ([0-9a-f]+)-([0-9a-f]+)", "hyp's log")
    pool = has(log, r"pool: ([0-9a-f]+) to ([0-9a-f]+)", "hyp's log")
    return [tuple(int(n, 16) for n in match.groups()) for match in (own, pool)]


def check_refused(machine, address, what):
    """A read gives ones, a write changes nothing, and root goes on."""
    before = machine.check(f"devmem {address:#x} 64").strip()
    same(before, ONES, f"read of {what} at {address:#x}")
    machine.check(f"devmem {address:#x} 64 0x4b45454c4b45454c && devmem {address:#x} 32 0 && "
                  f"devmem {address:#x} 8 0")
    same(machine.check(f"devmem {address:#x} 64").strip(), ONES, f"{what} after a write")
    machine.hyp.expect(rf"root: write of 8 bytes at {address:x} .* refused", 10)


def test_hyp_memory_is_refused(machine):
    """Its image, its heap and its last page; hyp logs each and goes on."""
    (start, end), _ = find_ranges(machine)
    for address in (start, (start + end) // 2 & ~(PAGE - 1), end - PAGE):
        check_refused(machine, address, "hyp's memory")


def test_pool_is_refused(machine):
    """Memory that a VM may get is neither root's kernel's without keel.ko, nor /dev/mem's with it."""
    _, (start, end) = find_ranges(machine)
    machine.check("rmmod keel")
    for address in (start + (end - start) // 2, end - PAGE):
        check_refused(machine, address, "the free pool")
    machine.check("modprobe keel && ls /dev/keel")


def test_flood_of_refused_accesses(machine):
    """100 of them: the log stays short, root and hyp go on."""
    (start, _), _ = find_ranges(machine)
    machine.check(f"i=0; while [ $i -lt 100 ]; do devmem {start:#x} 64; i=$((i + 1)); done | sort -u >/tmp/got; "
                  f"[ $(cat /tmp/got) = {ONES} ]", 120)
    machine.hyp.expect("further refused accesses are only counted", 10)
    refusals = sum("refused, rip" in line for _, line in machine.hyp.lines)
    if refusals > 64:
        raise Wrong(f"{refusals} lines in hyp's log about refused accesses")
    same(machine.check("echo alive").strip(), "alive", "root")


def test_counted(machine):
    """keel status tells all of them."""
    count = guests.status(machine)["refused_accesses"]
    if count < 100:
        raise Wrong(f"{count} refused accesses are told, at least 100 were made")


def make_machine():
    # keeld would hold /dev/keel open, and the module could not go.
    return boot_server(below="keel", limit_s=300, root_args="lab.nodaemon")


run_cases(make_machine, [test_hyp_memory_is_refused, test_pool_is_refused, test_flood_of_refused_accesses,
                         test_counted])
