#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The device process: killed under load again and again, and what guests' ways to reboot come to."""
import re

from harness import Wrong, boot_server, has, run_cases, same
from lab import guests
from lab.guests import Guest

KILLS = 20
ROUNDS = 40
TINY = Guest("one", kind="tiny", cpus=2)

# Written, thrown out of the cache, read back and compared; a line a round.
LOAD = ("cd /root; i=0; while [ $i -lt %d ]; do i=$((i + 1)); "
        "dd if=/dev/urandom of=a bs=64k count=16 2>/dev/null; "
        "dd if=a of=b bs=64k conv=fsync 2>/dev/null || echo write-error; "
        "echo 3 >/proc/sys/vm/drop_caches; cmp a b || echo differ; "
        "done; echo rounds $i; dmesg | grep -ciE 'i/o error|is not a head|timeout'")


def start(machine):
    guests.make_bridge(machine)
    guests.wait_daemon(machine)
    guests.start(machine, TINY)
    guests.log_in(machine, TINY)


def test_killed_under_load(machine):
    """No request is lost, none is done twice, no error reaches the guest; the network goes on too."""
    start(machine)
    machine.check(
        f"(n=0; while [ $n -lt {KILLS} ]; do n=$((n + 1)); sleep 1; usleep $((n * 37 % 10 * 90000)); "
        "kill -9 $(pidof keelvm) && echo killed; done >/tmp/kills 2>&1 &) </dev/null")
    _, output = guests.run(machine, TINY, LOAD % ROUNDS, 240)
    kills = machine.check("cat /tmp/kills").count("killed")
    if kills < KILLS // 4:
        raise Wrong(f"only {kills} kills fell into the load; make it longer")
    if re.search("write-error|differ", output):
        raise Wrong(f"the guest saw what {kills} kills did:\n{output}")
    same(has(output, rf"^rounds {ROUNDS}\n(\d+)$", f"the guest's rounds over {kills} kills").group(1), "0",
         "errors in the guest's log")
    print(f"     {kills} kills while it wrote and read")
    guests.check(machine, TINY, f"ping -c 3 {guests.ROOT_ADDRESS}", 60)


def test_ways_to_reboot(machine):
    """Each is one clean reset, whether it goes through real mode, a port or a triple fault (C-59)."""
    for kind, cause in (("bios", "port"), ("kbd", "port"), ("triple", "triple fault"),
                        ("pci", "port")):
        guests.console(machine, TINY.name,
                       ("send", f"echo {kind} >/sys/kernel/reboot/type; sync; reboot -f"),
                       ("expect", "guest-userland [0-9.]+"), ("expect", guests.PROMPT["tiny"]))
        log = machine.check("keel vm log one")
        last = [line for line in log.splitlines() if "guest reset by" in line][-1]
        has(last, cause, f"the log's line about reboot={kind}")
    guests.check(machine, TINY, "true")


def test_end(machine):
    """Nothing of the VM is left."""
    machine.check("keel vm kill one", 60)
    same(guests.status(machine)["vms"], [], "VMs that hyp still has")


if __name__ == "__main__":
    run_cases(lambda: boot_server(below="keel", data=True, limit_s=900),
              [test_killed_under_load, test_ways_to_reboot, test_end])
