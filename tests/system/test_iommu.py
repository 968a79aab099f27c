#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Root with an IOMMU that translates its devices' DMA: hyp's events reach it, and it can be restarted."""
from harness import boot_server, has, run_cases
from lab import guests, upgrade
from lab.guests import Guest
from lab.machine import Hardware

TINY = Guest("one", kind="tiny", more_args="quiet")
# The emulator's timer does not always pass Linux' check once an IOMMU is there.
ROOT_ARGS = "intel_iommu=on no_timer_check"
UNITS = ["-device", "intel-iommu,intremap=on,eim=on"]


def test_events_reach_root(machine):
    has(machine.check("dmesg"), "DMAR: Intel.R. Virtualization Technology for Directed I/O", "DMA is translated")
    has(machine.check("cat /proc/cmdline"), " intremap=off$", "what hyp adds to root's command line")
    guests.make_bridge(machine)
    guests.wait_daemon(machine)
    guests.start(machine, TINY)
    guests.log_in(machine, TINY)


def test_restart(machine):
    """The unit was on when the old root ended; the new one takes it over, and the VM's disk goes on."""
    upgrade.start_ticking(machine, TINY)
    upgrade.restart(machine, "reboot -f", 2)
    upgrade.end_ticking(machine, TINY)
    machine.check("keel vm stop --timeout 120 one", 150)


run_cases(lambda: boot_server(below="keel", data=True, limit_s=600, root_args=ROOT_ARGS,
                              hardware=Hardware(more=UNITS)),
          [test_events_reach_root, test_restart])
