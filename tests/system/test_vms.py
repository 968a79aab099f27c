#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""VMs as their user sees them: started, talked to, pinged, flooded, reset, ended; none disturbs another."""
from harness import Wrong, boot_server, has, run_cases, same, within
from lab import guests, measure
from lab.guests import Guest

ONE = Guest("one", 1, cpus=1)
TWO = Guest("two", 2, cpus=2)
FLOOD_LINES = 30000
RING_MIN = 256 * 1024
CYCLES = 8
FREE = {}
COMPLAINTS = "BUG:|WARNING:|Call Trace|Oops|soft lockup|rcu_preempt detected|Spurious|nobody cared"


def free_pool(machine):
    return guests.status(machine)["pool_free_bytes"]


def begin(machine, guest):
    guests.start(machine, guest)
    guests.log_in(machine, guest)


def check_guest(machine, guest):
    """Its CPUs, its disk, its clock, its log, its network."""
    same(guests.check(machine, guest, "nproc").split()[-1], str(guest.cpus), f"CPUs of {guest.name}")
    has(guests.check(machine, guest, "cd /srv && sha256sum -c checked.sha256"), "checked.bin: OK", "the disk")
    clock = "cat /sys/devices/system/clocksource/clocksource0/current_clocksource"
    has(guests.check(machine, guest, clock), "^(tsc|kvm-clock)$", "clock source")
    same(guests.run(machine, guest, f"dmesg | grep -E '{COMPLAINTS}'")[1], "", "complaints in its log")
    guests.check(machine, guest, f"ping -c 3 {guests.ROOT_ADDRESS}")
    machine.check(f"ping -c 3 {guest.address}")


def test_one_vcpu(machine):
    guests.wait_daemon(machine)
    FREE["at the start"] = free_pool(machine)
    guests.make_bridge(machine)
    begin(machine, ONE)
    check_guest(machine, ONE)


def test_two_vcpus_beside_it(machine):
    begin(machine, TWO)
    check_guest(machine, TWO)
    guests.check(machine, TWO, f"ping -c 3 {ONE.address}")
    guests.check(machine, ONE, f"ping -c 3 {TWO.address}")
    states = {name: vm["state"] for name, vm in guests.list_vms(machine).items()}
    same(states, {"one": "running", "two": "running"}, "keel vm list")


def test_status_and_top(machine):
    """What an operator looks at has both VMs, with exits by kind."""
    for vm in guests.status(machine)["vms"]:
        for kind in ("pio", "mmio", "halt", "cpuid"):
            if vm["exits"].get(kind, 0) == 0:
                raise Wrong(f"{vm['name']} has no exits of kind {kind}: {vm['exits']}")
    has(machine.check("keel status"), r"^two +running +\d+ +2 ", "keel status")
    has(machine.check("keel top --once", 90), r"^one +\d", "keel top")


def test_resident_memory(machine):
    for guest in (ONE, TWO):
        within(measure.keelvm_kib(machine, guest.name), 100, measure.MEMORY_MAX_KIB,
               f"KiB of keelvm beside the memory of {guest.name}")


def test_console_input(machine):
    """Lines longer than the UART's FIFO and input queue's trigger arrive whole, back to back."""
    for length in (15, 17, 64, 400):
        word = "".join(chr(ord("a") + i % 26) for i in range(length))
        has(guests.check(machine, ONE, f"echo {word} | wc -c"), rf"\b{length + 1}\b", "bytes that arrived")


def test_console_flood(machine):
    """One VM floods its serial port: the ring keeps the newest, in order; the other and root go on."""
    line = f"(seq 1000001 {1000000 + FLOOD_LINES}; echo flood-\"\"over) >/dev/ttyS0 2>&1 &"
    guests.check(machine, TWO, line + " true")
    guests.check(machine, ONE, "cd /srv && sha256sum -c checked.sha256")
    machine.check(f"ping -c 3 {ONE.address}")
    guests.console(machine, TWO.name, ("expect", "flood-over"), timeout_s=300, from_start=True)
    text = guests.console_text(machine, TWO.name)
    within(len(text), RING_MIN * 85 // 100, 1 << 30, "bytes kept of the console")
    # The prompt of the shell that started it lies somewhere in the beginning.
    newest = text[:text.rindex("flood-over")][-150000:].split("\n")[1:-1]
    last = 1000000 + FLOOD_LINES
    same(newest, [str(n) for n in range(last - len(newest) + 1, last + 1)], "the flooded console")
    guests.check(machine, TWO, "true")


def test_reboot(machine):
    """The guest reboots by itself: the same VM, its memory anew, one line in its log."""
    before = guests.list_vms(machine)["two"]
    guests.check(machine, TWO, "echo before-reboot >/run/mark")
    seen = guests.console_text(machine, "two").count("guest-userland")
    guests.console(machine, "two", ("send", "reboot"))
    guests.wait_for(machine, f"[ $(keel vm console two --dump | grep -c guest-userland) -gt {seen} ]", 180)
    guests.console(machine, "two", ("send", ""), ("expect", guests.PROMPT["tiny"]))
    if guests.run(machine, TWO, "cat /run/mark")[0] == 0:
        raise Wrong("a file in /run outlived the reboot")
    after = guests.list_vms(machine)["two"]
    same((after["id"], after["state"]), (before["id"], "running"), "the VM after it")
    guests.check(machine, TWO, f"ping -c 3 {ONE.address}")


def test_power_off_by_guest(machine):
    """The VM is gone, its memory is back in the pool, the other one goes on."""
    free = free_pool(machine)
    guests.console(machine, "two", ("send", "poweroff"))
    guests.wait_state(machine, "two", "off", 120)
    within(free_pool(machine), free + (256 << 20), free + (264 << 20), "free bytes of the pool")
    guests.check(machine, ONE, "true")


def test_stop_by_power_button(machine):
    machine.check("keel vm stop --timeout 120 one", 150)
    same(guests.list_vms(machine)["one"]["state"], "off", "its state")
    same(guests.status(machine)["vms"], [], "VMs of hyp")
    same(free_pool(machine), FREE["at the start"], "free bytes of the pool")


def test_reset_can_end_it(machine):
    """on_reboot = destroy: a reboot is an end."""
    guest = Guest("once", 1, more="on_reboot = destroy")
    begin(machine, guest)
    guests.console(machine, "once", ("send", "reboot -f"))
    guests.wait_state(machine, "once", "off", 120)


def test_start_and_kill(machine):
    """A VM killed at any point of its boot leaves nothing; the pool is as full as before."""
    free = free_pool(machine)
    for cycle in range(CYCLES):
        guests.start(machine, ONE if cycle % 2 else TWO)
        name = "one" if cycle % 2 else "two"
        machine.check(f"usleep {cycle * 300000}; keel vm kill {name}", 60)
        same(guests.list_vms(machine)[name]["state"], "off", f"{name} after cycle {cycle}")
    same(free_pool(machine), free, "free bytes of the pool")
    same(machine.check("ls /sys/class/net | grep -c '^keel' || true").strip(), "0", "taps left")
    same(machine.check("pidof keelvm || true").strip(), "", "device processes left")


def test_without_disk_and_net(machine):
    """A guest that only has a kernel and an initramfs runs a script and ends."""
    machine.put("/tmp/bare.conf", "name = bare\nmemory = 128M\nkernel = /srv/vmlinuz\n"
                "initrd = /srv/initrd.img\nrng = no\n"
                'cmdline = "console=ttyS0 keel.run=' + "Y2F0IC9wcm9jL3VwdGltZTsgZXhpdCAzCg==" + '"\n')
    machine.check("keel vm create /tmp/bare.conf && keel vm start bare")
    output = guests.console(machine, "bare", ("expect", "guest-exit [0-9]+"), from_start=True)
    has(output, "guest-exit 3", "the script's exit code")
    guests.wait_state(machine, "bare", "off", 60)


def test_root_complains_of_nothing(machine):
    same(machine.run(f"dmesg | grep -E '{COMPLAINTS}'").output, "", "complaints in root's log")
    same(guests.status(machine)["stray_interrupts"], 0, "stray interrupts")


run_cases(lambda: boot_server(below="keel", data=True, limit_s=1500), [
    test_one_vcpu, test_two_vcpus_beside_it, test_status_and_top, test_resident_memory,
    test_console_input, test_console_flood, test_reboot, test_power_off_by_guest,
    test_stop_by_power_button, test_reset_can_end_it, test_start_and_kill, test_without_disk_and_net,
    test_root_complains_of_nothing])
