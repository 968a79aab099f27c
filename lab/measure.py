# SPDX-License-Identifier: BSD-2-Clause
"""What is measured of a running server: the start of root and of a VM, memory, exits."""
import re
import shlex
import statistics

from lab import figures, guests
from lab.paths import LabError

MEMORY_MAX_KIB = 8192
USERLAND = {"debian": "login: ", "tiny": "guest-userland [0-9.]+"}


def entry_to_root_ms(machine):
    """From hyp's first instruction to root's, by hyp's own clock."""
    return round(guests.status(machine)["entry_to_root_ms"], 1)


def start_to_userland_s(machine, guest, timeout_s=240):
    """From `keel vm start` to the guest's userland, by root's clock. Needs: created, not started."""
    expect = shlex.quote(USERLAND[guest.kind])
    output = machine.check(
        "read before rest </proc/uptime\n"
        f"keel vm start {guest.name} || exit 1\n"
        f"keel vm console --from-start --timeout {timeout_s} --expect {expect} {guest.name} "
        ">/tmp/console.out 2>&1 || { tail -30 /tmp/console.out; exit 1; }\n"
        "read after rest </proc/uptime\necho $before $after", timeout_s + 60)
    before, after = output.split()[-2:]
    return round(float(after) - float(before), 2)


def exits_by_kind(machine, name):
    """A VM's exits so far, by kind."""
    for vm in guests.status(machine)["vms"]:
        if vm["name"] == name:
            return {kind: int(count) for kind, count in vm["exits"].items()}
    raise LabError(f"hyp has no VM {name}")


def keelvm_kib(machine, name):
    """What a VM's device process has resident beside the VM's own memory (RAM and vault), in KiB."""
    text = machine.check(f"cat /proc/{guests.list_vms(machine)[name]['pid']}/smaps")
    total, counts = 0, False
    for line in text.splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            counts = "[keel-" not in line
        elif counts and line.startswith("Rss:"):
            total += int(line.split()[1])
    if total == 0:
        raise LabError(f"keelvm of {name} has no memory:\n{text[:500]}")
    return total


def write_all(entry_ms, userland_s, memory_kib, exits):
    """Writes these measurements' figures, each a list with a value a run; returns them."""
    totals = [sum(e.values()) for e in exits]
    kinds = sorted({k for e in exits for k in e}, key=lambda k: -exits[-1].get(k, 0))
    by_kind = {k: statistics.median(e.get(k, 0) for e in exits) for k in kinds}
    return [
        figures.write("hyp_entry_to_root_ms", "ms", "lower", entry_ms),
        figures.write("vm_start_to_userland_s", "s", "lower", userland_s),
        figures.write("keelvm_resident_kib", "KiB", "lower", memory_kib, max=MEMORY_MAX_KIB),
        figures.write("guest_boot_exits", "exits", "lower", totals, by_kind=by_kind),
    ]
