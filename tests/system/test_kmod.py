# SPDX-License-Identifier: BSD-2-Clause
"""keel.ko on hyp: found by its PCI function, then all that programs in root do with it."""
from harness import boot_server, has, run_cases, same
import kmod_programs

VENDOR, DEVICE = "0x4b45", "0x0001"


def test_is_found_by_pci(machine):
    """hyp's function is on bus 0 with a vector of its own, and the module bound to it."""
    kmod_programs.put_programs(machine)
    where = machine.check("for d in /sys/bus/pci/devices/*; do "
                          f"grep -q {VENDOR} $d/vendor && echo $d $(cat $d/device); done; true").split()
    same(where[1:], [DEVICE], "hyp's function on the PCI bus")
    machine.check("test -c /dev/keel || insmod /lib/modules/*/extra/keel.ko")
    has(machine.check("dmesg"), r"keel: hyp \S+, 2 CPUs, pool \d+ MiB, 0 VMs", "its line in root's log")
    has(machine.check(f"ls -l {where[0]}/driver"), r"/keel$", "its driver")
    has(machine.check("cat /proc/interrupts"), r"MSI.* keel$", "its interrupt")


def test_alias_loads_it(machine):
    """What udev matches a device by."""
    has(machine.check("cat /sys/bus/pci/devices/*/modalias"), r"^pci:v00004B45d00000001sv", "the device")
    has(machine.check("strings /lib/modules/*/extra/keel.ko"), r"^alias=pci:v00004B45d00000001sv",
        "the module")


run_cases(lambda: boot_server(below="keel", data=True, limit_s=600,
                              hardware=kmod_programs.make_hardware()),
          [test_is_found_by_pci, test_alias_loads_it, *kmod_programs.ALL])
