#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""How long hyp and a VM take to start, what keelvm costs in memory, and a guest boot's exits.

Usage: bench/startup.py [--rounds N]    (3; each boots a server of its own)

Prints the figures and writes them to build/figures/, as `make run` does of its one round. Times are of
an emulated server: they say something beside each other on a quiet machine. Counts do not shake.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from lab import figures, guests, images, measure  # noqa: E402
from lab.guests import Guest  # noqa: E402
from lab.machine import Hardware, Machine  # noqa: E402
from lab.paths import LabError  # noqa: E402

GUEST = Guest("bench", 1, "tiny", cpus=2, memory="256M", more_args="quiet")


def one_round(number):
    """Milliseconds to root, seconds to the guest's userland, KiB of keelvm, exits by kind."""
    boot, disks = images.make_boot(data=True, tell=print)
    with Machine(f"startup-{number}", boot, "keel", Hardware(disks=disks), limit_s=600) as machine:
        machine.wait_ready()
        guests.wait_daemon(machine)
        guests.make_bridge(machine)
        guests.create(machine, GUEST)
        seconds = measure.start_to_userland_s(machine, GUEST)
        exits = measure.exits_by_kind(machine, GUEST.name)
        memory = measure.keelvm_kib(machine, GUEST.name)
        entry = measure.entry_to_root_ms(machine)
        machine.check(f"keel vm stop --timeout 120 {GUEST.name}", 150)
        machine.power_off(120)
    print(f"round {number}: {entry} ms, {seconds} s, {memory} KiB, {sum(exits.values())} exits", flush=True)
    return entry, seconds, memory, exits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = [one_round(n) for n in range(1, parser.parse_args().rounds + 1)]
    for figure in measure.write_all(*(list(values) for values in zip(*rounds))):
        print(figures.tell(figure))


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"startup: {error}")
