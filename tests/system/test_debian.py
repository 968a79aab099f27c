#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""keelOS as users have it: Debian on the NVMe disk as root, keeld by systemd, a Debian guest."""
from harness import boot_server, has, run_cases, same
from lab import guests
from lab.guests import Guest

DEBIAN = Guest("deb", 1, "debian", cpus=2, memory="384M", more_args="quiet")


def test_root_is_set_up(machine):
    """The module by its index, the daemon by its unit, the data disk by its label."""
    guests.wait_for(machine, "mountpoint -q /srv", 120)
    guests.wait_daemon(machine)
    has(machine.check("systemctl is-active keeld"), "^active$", "keeld's unit")
    has(machine.check("modinfo -F filename keel"), "updates/keel.ko$", "the module")


def test_debian_guest(machine):
    guests.make_bridge(machine)
    guests.start(machine, DEBIAN)
    guests.log_in(machine, DEBIAN, 400)
    has(guests.check(machine, DEBIAN, "cd /srv && sha256sum -c checked.sha256"), "checked.bin: OK", "the disk")
    same(guests.check(machine, DEBIAN, "nproc").split()[-1], "2", "its CPUs")
    machine.check(f"ping -c 3 {DEBIAN.address}")


def test_daemon_restarts(machine):
    """The daemon goes and comes; guest and device process do not notice."""
    before = guests.list_vms(machine)["deb"]
    machine.check("systemctl restart keeld", 90)
    guests.wait_daemon(machine)
    guests.wait_state(machine, "deb", "running", 60)
    after = guests.list_vms(machine)["deb"]
    same([after[k] for k in ("id", "pid")], [before[k] for k in ("id", "pid")], "VM and device process")
    guests.check(machine, DEBIAN, "true")


def test_power_off(machine):
    """The machine is switched off with its VM running: the guest is asked first, by its power button, and then power
    goes. hyp only destroys a VM whose guest has shut down: one that does not in time is left as it is."""
    number = guests.list_vms(machine)["deb"]["id"]
    machine.power_off(240)
    has(machine.hyp.tail(), rf'vm {number}: "deb" destroyed', "hyp's log before the power went")


run_cases(lambda: boot_server(below="keel", root="debian", data=True, limit_s=900),
          [test_root_is_set_up, test_debian_guest, test_daemon_restarts, test_power_off])
