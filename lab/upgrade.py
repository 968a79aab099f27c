# SPDX-License-Identifier: BSD-2-Clause
"""Root is upgraded to another kernel while a VM ticks and writes: done, watched, and put into figures."""
import json
import re
import shlex

from lab import figures, guests
from lab.paths import LabError

RECORDS = 256  # places on the VM's disk, written in turn


def start_ticking(machine, guest):
    """keel-load in the guest, in the background. Needs: log_in."""
    guests.check(machine, guest, f"keel-load records /srv/records {RECORDS} >/tmp/tick.out 2>&1 & echo $! >/tmp/tick.pid")


def end_ticking(machine, guest):
    """What keel-load saw, as a dictionary. Fails if a record is not what was written."""
    text = guests.check(machine, guest,
                        "kill $(cat /tmp/tick.pid); while kill -0 $(cat /tmp/tick.pid) 2>/dev/null; do usleep 100000; "
                        "done; cat /tmp/tick.out", 120)
    match = re.search(r"keel-load (\{.*\})", text)
    if not match:
        raise LabError(f"{guest.name}: keel-load did not tell what it saw:\n{text}")
    seen = json.loads(match.group(1))
    if seen["bad"] or seen["errors"] or not seen["records"]:
        raise LabError(f"{guest.name}: records were lost: {seen}")
    return seen


def guest_uptime_s(machine, guest):
    return float(guests.check(machine, guest, "cut -d' ' -f1 /proc/uptime").split()[-1])


def root_status(machine):
    return json.loads(machine.check("keel root status --json"))


def stage(machine, cmdline=None):
    """Gives hyp the images of the disk keel-next; cmdline: the kernel's, if not the one that root has."""
    machine.check("grep -q ' /mnt ' /proc/mounts || mount -t ext4 -o ro $(findfs LABEL=keel-next) /mnt")
    more = f" --cmdline {shlex.quote(cmdline)}" if cmdline else ""
    return machine.check(f"keel root stage /mnt/vmlinuz /mnt/initrd.img{more}", 60)


def restart(machine, script, start, timeout_s=180):
    """Runs a script that ends root; waits until root number `start` is ready and serves its VMs again."""
    machine.fire(script)
    machine.hyp.expect(rf"root: start {start} ", timeout_s)
    machine.wait_ready(timeout_s)
    guests.wait_daemon(machine)
    guests.make_bridge(machine)
    guests.wait_for(machine, "keel root status --json | grep -q '\"ready\":[^a-z]*true'", timeout_s)


def stall_ms(machine):
    """How long root was away, from its last moment to its report, by hyp's log."""
    log = machine.check("keel log")
    ended = re.findall(r"\[\d+ ([0-9.]+)\] root: stopped on", log)
    ready = re.findall(r"\[\d+ ([0-9.]+)\] root: ready", log)
    return round((float(ready[-1]) - float(ended[-1])) * 1000)


def write_figures(quiet, seen, down_ms):
    """quiet: the same guest without an upgrade, for as long."""
    return [
        figures.write("upgrade_tick_gap_ms_max", "ms", "lower", [seen["gap_ms_max"]], quiet=quiet["gap_ms_max"]),
        figures.write("upgrade_tick_gap_ms_p99", "ms", "lower", [seen["gap_ms_p99"]], quiet=quiet["gap_ms_p99"]),
        figures.write("upgrade_io_stall_ms", "ms", "lower", [seen["io_stall_ms"]], quiet=quiet["io_stall_ms"]),
        figures.write("upgrade_root_down_ms", "ms", "lower", [down_ms]),
        figures.write("upgrade_records_verified", "records", "higher", [seen["checked"]], written=seen["records"]),
    ]
