#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""VMs as their user sees them: started, talked to, pinged, flooded, reset, ended; none disturbs another."""
import json

from harness import Wrong, boot_server, has, run_cases, same, within
from lab import guests, measure
from lab.guests import Guest

ONE = Guest("one", 1, cpus=1)
# Its memory is pinned for its disk, and all of it comes back to the pool all the same.
TWO = Guest("two", 2, cpus=2, disk_more="fixed_buffers = yes; iopoll = yes; iops = 100000")
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


def polled(machine):
    show = json.loads(machine.check("keel vm show --json two"))
    return next(d for d in show["stats"]["devices"] if d["name"] == "disk0")["polled"]


def test_ways_of_asking(machine):
    """Memory that hyp owns can be registered with root's kernel, and root's NVMe polled for small requests: no line
    denies it. Large ones, which the kernel splits, and such in pieces go by interrupts and end too."""
    log = machine.check("keel vm log two")
    has(log, "disk /srv/.*: by io_uring .* by the device's poll queues", "its disk's line")
    if "cannot be registered" in log or "polling is refused" in log:
        raise Wrong(log)
    before = polled(machine)
    guests.check(machine, TWO, "dd if=/dev/vda of=/dev/null bs=4k count=100 iflag=direct 2>/dev/null && "
                 "dd if=/dev/vda of=/dev/null bs=4M count=8 iflag=direct 2>/dev/null")
    now = polled(machine)
    if not 100 <= now - before < 200:
        raise Wrong(f"{now - before} answers were looked for, not those of 100 small reads")


def test_status_and_top(machine):
    """What an operator looks at has both VMs, with exits by kind."""
    for vm in guests.status(machine)["vms"]:
        for kind in ("pio", "mmio", "halt", "cpuid"):
            if vm["exits"].get(kind, 0) == 0:
                raise Wrong(f"{vm['name']} has no exits of kind {kind}: {vm['exits']}")
    has(machine.check("keel status"), r"^two +running +\d+ +2 ", "keel status")
    has(machine.check("keel top --once", 90), r"^one +\d", "keel top")


def test_disk_grows(machine):
    """An image that is enlarged in root: the guest sees it when asked to look, and reads and writes there."""
    size = int(machine.check(f"stat -c %s {ONE.disk}"))
    same(guests.check(machine, ONE, "cat /sys/block/vda/size").split()[-1], str(size // 512), "sectors before")
    machine.check(f"truncate -s {size + (32 << 20)} {ONE.disk}")
    has(machine.check("keel vm resize one disk0"), "^disk0 has now ", "keel vm resize")
    guests.check(machine, ONE, f"[ $(cat /sys/block/vda/size) -eq {(size + (32 << 20)) // 512} ]")
    guests.check(machine, ONE, "dd if=/dev/urandom of=/tmp/new bs=64k count=4 2>/dev/null && "
                 f"dd if=/tmp/new of=/dev/vda bs=64k seek={size // 65536} conv=fsync 2>/dev/null && "
                 "echo 3 >/proc/sys/vm/drop_caches && "
                 f"dd if=/dev/vda bs=64k skip={size // 65536} count=4 2>/dev/null | cmp - /tmp/new")
    has(machine.check("keel vm resize one disk0"), "^disk0 still has ", "a second look")
    has(machine.run("keel vm resize one disk7 2>&1").output, "no such disk", "a disk that is not there")
    has(machine.run("keel vm resize nobody disk0 2>&1").output, "nobody", "a VM that is not there")


def test_disk_figures(machine):
    """What a disk does, and what a request costs, is there to be seen."""
    guests.check(machine, ONE, "for i in $(seq 40); do dd if=/dev/vda of=/dev/null bs=4k count=256 iflag=direct "
                 "2>/dev/null; done & true")
    top = json.loads(machine.check("keel top --json --delay 2", 90))
    vm = next(v for v in top["vms"] if v["name"] == "one")
    disk = vm["disks"][0]
    for key in ("reads_per_s", "latency_us", "kicks_per_io", "interrupts_per_io"):
        if not disk[key] > 0:
            raise Wrong(f"{key} is {disk[key]} while the guest reads: {disk}")
    for key in ("exits_per_io", "interrupts_per_io", "doorbells_per_io"):
        if not vm[key] > 0:
            raise Wrong(f"{key} is {vm[key]} while the guest reads: {vm}")
    same(disk["backend"], "io_uring", "how the disk is asked")
    has(machine.check("keel top --once --disks", 90), r"^one +disk0 ", "keel top --disks")
    show = json.loads(machine.check("keel vm show --json one"))
    disk = next(d for d in show["stats"]["devices"] if d["name"] == "disk0")
    within(disk["kicks_per_request"], 0.001, 1.5, "kicks a request")
    within(disk["interrupts_per_request"], 0.001, 1.5, "interrupts a request")
    if not show["counters"]["exits"] > show["counters"]["root_exits"] > 0:
        raise Wrong(f"hyp's counters: {show['counters']}")


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


run_cases(lambda: boot_server(below="keel", data=True, limit_s=1500, root_args="nvme.poll_queues=1"), [
    test_one_vcpu, test_two_vcpus_beside_it, test_ways_of_asking, test_status_and_top, test_disk_grows,
    test_disk_figures, test_resident_memory, test_console_input, test_console_flood, test_reboot, test_power_off_by_guest,
    test_stop_by_power_button, test_reset_can_end_it, test_start_and_kill, test_without_disk_and_net,
    test_root_complains_of_nothing])
