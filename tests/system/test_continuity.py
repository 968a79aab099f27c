#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The device process is replaced on purpose, dies between chosen stores, dies again in its recovery: nothing is lost."""
from harness import Wrong, has, run_cases, same
from lab import guests, soak, soak_events, soak_rounds
from lab.soak_rounds import ONE, TWO

# Function, place, before or after, the how-manieth passing; a second one is for the process that recovers.
ORDERS = {
    "published, not closed, and again while it is repaired": (
        "verify", [("vring_publish", "vr->used->idx", "after", 20), ("log_repair", "log->desc[head].inflight", "after", 1)]),
    "taken, not yet acted on, and again when it is taken again": (
        "fsync", [("vring_pop", "d->inflight", "after", 9), ("vring_put", "elem->id", "before", 1)]),
    "half of a record in the vault": ("verify", [("vault_write", "payload", "after", 3)]),
    "a packet sent, not yet answered": ("stream", [("vring_put", "elem->id", "before", 40)]),
}


def plan(event, load, **more):
    return {"round": 0, "seed": 0, "event": event, "load": load, "victim": "one", "wait_us": 300000, "second_us": 50000, **more}


def start(machine):
    soak.set_up(machine)


def test_upgrade_on_purpose(machine):
    """`keel vm upgrade` under a disk load; the station is announced where the network can hear it."""
    guests.check(machine, TWO, "keel-load hear >/tmp/hear.out 2>&1 & echo $! >/tmp/hear.pid")
    before = soak_events.pids(machine)
    numbers = soak_rounds.run(machine, plan("upgrade", "verify"))
    after = soak_events.pids(machine)
    if before["one"] == after["one"] or before["two"] != after["two"]:
        raise Wrong(f"device processes were {before} and are {after}")
    mac = guests.check(machine, ONE, "cat /sys/class/net/e*/address").split()[-1]
    heard = guests.check(machine, TWO, "kill $(cat /tmp/hear.pid); while kill -0 $(cat /tmp/hear.pid) 2>/dev/null; do "
                         "usleep 50000; done; cat /tmp/hear.out")
    has(heard, f"^heard {mac}", "announcements")
    print(f"     I/O stall {numbers['io_stall_ms']} ms, {numbers['records']} records")


def test_killed_twice(machine):
    soak_rounds.run(machine, plan("kill_twice", "stream"))


def test_dies_at_chosen_stores(machine):
    """Each of these points has a reason of its own in engine/vring.h and vmm/vault.h."""
    for what, (load, orders) in ORDERS.items():
        numbers = soak_rounds.run(machine, plan("fault", load, orders=orders))
        print(f"     {what}: {'; '.join(numbers['deaths'])}")
        if not numbers["deaths"]:
            raise Wrong(f"{what}: the point was not passed")
        same(len(soak_events.pids(machine)), 2, "VMs")


def test_end(machine):
    for guest in (ONE, TWO):
        machine.check(f"keel vm kill {guest.name}", 60)
    same(guests.status(machine)["vms"], [], "VMs that hyp still has")


if __name__ == "__main__":
    run_cases(lambda: soak.make_machine(print, "test_continuity"),
              [start, test_upgrade_on_purpose, test_killed_twice, test_dies_at_chosen_stores, test_end])
