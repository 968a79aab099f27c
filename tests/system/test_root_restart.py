#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Root reboots, panics, is upgraded, hangs, fails its trial: the VM beside it ticks on and loses no record."""
import json

from harness import Wrong, boot_server, has, run_cases, same
from lab import guests, images, upgrade
from lab.guests import Guest
from lab.machine import Hardware

TINY = Guest("one", kind="tiny", cpus=2, more_args="quiet")
# Root's restart takes some seconds: enough for what without_root says to happen, VM by VM.
AWAY = {what: Guest(f"to-{what}", number, "initramfs", memory="128M", more_args="quiet",
                    more=f"without_root = {what}\nwithout_root_after = 2")
        for number, what in ((2, "pause"), (3, "reset"), (4, "stop"))}
RESTART_S = 240


def start(machine):
    guests.make_bridge(machine)
    guests.wait_daemon(machine)
    guests.start(machine, TINY)
    guests.log_in(machine, TINY)
    guests.wait_for(machine, "keel root status --json | grep -q '\"ready\":[^a-z]*true'", 60)


def end_and_verify(machine, what):
    """The records are whole, the guest's log has nothing to say, and it never restarted."""
    seen = upgrade.end_ticking(machine, TINY)
    trouble = guests.check(machine, TINY, "dmesg | grep -ciE 'i/o error|is not a head|stall|lockup|timed out' || true")
    same(trouble.split()[-1], "0", f"lines of trouble in the guest's log after {what}")
    print(f"     {what}: {seen['ticks']} ticks, longest gap {seen['gap_ms_max']} ms; {seen['records']} records, "
          f"I/O stall {seen['io_stall_ms']} ms")
    if seen["ticks"] < 100:
        raise Wrong(f"the guest hardly ran: {seen}")


def over(machine, what, script):
    before = upgrade.root_status(machine)["start"]
    up = upgrade.guest_uptime_s(machine, TINY)
    upgrade.start_ticking(machine, TINY)
    guests.check(machine, TINY, "sleep 2", 60)
    upgrade.restart(machine, script, before + 1, RESTART_S)
    end_and_verify(machine, what)
    if upgrade.guest_uptime_s(machine, TINY) <= up:
        raise Wrong("the guest was restarted")
    return upgrade.root_status(machine)["history"][0]


def test_reboot(machine):
    """reboot in root: the next root serves the VM again, every answered record is there."""
    start(machine)
    past = over(machine, "a reboot", "reboot -f")
    has(past["reason"], "CF9h", "the reason that hyp kept")
    same(past["was_ready"], True, "root was ready before")


def test_panic(machine):
    over(machine, "a panic", "echo c >/proc/sysrq-trigger")


def test_no_heartbeat(machine):
    """keeld stands still, so hyp hears no beat: root is started again."""
    past = over(machine, "a missing heartbeat",
                "kill -STOP $(pidof keeld); sleep 60")
    has(past["reason"], "no heartbeat", "the reason that hyp kept")


def test_upgrade(machine):
    """Another kernel is staged, started, reports ready and becomes the one to fall back to."""
    old = machine.check("uname -r").strip()
    upgrade.stage(machine)
    over(machine, "an upgrade", "reboot -f")
    new = machine.check("uname -r").strip()
    if new == old:
        raise Wrong(f"root still runs {old}")
    status = upgrade.root_status(machine)
    same((status["image"], status["good_image"]), (new, new), "the image that runs, and the good one")


def test_fall_back(machine):
    """A staged root that never reports ready is given up, and the VM sees one longer stall, no error."""
    good = upgrade.root_status(machine)
    machine.check("keel root stage /srv/vmlinuz /srv/initrd.img --ready-within 5 --cmdline 'console=ttyS1 panic=-1'", 60)
    upgrade.start_ticking(machine, TINY)
    upgrade.restart(machine, "reboot -f", good["start"] + 2, RESTART_S)
    end_and_verify(machine, "a trial that failed")
    status = upgrade.root_status(machine)
    same(status["image"], good["good_image"], "the image that runs")
    same([h["reason"] for h in status["history"][:1]], ["not ready in time"], "why")


def test_without_root(machine):
    """Each VM is paused, reset or stopped while root is away, as its file says; one without that word ticks on."""
    for guest in AWAY.values():
        guests.start(machine, guest)
        guests.log_in(machine, guest)
    ids = {what: guests.list_vms(machine)[guest.name]["id"] for what, guest in AWAY.items()}
    over(machine, "a reboot with three VMs that do not wait", "reboot -f")
    log = machine.check("keel log")
    for what, said in (("pause", "paused"), ("reset", "to be reset"), ("stop", "stopped")):
        has(log, rf"vm {ids[what]}: root is away for 2000 ms: {said}, as its policy says", f"hyp's log on {what}")
    guests.wait_state(machine, AWAY["stop"].name, "off")
    states = {vm["name"]: vm for vm in guests.status(machine)["vms"]}
    same(states[AWAY["pause"].name]["resets"], 1, "starts of the VM that was paused")
    same(states[AWAY["reset"].name]["resets"], 2, "starts of the VM that was reset")
    guests.check(machine, AWAY["pause"], "true")
    for what in ("pause", "reset"):
        machine.check(f"keel vm kill {AWAY[what].name}")


def test_bad_images(machine):
    """What is no kernel is refused in one line and leaves nothing staged."""
    result = machine.run("keel root stage /etc/passwd 2>&1", 60)
    same(result.code, 1, "exit code")
    has(result.output, r"/etc/passwd: no kernel that can be started", "the error")
    result = machine.run("keel root stage /nowhere 2>&1")
    has(result.output, r"^keel: /nowhere: No such file", "the error")
    if "staged_image" in json.loads(machine.check("keel root status --json")):
        raise Wrong("something is staged")


def test_end(machine):
    machine.check("keel vm stop --timeout 120 one", 150)
    same(guests.status(machine)["vms"], [], "VMs that hyp still has")


if __name__ == "__main__":
    run_cases(lambda: boot_server(below="keel", data=True, limit_s=1500,
                                  hardware=Hardware(disks=[images.build_next(print)])),
              [test_reboot, test_panic, test_no_heartbeat, test_upgrade, test_fall_back, test_without_root,
               test_bad_images, test_end])
