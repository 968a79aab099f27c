# SPDX-License-Identifier: BSD-2-Clause
"""One round of a soak: what is drawn by lot for it, the loads in the guests, the verdict."""
import json
import random
import re
import subprocess
import time

from lab import guests, soak_events
from lab.guests import Guest
from lab.paths import LabError

ONE = Guest("one", 1, cpus=2, memory="256M", more_args="quiet")
TWO = Guest("two", 2, cpus=1, memory="128M", more_args="quiet")
# By name: what runs in which guest; the order is that of the ends, the beginning is the reverse.
LOADS = {
    "idle": [(ONE, "idle"), (TWO, "idle")],
    "verify": [(ONE, "verify /srv/places 512"), (TWO, "idle")],
    "fsync": [(ONE, "fsync /srv/journal"), (TWO, "idle")],
    "stream": [(ONE, f"send {TWO.address}"), (TWO, "receive")],
    "storm": [(ONE, "storm"), (TWO, "idle")],
}
# Faults come three times as often: there are many points.
EVENTS = list(soak_events.EVENTS) + ["fault", "fault"]
# Moves the disk's and the card's interrupts to and fro: each move is a record in the vault.
SHAKE = ("(while [ -e /tmp/shake ]; do for m in 1 2; do for i in $(sed -n 's/^ *\\([0-9]*\\):.*virtio.*/\\1/p' "
         "/proc/interrupts); do echo $m >/proc/irq/$i/smp_affinity; done; usleep 20000; done; done) 2>/dev/null &")
ONLY_WHEN_NEW = ("log_format", "vault_format", "vault_make")
ONLY_WITHOUT_EVENT_INDEX = "vr->used->flags"  # Linux negotiates it
WITHOUT_IO = ("idle", "storm")  # nothing is stored, so no point is passed
# A CPU that came late says the guest's kernel; the tick gap says it better, with figures. The emulator's host is shared.
LATE = re.compile(r"hpet: Lost \d+ RTC interrupts|hrtimer: interrupt took|clocksource: .*read-back delay")


class Failed(Exception):
    """The round found a fault; the text says which."""


def fault_points(program):
    """What the keelvm that kills itself offers, but for what a running Linux guest never lets it pass."""
    said = subprocess.run([program, "--points"], check=True, stdout=subprocess.PIPE).stdout.decode()
    points = [tuple(line.split("\t")) for line in said.splitlines()]
    return sorted(p for p in points if p[0] not in ONLY_WHEN_NEW and p[1] != ONLY_WITHOUT_EVENT_INDEX)


def draw_orders(dice, point, points):
    """One death at that point, and in every other round a second one in its recovery."""
    if point[0] == "log_repair":
        # Published, not yet closed: only then there is something to repair.
        return [("vring_publish", "vr->used->idx", "after", dice.randint(1, 60)), (*point, 1)]
    orders = [(*point, dice.randint(1, 12 if point[0] == "vault_write" else 60))]
    if dice.random() < 0.5:
        orders.append((*dice.choice([p for p in points if p[0] != "log_repair"]), dice.randint(1, 4)))
    return orders


def draw(seed, index, points):
    """The plan of a round: the same for the same seed and number. Pairs of event and load come in turn, so do points."""
    pairs = [(event, load) for event in EVENTS for load in LOADS if event != "fault" or load not in WITHOUT_IO]
    random.Random(f"{seed} {index // len(pairs)}").shuffle(pairs)
    event, load = pairs[index % len(pairs)]
    dice = random.Random(f"{seed}/{index}")
    plan = {"round": index, "seed": seed, "event": event, "load": load,
            "victim": dice.choice(["one", "two"]) if load == "stream" else "one",
            "wait_us": dice.randint(200000, 1500000), "second_us": dice.choice([0, dice.randint(0, 300000)])}
    if event == "fault":
        faults = [i for i, pair in enumerate(pairs) if pair[0] == "fault"]
        in_turn = random.Random(seed).sample(points, len(points))
        number = index // len(pairs) * len(faults) + faults.index(index % len(pairs))
        plan["orders"] = draw_orders(dice, in_turn[number % len(points)], points)
    return plan


# ---- the loads ----


def begin(machine, guest, load, shake):
    """Starts a load; how long the guest was up, and how much its kernel had said."""
    text = guests.check(machine, guest, f"keel-load {load} >/tmp/load.out 2>&1 & echo $! >/tmp/load.pid; "
                        + (f"touch /tmp/shake; {SHAKE} " if shake else "")
                        + "echo said $(dmesg | wc -l) up $(cut -d' ' -f1 /proc/uptime)")
    match = re.search(r"said (\d+) up ([0-9.]+)", text)
    if not match:
        raise Failed(f"{guest.name}: {text}")
    return int(match.group(1)), float(match.group(2))


def end(machine, guest, before):
    """Ends a load; what it saw. Fails if the guest was reset or its kernel complains."""
    said, up = before
    text = guests.check(
        machine, guest, "rm -f /tmp/shake; kill $(cat /tmp/load.pid); n=0; while kill -0 $(cat /tmp/load.pid) 2>/dev/null && "
        "[ $n -lt 900 ]; do n=$((n + 1)); usleep 100000; done; cat /tmp/load.out; "
        f"echo up $(cut -d' ' -f1 /proc/uptime); dmesg -r | tail -n +{said + 1} | grep '^<[0-4]>' || true", 150)
    match = re.search(r"^up ([0-9.]+)\n?(.*)", text, re.M | re.S)
    if not match or float(match.group(1)) <= up:
        raise Failed(f"{guest.name} was reset:\n{text}")
    trouble = [line for line in match.group(2).splitlines() if line.strip() and not LATE.search(line)]
    if trouble:
        raise Failed(f"{guest.name}'s kernel complains:\n" + "\n".join(trouble))
    seen = re.search(r"keel-load (\{.*\})", text)
    if not seen:
        raise Failed(f"{guest.name}: the load ended by itself:\n{text}")
    seen = json.loads(seen.group(1))
    if seen["bad"] or seen["errors"]:
        raise Failed(f"{guest.name}: {text}")
    return seen


def judge(plan, seen):
    """What only both guests together tell; the round's numbers."""
    one, two = seen["one"], seen["two"]
    numbers = {"gap_ms_p50": one["gap_ms_p50"], "gap_ms_p99": one["gap_ms_p99"], "gap_ms_max": one["gap_ms_max"],
               "ticks": one["ticks"], "records": one["records"], "checked": one["checked"] + two["checked"]}
    if plan["load"] == "stream":
        if two["records"] != one["records"]:
            raise Failed(f"{one['records']} records of the stream were sent, {two['records']} came")
        numbers |= {"packets_sent": one["packets"], "packets_lost": one["packets"] - two["packets"],
                    "packets_doubled": two["doubled"], "stream_stall_ms": two["io_stall_ms"]}
    elif plan["load"] == "storm":
        numbers["longest_wake_up_ms"] = one["io_stall_ms"]
    elif plan["load"] != "idle":
        numbers["io_stall_ms"] = one["io_stall_ms"]
    if plan["load"] != "idle" and not one["records"]:
        raise Failed(f"nothing was done: {one}")
    return numbers


def run(machine, plan):
    """Numbers of a round that found no fault; else Failed or LabError."""
    loads = LOADS[plan["load"]]
    shake = any(order[0] == "vault_write" for order in plan.get("orders", []))
    before = {}
    for guest, load in reversed(loads):
        before[guest.name] = begin(machine, guest, load, shake)
    time.sleep(plan["wait_us"] / 1e6)
    facts = soak_events.EVENTS[plan["event"]](machine, plan)
    # Long enough to see that all goes on.
    time.sleep(1)
    seen = {guest.name: end(machine, guest, before[guest.name]) for guest, _ in loads}
    return {**judge(plan, seen), **facts}


def emulator_faults(machine, since):
    """What hyp or the emulator itself has said against the emulator in this round."""
    lines = [line for _, line in machine.hyp.lines[since:] if "the emulator's fault" in line]
    if not machine.is_running() and not machine.out_of_time:
        with open(f"{machine.logs}/emulator.log", encoding="utf-8", errors="replace") as log:
            lines += [line for line in log.read().splitlines() if "assert" in line.lower() or "abort" in line.lower()]
    return lines


def attempt(machine, plan):
    """Runs a round: its result, to be kept as a file."""
    start, since = time.monotonic(), len(machine.hyp.lines)
    result = {**plan, "verdict": "ok"}
    try:
        result["numbers"] = run(machine, plan)
    except (Failed, LabError) as error:
        evidence = emulator_faults(machine, since)
        result |= {"verdict": "emulator" if evidence else "failed", "why": str(error), "evidence": evidence,
                   "hyp": [line for _, line in machine.hyp.lines[since:]][-60:]}
    result["seconds"] = round(time.monotonic() - start, 1)
    return result
