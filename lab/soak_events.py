# SPDX-License-Identifier: BSD-2-Clause
"""What a soak does to root and to device processes, and how it waits until the VMs are served again."""
import time

from lab import guests, upgrade
from lab.paths import LabError

SERVED_S = 120
RESTART_S = 300
MOUNT = "grep -q ' /soak ' /proc/mounts || { mkdir -p /soak && mount -t ext4 -o ro $(findfs LABEL=keel-soak) /soak; }; "
# Ends the next device process that comes up beside those known, a while after it was born.
KILL_NEXT = ("known=' %s '; n=0; while [ $n -lt 3000 ]; do n=$((n + 1)); for p in $(pidof keelvm); do "
             "case \"$known\" in *\" $p \"*) ;; *) usleep %d; kill -9 $p && echo killed; exit 0;; esac; done; "
             "usleep 2000; done; exit 1")
MODULE = {True: "trouble-backports.ko", False: "trouble-stable.ko"}  # by whether root is the newer kernel


def pids(machine):
    """Name to process id of the device processes that serve; a VM between two has 0."""
    return {name: vm.get("pid", 0) if vm["state"] == "running" else 0
            for name, vm in guests.list_vms(machine).items()}


def wait_served(machine, old=None, timeout_s=SERVED_S):
    """Until each VM is served, those of `old` by another process."""
    old = old or {}
    deadline = time.monotonic() + timeout_s
    while True:
        now = pids(machine)
        if now and all(pid and pid != old.get(name) for name, pid in now.items()):
            return
        if time.monotonic() > deadline:
            raise LabError(f"VMs are not served again within {timeout_s} s: {guests.list_vms(machine)}\n"
                           + machine.run("tail -n 20 /var/log/keeld.log /var/log/keel/*.log").output)


def none(_machine, _plan):
    """Nothing happens: what the same guests do on a quiet server."""
    return {}


def kill(machine, plan):
    before = pids(machine)
    old = {plan["victim"]: before[plan["victim"]]}
    machine.check(f"kill -9 {old[plan['victim']]}")
    wait_served(machine, old)
    return {}


def kill_twice(machine, plan):
    """A second kill, at a time drawn by lot from the start of the process that recovers."""
    before = pids(machine)
    old = {plan["victim"]: before[plan["victim"]]}
    known = " ".join(str(p) for p in before.values())
    machine.check(f"kill -9 {old[plan['victim']]}; {KILL_NEXT % (known, plan['second_us'])}", SERVED_S)
    wait_served(machine, old)
    return {}


def replace(machine, plan):
    before = pids(machine)
    machine.check(f"keel vm upgrade {plan['victim']}")
    wait_served(machine, {plan["victim"]: before[plan["victim"]]})
    return {}


def fault(machine, plan):
    """The device process kills itself at a chosen store, and perhaps its successor at another."""
    victim = plan["victim"]
    deaths = f"grep -c '^.*fault: killed' /var/log/keel/{victim}.log || true"
    lines = "".join("\\t".join(str(w) for w in order) + "\\n" for order in plan["orders"])
    machine.check(MOUNT + "cmp -s /soak/keelvm /usr/bin/keelvm || { cp /soak/keelvm /usr/bin/keelvm.new && "
                  "mv /usr/bin/keelvm.new /usr/bin/keelvm; }")
    before = int(machine.check(deaths))
    old = pids(machine)
    machine.check(f"printf '{lines}' >/run/keel/faults; kill -9 {old[victim]}")
    # A point that this load does not pass often enough ends no one: then it is only a kill.
    machine.run(f"n=0; until [ $({deaths}) -ge {before + len(plan['orders'])} ] || [ $n -ge 60 ]; do "
                "n=$((n + 1)); usleep 100000; done", SERVED_S)
    wait_served(machine, {victim: old[victim]})
    hit = machine.check(f"grep 'fault: killed' /var/log/keel/{victim}.log | tail -n +{before + 1} || true")
    old = pids(machine)
    machine.check(f"rm -f /run/keel/faults; keel vm upgrade {victim}")
    wait_served(machine, {victim: old[victim]})
    return {"deaths": [line.split("fault: ")[1] for line in hit.splitlines()]}


# ---- root ----


def is_newer(machine):
    return not machine.check("uname -r").startswith("6.1.")


def mark(machine):
    return len(machine.hyp.lines)


def root_down_ms(machine, since):
    """From root's last moment to the report that it is ready, by hyp's clock; over several restarts the sum."""
    total = stopped = 0
    for _, line in machine.hyp.lines[since:]:
        words = line.split("] ")[0].split()
        if "] root: stopped on" in line and not stopped:
            stopped = float(words[-1])
        elif "] root: ready" in line and stopped:
            total += (float(words[-1]) - stopped) * 1000
            stopped = 0
    return round(total)


def come_back(machine, start):
    """Root number `start` answers."""
    machine.hyp.expect(rf"root: start {start} ", RESTART_S)
    machine.wait_ready(RESTART_S)


def away_exits(machine):
    """How many exits of VMs had to wait for a root that was away, so far."""
    return sum(vm["exits_while_root_was_away"] for vm in guests.status(machine)["vms"])


def wait_root_ready(machine):
    guests.wait_daemon(machine)
    guests.make_bridge(machine)
    wait_served(machine)
    guests.wait_for(machine, "keel root status --json | grep -q '\"ready\":[^a-z]*true'", RESTART_S)


def restart(machine, script, meanwhile=None):
    """Ends root by a script and waits until the next one serves; meanwhile(): once that one answers."""
    start, since, exits = upgrade.root_status(machine)["start"], mark(machine), away_exits(machine)
    machine.fire(script)
    come_back(machine, start + 1)
    if meanwhile:
        meanwhile(start + 1)
    wait_root_ready(machine)
    return {"exits_parked": away_exits(machine) - exits, "root_down_ms": root_down_ms(machine, since)}


def reboot(machine, _plan):
    return restart(machine, "reboot -f")


def panic(machine, _plan):
    return restart(machine, "echo c >/proc/sysrq-trigger")


def hang(machine, _plan):
    """All CPUs of root spin with interrupts off."""
    machine.check(MOUNT)
    return restart(machine, f"insmod /soak/{MODULE[is_newer(machine)]} hang_ms=600000")


def upgrade_root(machine, _plan):
    """To the other of two Debian kernels."""
    to = "stable" if is_newer(machine) else "backports"
    machine.check(MOUNT + f"keel root stage /soak/vmlinuz-{to} /soak/initrd-{to}", 60)
    return {**restart(machine, "reboot -f"), "kernel": machine.check("uname -r").strip()}


def root_then_kill(machine, plan):
    """The first device process that the new root starts is killed."""
    return restart(machine, "reboot -f",
                   lambda _: machine.check(KILL_NEXT % ("", plan["second_us"]), SERVED_S))


def root_twice(machine, _plan):
    """The new root panics before it serves all."""
    def again(start):
        machine.fire("echo c >/proc/sysrq-trigger")
        come_back(machine, start + 1)
    return restart(machine, "reboot -f", again)


EVENTS = {
    "none": none, "kill": kill, "kill_twice": kill_twice, "upgrade": replace, "fault": fault,
    "root_reboot": reboot, "root_upgrade": upgrade_root, "root_panic": panic, "root_hang": hang,
    "root_reboot_kill": root_then_kill, "root_twice": root_twice,
}
