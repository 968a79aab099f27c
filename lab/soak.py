# SPDX-License-Identifier: BSD-2-Clause
"""`make soak-continuity`: root and device processes die under load, round after round; nothing may be lost.

Each round's result is a file under build/soak/SEED; a soak that was ended goes on behind the last one.
"""
import json
import os
import shutil
import time

from lab import cache, debian, guests, images, initramfs, soak_report, soak_rounds
from lab.initramfs import strip
from lab.kernel import Kernel
from lab.machine import Hardware, Machine
from lab.paths import BUILD, LabError, need

FAULTS = os.path.join(BUILD, "faults/keelvm")
ROUNDS_PER_BOOT = 40
ROUND_LIMIT_S = 400
EMULATOR_TRIES = 3
# Root's network is set up by its init, as on a server, before its daemon comes.
NETWORK = "#!/bin/sh\nip link add br0 type bridge 2>/dev/null || brctl addbr br0\nip addr add 10.77.0.1/24 dev br0\nip link set br0 up\n"


def build_disk(tell):
    """Both kernels with root's initramfs for each, the module that hangs root, and the keelvm that kills itself."""
    kernels = {label: Kernel(tell, label) for label in ("stable", "backports")}
    initrds = {label: initramfs.build_root(kernel, tell) for label, kernel in kernels.items()}
    modules = {"stable": os.path.join(BUILD, "kmodtest/fake/keel_trouble.ko"),
               "backports": os.path.join(BUILD, "kmodtest/fake-backports/keel_trouble.ko")}
    need(FAULTS, "run make")

    def build(path):
        stripped = f"{path}.keelvm"
        with open(stripped, "wb") as out:
            out.write(strip(FAULTS))
        copies = f'install -m 755 {stripped} "$tree"/keelvm; '
        for label, kernel in kernels.items():
            copies += (f'cp {kernel.image} "$tree"/vmlinuz-{label}; cp {initrds[label]} "$tree"/initrd-{label}; '
                       f'cp {modules[label]} "$tree"/trouble-{label}.ko; ')
        debian.make_ext4(path, 160, copies, "keel-soak")
        cache.remove(stripped)

    inputs = [os.path.basename(i) for i in initrds.values()] + [kernel.deb for kernel in kernels.values()]
    inputs += [("file", f) for f in (__file__, FAULTS, *modules.values())]
    return cache.get("soak", ".img", inputs, build, tell)


def make_machine(tell, name="soak"):
    boot, disks = images.make_boot(below="keel", data=True, tell=tell)
    disks.append(build_disk(tell))
    return Machine(name, boot, "keel", Hardware(disks=disks), limit_s=ROUNDS_PER_BOOT * ROUND_LIMIT_S)


def set_up(machine):
    """Both VMs, ready for loads. Needs: root answers."""
    machine.put("/srv/keel/network", NETWORK, 0o755)
    guests.wait_daemon(machine)
    guests.make_bridge(machine)
    for guest in (soak_rounds.ONE, soak_rounds.TWO):
        guests.start(machine, guest)
    for guest in (soak_rounds.ONE, soak_rounds.TWO):
        guests.log_in(machine, guest)
    guests.wait_for(machine, "keel root status --json | grep -q '\"ready\":[^a-z]*true'", 60)


class Soak:
    """The results so far, in their folder, and the server that is up, if one is."""

    def __init__(self, seed, tell):
        self.seed = seed
        self.tell = tell
        self.folder = os.path.join(BUILD, "soak", str(seed))
        self.points = soak_rounds.fault_points(need(FAULTS, "run make"))
        self.machine = None
        self.rounds_of_boot = 0
        os.makedirs(self.folder, exist_ok=True)

    def path(self, index):
        return os.path.join(self.folder, f"round-{index:05}.json")

    def results(self):
        found = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".json"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as text:
                    found.append(json.load(text))
        return found

    def boot(self):
        self.end()
        self.machine = make_machine(self.tell)
        self.machine.__enter__()
        self.rounds_of_boot = 0
        self.machine.wait_ready()
        set_up(self.machine)

    def end(self):
        if self.machine:
            self.machine.end()
        self.machine = None

    def keep_logs(self, name):
        place = os.path.join(self.folder, f"logs-{name}")
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.machine.logs, place)

    def try_round(self, plan, name):
        """One attempt; a server that a fault was found on is not used again."""
        try:
            if not self.machine or self.rounds_of_boot >= ROUNDS_PER_BOOT:
                self.boot()
        except LabError as error:
            result = {**plan, "verdict": "failed", "why": f"the server does not come up: {error}",
                      "evidence": soak_rounds.emulator_faults(self.machine, 0), "seconds": 0}
            result["verdict"] = "emulator" if result["evidence"] else "failed"
        else:
            result = soak_rounds.attempt(self.machine, plan)
        self.rounds_of_boot += 1
        if result["verdict"] != "ok":
            self.machine.dump_cpus()
            self.keep_logs(name)
            self.end()
        return result

    def round(self, index):
        """A round the emulator spoils is done again; what was given up is kept with its evidence."""
        plan = soak_rounds.draw(self.seed, index, self.points)
        given_up = []
        for number in range(EMULATOR_TRIES):
            result = self.try_round(plan, f"{index:05}-{number}")
            if result["verdict"] != "emulator":
                break
            given_up.append({"why": result["why"], "evidence": result["evidence"]})
        result["given_up"] = given_up
        with open(self.path(index) + ".new", "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)
        os.replace(self.path(index) + ".new", self.path(index))
        return result


def tell_round(result, count):
    numbers = result.get("numbers", {})
    text = ", ".join(f"{k} {v}" for k, v in numbers.items() if k in (
        "gap_ms_max", "io_stall_ms", "stream_stall_ms", "packets_lost", "records", "root_down_ms", "exits_parked"))
    deaths = "; ".join(numbers.get("deaths", []))
    print(f"{result['round'] + 1:5}/{count} {result['verdict']:8} {result['event']:16} under {result['load']:6} "
          f"{result['seconds']:6.1f} s  {text}{'  [' + deaths + ']' if deaths else ''}", flush=True)
    if result["verdict"] != "ok":
        print("      " + result["why"].replace("\n", "\n      "), flush=True)


def run(arguments, tell):
    """0: every round was right."""
    soak = Soak(arguments.seed, tell)
    begin = time.monotonic()
    wanted = arguments.only.split(",") if arguments.only else None
    try:
        for index in range(arguments.rounds):
            if os.path.exists(soak.path(index)):
                continue
            event = soak_rounds.draw(soak.seed, index, soak.points)["event"]
            if wanted and event not in wanted:
                continue
            tell_round(soak.round(index), arguments.rounds)
            if arguments.minutes and time.monotonic() - begin > arguments.minutes * 60:
                break
    finally:
        soak.end()
    return soak_report.run(soak.results(), soak.points)
