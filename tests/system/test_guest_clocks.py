#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A stock Linux without any paravirtual clock keeps its TSC, whatever befalls its host.

nopv: it does not look for a hypervisor. clearcpuid=tsc_adjust: it has its watchdog look after the TSC, which it
leaves out on hardware as good as this. Both VMs together have three times as many vCPUs as there are CPUs.

tsc_early_khz: it cannot measure the TSC's rate in the emulator. It takes a reading of acpi_pm or hpet only if that took
less than 50,000 cycles (81,000 later on), and one is 107,000 here on keelOS and 232,000 on KVM. So it goes on trying, and
its TSC stays "tsc-early", which the watchdog looks after just so. tests/unit/hyp/dev/test_clocks.c measures natively.

quiet: Linux prints with interrupts off. A line is some hundred accesses to its serial port, which take several ticks here,
and until acpi_pm or hpet is there its own ticks look after the TSC: without it every other boot lost 90 to 150 ms of 600.
"""
import re

from harness import Wrong, boot_server, has, run_cases, same
from lab import guests, upgrade
from lab.guests import Guest

LINE = "quiet nopv clearcpuid=tsc_adjust tsc_early_khz={khz}"
PM = Guest("pm", 1, "initramfs", cpus=2, memory="192M", more_args=f"{LINE} hpet=disable",
           more="without_root = pause\nwithout_root_after = 2")
HPET = Guest("hpet", 2, "initramfs", cpus=4, memory="192M", more_args=LINE)
BOTH = (PM, HPET)
BOOTS_MAX = 3
SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
# A delay that the watchdog itself sees and allows for is no complaint.
UNSTABLE = "marking clocksource|clocksource.*unstable|TSC unstable|Clock Event Device stuck|not functional|lost.*interrupt"


def check_clock(machine, guest, when):
    text = guests.check(machine, guest, f"cat {SOURCE}; dmesg | grep -iE '{UNSTABLE}' || true", 180)
    if not re.search(r"^tsc(-early)?$", text, re.M) or re.search(UNSTABLE, text, re.I):
        raise Wrong(f"{guest.name} after {when}:\n{text}")


def check_both(machine, when):
    for guest in BOTH:
        check_clock(machine, guest, when)


def start(machine, guest):
    """Before acpi_pm and hpet are there Linux has its own ticks look after the TSC, and a guest that gets no CPU at its
    boot loses some, as on a PC whose interrupts are off for too long: that judges no clock of ours, so it boots again."""
    for _ in range(BOOTS_MAX):
        guests.start(machine, guest)
        guests.log_in(machine, guest)
        guests.check(machine, guest, "sleep 2", 60)
        if "refined-jiffies" not in guests.check(machine, guest, "dmesg | grep wd_nsec || true"):
            return
        print(f"     {guest.name} lost ticks of its own: booted again")
        machine.check(f"keel vm kill {guest.name}")
    raise Wrong(f"{guest.name} lost ticks at {BOOTS_MAX} boots: the machine is too busy for this test, or ticks are lost")


def test_boot(machine):
    """With acpi_pm as watchdog, and with hpet."""
    guests.wait_daemon(machine)
    guests.make_bridge(machine)
    rate = guests.status(machine)["tsc_hz"]
    for guest in BOTH:
        guest.more_args = guest.more_args.format(khz=rate // 1000)
        start(machine, guest)
        others = guests.check(machine, guest, "cat /sys/devices/system/clocksource/clocksource0/available_clocksource")
        same("hpet" in others.split(), guest is HPET, f"{guest.name} has an hpet")
        if "kvm-clock" in others:
            raise Wrong(f"{guest.name} has a paravirtual clock: {others}")
    check_both(machine, "its boot")


def test_load(machine):
    """All vCPUs busy, for longer than a few of the watchdog's half seconds."""
    for guest in BOTH:
        busy = " ".join(["(while :; do :; done) &"] * guest.cpus)
        guests.check(machine, guest, f"{busy} echo begun")
    for guest in BOTH:
        guests.check(machine, guest, "sleep 15", 120)
    check_both(machine, "load")


def test_device_process_killed(machine):
    for _ in range(3):
        machine.check("kill -9 $(pidof keelvm)")
        guests.wait_for(machine, "[ $(keel vm list | grep -c ' running ') = 2 ]")
        guests.check(machine, PM, "sleep 2", 120)
    check_both(machine, "kills")


def test_root_restart(machine):
    """While root is away one goes on and one is paused, for some seconds."""
    start = upgrade.root_status(machine)["start"]
    guests.wait_for(machine, "keel root status --json | grep -q '\"ready\":[^a-z]*true'", 60)
    upgrade.restart(machine, "reboot -f", start + 1, 240)
    has(machine.check("keel log"), r"root is away for 2000 ms: paused", "hyp's log")
    for guest in BOTH:
        guests.check(machine, guest, "sleep 5", 180)
    check_both(machine, "root's restart")


def test_end(machine):
    for guest in BOTH:
        machine.check(f"keel vm kill {guest.name}")


run_cases(lambda: boot_server(below="keel", data=True, limit_s=1500),
          [test_boot, test_load, test_device_process_killed, test_root_restart, test_end])
