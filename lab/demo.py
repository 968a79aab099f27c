# SPDX-License-Identifier: BSD-2-Clause
"""What `make run` shows: keelOS boots on an emulated server, runs two VMs, and ends; then figures."""
import subprocess
import time

from lab import figures, guests, images, measure, upgrade
from lab.evidence import emulator_faults
from lab.guests import Guest
from lab.machine import Hardware, Machine
from lab.paths import TOP, LabError

# One as users have it, one that is quick.
DEBIAN = Guest("deb", 1, "debian", cpus=1, memory="384M", more_args="quiet")
TINY = Guest("tiny", 2, "tiny", cpus=2, memory="256M", more_args="quiet")
LIMIT_S = 600


class Stages:
    """Prints each stage with the seconds since the start and what it took itself."""

    def __init__(self, start):
        self.start = start
        self.last = time.monotonic()

    def say(self, text):
        for line in text.splitlines():
            print(f"{'':12} {line}", flush=True)

    def done(self, text):
        now = time.monotonic()
        print(f"[{now - self.start:6.1f} s]   {text} ({now - self.last:.1f} s)", flush=True)
        self.last = now


def show_boot(machine, stages):
    machine.hyp.expect(r"keelOS, started by", 60)
    stages.done("hyp's first line")
    machine.hyp.expect(r"root: kernel at", 60)
    stages.done("hyp has taken its memory, started all CPUs and loaded root")
    machine.console.expect(r"Linux version (\S+)", 120)
    stages.done("root's kernel says its first word")
    machine.wait_ready()
    guests.wait_daemon(machine)
    stages.done("root's userland answers, keeld runs")
    stages.say(machine.check("uname -srv"))
    guests.make_bridge(machine)


def show_start(machine, stages):
    """Both VMs, one after the other, so that each start is measured alone. Seconds and exits."""
    for guest in (TINY, DEBIAN):
        guests.create(machine, guest)
    seconds = measure.start_to_userland_s(machine, TINY)
    exits = measure.exits_by_kind(machine, TINY.name)
    stages.done(f"VM {TINY.name}: {TINY.cpus} vCPUs, {TINY.disk}: userland")
    measure.start_to_userland_s(machine, DEBIAN)
    stages.done(f"VM {DEBIAN.name}: Debian, {DEBIAN.cpus} vCPU, {DEBIAN.disk}: login on its console")
    guests.log_in(machine, DEBIAN)
    stages.done(f"logged in on {DEBIAN.name}'s console")
    stages.say(machine.check("keel vm list"))
    return seconds, exits


def show_network(machine, stages):
    guests.check(machine, DEBIAN, f"ping -c 3 {TINY.address}")
    guests.log_in(machine, TINY)
    guests.check(machine, TINY, f"ping -c 3 {DEBIAN.address}")
    for guest in (DEBIAN, TINY):
        guests.check(machine, guest, f"ping -c 2 {guests.ROOT_ADDRESS}")
        machine.check(f"ping -c 2 {guest.address}")
    stages.done("the VMs ping each other and root, and root them")


def show_disk(machine, stages):
    text = guests.check(machine, DEBIAN, "cd /srv && ls -s checked.bin && sha256sum -c checked.sha256")
    if "checked.bin: OK" not in text:
        raise LabError(f"the checksummed file came out wrong: {text}")
    stages.done(f"{DEBIAN.name} read its checksummed file: {text.split()[0]} KiB, as they were written")


def show_upgrade(machine, stages):
    """Root's kernel is replaced under both VMs; one of them ticks and writes all the while."""
    upgrade.start_ticking(machine, TINY)
    guests.check(machine, DEBIAN, "sleep 10", 60)
    quiet = upgrade.end_ticking(machine, TINY)
    stages.done(f"{TINY.name} ticked every 10 ms and wrote {quiet['records']} records: longest gap "
                f"{quiet['gap_ms_max']} ms, longest write {quiet['io_stall_ms']} ms")
    upgrade.start_ticking(machine, TINY)
    stages.say(upgrade.stage(machine))
    before = machine.check("uname -r; cut -d' ' -f1 /proc/uptime").split()
    upgrade.restart(machine, "reboot -f", upgrade.root_status(machine)["start"] + 1)
    down = upgrade.stall_ms(machine)
    stages.done(f"root restarted without firmware, reported ready after {down / 1000} s, and serves both VMs again")
    guests.check(machine, DEBIAN, f"ping -c 2 {TINY.address} && sha256sum -c /srv/checked.sha256 --status")
    after = machine.check("uname -r; cut -d' ' -f1 /proc/uptime").split()
    seen = upgrade.end_ticking(machine, TINY)
    stages.say(machine.check("keel root status"))
    stages.done(f"root was {before[0]} (up {before[1]} s), is {after[0]} (up {after[1]} s); "
                f"{TINY.name} is up {upgrade.guest_uptime_s(machine, TINY)} s")
    stages.say(f"longest gap between ticks {seen['gap_ms_max']} ms, I/O stall {seen['io_stall_ms']} ms, "
               f"{seen['checked']} of {seen['records']} records read back, {seen['bad']} bad")
    return upgrade.write_figures(quiet, seen, down)


def show_end(machine, stages):
    for guest in (DEBIAN, TINY):
        machine.check(f"keel vm stop --timeout 120 {guest.name}", 150)
        stages.done(f"{guest.name}: power button pressed, the guest has shut down")
    if guests.status(machine)["vms"]:
        raise LabError("hyp still has VMs")
    machine.power_off(120)
    stages.done("root has shut down, the server is off")


def size_figures():
    """hyp's size, by the checker's own count."""
    subprocess.run(["/usr/bin/python3", "tests/checks/size.py", "--write"], cwd=TOP, check=False)


def run(start):
    """Once more where hyp's log holds the evidence that the emulator failed."""
    since = time.time()
    try:
        return run_once(start)
    except LabError as error:
        evidence = emulator_faults(since)
        if not evidence:
            raise
        print(f"\n{error}\nagain, for the emulator failed:\n  " + "\n  ".join(evidence[:3]) + "\n", flush=True)
    return run_once(time.monotonic())


def run_once(start):
    stages = Stages(start)
    boot, disks = images.make_boot(below="keel", root="initramfs", data=True, tell=stages.say)
    disks.append(images.build_next(stages.say))
    stages.done("images are there")
    begin = time.monotonic()
    with Machine("run", boot, "keel", Hardware(disks=disks), limit_s=LIMIT_S) as machine:
        show_boot(machine, stages)
        seconds, exits = show_start(machine, stages)
        show_network(machine, stages)
        show_disk(machine, stages)
        upgraded = show_upgrade(machine, stages)
        memory = max(measure.keelvm_kib(machine, g.name) for g in (DEBIAN, TINY))
        stages.say(machine.check("keel status"))
        entry = measure.entry_to_root_ms(machine)
        show_end(machine, stages)
    total = round(time.monotonic() - begin, 1)
    print("\nfigures (build/figures/):")
    for figure in measure.write_all([entry], [seconds], [memory], [exits]) + upgraded:
        print("  " + figures.tell(figure))
    print("  " + figures.tell(figures.write("run_seconds", "s", "lower", [total])), flush=True)
    size_figures()
    print(f"logs: {machine.logs}")
    return 0
