#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""All tiny guests (tests/guest) in one booted server, each in a VM of its own, without keelvm.

A guest's own report names the case that failed. What is proven by each stands in its first lines.
SEED=N replays the seed that a failure printed; RUBBISH_S=N lets the hostile guest rage for so long.
"""
import os
import random
import tarfile

from harness import Hardware, Wrong, boot_server, has, run_cases, same
from lab.paths import BUILD

GUESTS = os.path.join(BUILD, "guest")
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
RUBBISH_S = int(os.environ.get("RUBBISH_S", "20"))
RESET, TRIPLE_FAULT = 100, 101  # tests/guest/board.h

# name: guest, the runner's options, and its result (0: the guest says that all is well)
RUNS = {
    "hello": ("hello", "", 0),
    "cpuid_1": ("cpuid", "-c 1", 0),
    "cpuid_4": ("cpuid", "-c 4", 0),
    "msr": ("msr", "", 0),
    "timer_lapic": ("timer", "", 0),
    "ipi_2": ("ipi", "-c 2", 0),
    "ipi_4": ("ipi", "-c 4", 0),
    "init_sipi_2": ("init", "-c 2 -a rounds=300", 0),
    "init_sipi_4": ("init", "-c 4 -a rounds=50", 0),
    "halt_wake_ups_1": ("halt", "-c 1", 0),
    "halt_wake_ups_2": ("halt", "-c 2 -a rounds=4000", 0),
    "halt_wake_ups_4": ("halt", "-c 4 -a rounds=2000", 0),
    "interrupts_from_pins": ("ioapic", "", 0),
    "priorities_and_nmi": ("priority", "", 0),
    "long_mode_before_pae": ("lme", "-c 2", 0),
    "single_step": ("step", "", 0),
    "clocks": ("clock", "", 0),
    "uart": ("uart", "-q", 0),
    "paravirtual_1": ("pv", "-c 1", 0),
    "paravirtual_4": ("pv", "-c 4", 0),
    "mmio_instructions": ("mmio", "", 0),
    "string_instructions": ("string", "", 0),
    "nothing_there": ("hole", "", 0),
    "serial_flood": ("flood", "-c 2 -q", 0),
    "serial_flood_unread": ("flood", "-c 2 -q -n", 0),
    "registers_kept_4": ("steady", "-c 4", 0),
    "spinners_2": ("token", "-c 2", 0),
    "spinners_4": ("token", "-c 4 -x", 0),
    "reset_cf9": ("reset", "-a cf9=1", RESET),
    "reset_keyboard": ("reset", "-a kbd=1", RESET),
    "reset_port92": ("reset", "-a port92=1", RESET),
    "triple_fault": ("reset", "-a triple=1", TRIPLE_FAULT),
    "triple_fault_other_vcpu": ("reset", "-c 2 -a ap=1", TRIPLE_FAULT),
    "triple_fault_both_vcpus": ("reset", "-c 2 -a both=1", TRIPLE_FAULT),
    "no_stack": ("reset", "-a nostack=1", TRIPLE_FAULT),
    "no_page_tables": ("reset", "-a notables=1", TRIPLE_FAULT),
    "reset_20_times": ("reset", "-r 20 -a 'cf9=1 boots=20'", 0),
    "triple_fault_20_times": ("reset", "-c 2 -r 20 -a 'ap=1 boots=20'", 0),
}
LIMIT_S = 120


def make_hardware():
    """A server with the guests as a tar on its last disk."""
    path = os.path.join(BUILD, "guests.tar")
    with tarfile.open(path, "w") as tar:
        for name in sorted(os.listdir(GUESTS)):
            if name.endswith(".elf") or name == "keel-guest":
                tar.add(os.path.join(GUESTS, name), f"guest/{name}")
    return Hardware(disks=[path])


PUT = "[ -e /tmp/guest ] || (cd /tmp && tar x -f $(ls /dev/nvme*n1 | tail -1)); "


def command(guest, options):
    return f"{PUT} /tmp/guest/keel-guest -t {LIMIT_S} -s {SEED} {options} /tmp/guest/{guest}.elf 2>&1"


def make_case(name):
    guest, options, wanted = RUNS[name]

    def case(machine):
        result = machine.run(command(guest, options), LIMIT_S + 30)
        if result.code != wanted or "FAIL" in result.output:
            raise Wrong(f"{guest} {options} (seed {SEED}): result {result.code}, wanted {wanted}\n"
                        f"{result.output}")
    case.__name__ = name
    return case


def rubbish(machine):
    """A hostile guest with 2 vCPUs, restarted all the time; a quiet VM, root and hyp do not notice."""
    print(f"rubbish: seed {SEED}", flush=True)
    seconds = RUBBISH_S
    result = machine.run(
        f"{PUT} cd /tmp/guest; ./keel-guest -q -k 700 -t {seconds} -s {SEED} -c 2 rubbish.elf >/tmp/rubbish 2>&1 &\n"
        f"hostile=$!; /tmp/guest/keel-guest -t {seconds + LIMIT_S} -c 2 -a seconds={seconds} "
        "/tmp/guest/steady.elf 2>&1; quiet=$?; wait $hostile; echo hostile $?; cat /tmp/rubbish; exit $quiet",
        seconds + LIMIT_S + 30)
    if result.code or "FAIL" in result.output:
        raise Wrong(f"the quiet VM beside it (seed {SEED}): result {result.code}\n{result.output}")
    has(result.output, "^hostile 0$", f"the hostile guest's runner (seed {SEED})")
    boots = int(has(result.output, r"^boots: (\d+)", "the hostile guest").group(1))
    if boots < seconds // 2:
        raise Wrong(f"the hostile guest was started only {boots} times in {seconds} s")


def root_is_unharmed(machine):
    """Root's kernel has nothing to complain of, its clock is still the TSC, and no VM is left."""
    bad = machine.run("dmesg | grep -E 'BUG:|WARNING:|Call Trace|Oops|rcu:.*(stall|starved|didn.t happen)|soft lockup|Clocksource.*unstable'")
    same(bad.output, "", "complaints in root's log")
    clock = machine.check("cat /sys/devices/system/clocksource/clocksource0/current_clocksource")
    same(clock.strip(), "tsc", "root's clock source")
    has(machine.run(command("hello", "")).output, "^ok ", "one more guest")


print(f"seed {SEED}")
run_cases(lambda: boot_server(hardware=make_hardware(), limit_s=800 + RUBBISH_S),
          [make_case(name) for name in RUNS] + [rubbish, root_is_unharmed])
