#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a user does wrong gets one line that says where and what to do, and leaves nothing half-made."""
from harness import boot_server, has, run_cases, same
from lab import guests
from lab.guests import Guest

GOOD = Guest("good", 1)
# Whatever a refused start could leave behind.
TRACES = ("keel vm list; ls -A /etc/keel/vm /run/keel/vm /var/lib/keel/vm; ls /sys/class/net; "
          "pidof keelvm; true")


def look(machine):
    status = guests.status(machine)
    vms = [(vm["name"], vm["state"]) for vm in status["vms"]]
    text = machine.check(TRACES)
    # Uptimes go on, and the table's columns with them.
    rows = [line.split()[:5] for line in text.splitlines()]
    return vms, status["pool_free_bytes"], rows


def refused(machine, command, pattern):
    """The command fails with one line that has the pattern, and all is as it was before."""
    before = look(machine)
    result = machine.run(command, 120)
    same(result.code, 1, f"exit code of {command}: {result.output!r}")
    lines = result.output.strip().splitlines()
    same(len(lines), 1, f"lines of {command}: {lines}")
    has(lines[0], pattern, f"what {command} said")
    for now, then in zip(look(machine), before):
        same(now, then, f"what {command} left behind")


def refused_file(machine, lines, pattern, name="bad"):
    """A VM's file is refused: by create, or if it can be right at another time, by start."""
    machine.put(f"/tmp/{name}.conf", "\n".join(lines) + "\n")
    refused(machine, f"keel vm create /tmp/{name}.conf", pattern)


def file_of(**changes):
    lines = {"name": "name = bad", "memory": "memory = 64M", "kernel": "kernel = /srv/vmlinuz",
             "initrd": "initrd = /srv/initrd.img", **changes}
    return [line for line in lines.values() if line]


def test_good_one_runs(machine):
    """The VM that all that follows must not disturb."""
    guests.wait_daemon(machine)
    guests.make_bridge(machine)
    guests.start(machine, GOOD)
    guests.log_in(machine, GOOD)


def test_unknown_key(machine):
    refused_file(machine, file_of(wrong="colour = blue"), r"/tmp/bad\.conf:5: unknown key 'colour'; ")


def test_missing_key(machine):
    refused_file(machine, file_of(kernel=None), r"/tmp/bad\.conf:\d+: .*neither 'kernel' nor 'firmware'; add ")
    refused_file(machine, file_of(kernel="firmware = /srv/none.fd", initrd=None), r"/tmp/bad\.conf:\d+: firmware /srv/none\.fd: No such file.*; give ")


def test_wrong_types(machine):
    refused_file(machine, file_of(memory="memory = lots"), r"/tmp/bad\.conf:2: 'memory' .*; write ")
    refused_file(machine, file_of(cpus="cpus = 0"), r"/tmp/bad\.conf:5: 'cpus' must be .* from 1 to ")
    refused_file(machine, file_of(disk="disk = /srv/x.img"), r"/tmp/bad\.conf:5: 'disk' is a section; ")


def test_broken_file(machine):
    refused_file(machine, file_of(disk="disk { path = /srv/x.img"), r"/tmp/bad\.conf:\d+: ")
    refused(machine, "keel vm create /tmp/nothing.conf", r"/tmp/nothing\.conf: .*; ")


def test_missing_disk(machine):
    refused_file(machine, file_of(disk="disk { path = /srv/nowhere.img }"),
                 r"/tmp/bad\.conf:5: .*/srv/nowhere\.img.*; ")


def test_kernel_is_no_bzimage(machine):
    refused_file(machine, file_of(kernel="kernel = /srv/initrd.img"),
                 r"/tmp/bad\.conf:3: .*/srv/initrd\.img.*bzImage")


def start_refused(machine, lines, pattern):
    """Refused at create or, where only the moment is wrong, at start; then nothing but the file stays."""
    machine.put("/tmp/bad.conf", "\n".join(lines) + "\n")
    result = machine.run("keel vm create /tmp/bad.conf")
    if result.code == 0:
        refused(machine, "keel vm start bad", pattern)
        machine.check("keel vm delete bad")
    else:
        refused(machine, "keel vm create /tmp/bad.conf", pattern)


def test_locked_disk(machine):
    """The disk is another VM's: refused by its path, and the owner reads on."""
    for more in ("", "; readonly = yes"):
        start_refused(machine, file_of(disk=f"disk {{ path = {GOOD.disk}{more} }}"),
                      rf":5: .*{GOOD.disk}.*; ")
    machine.check(f"ln -sf {GOOD.disk} /tmp/link.img")
    start_refused(machine, file_of(disk="disk { path = /tmp/link.img }"), r":5: .*/tmp/link\.img.*; ")
    guests.check(machine, GOOD, "cd /srv && sha256sum -c checked.sha256")


def test_more_memory_than_the_pool(machine):
    start_refused(machine, file_of(memory="memory = 64G"), r":2: .*; ")
    free = guests.status(machine)["pool_free_bytes"] >> 20
    start_refused(machine, file_of(memory=f"memory = {free + 2}M"), r":2: .*; ")


def test_missing_bridge(machine):
    start_refused(machine, file_of(net="net { bridge = br77 }"), r"br77.*; ")


def test_two_of_one_name(machine):
    refused_file(machine, file_of(name="name = good"), r"good.*; ", name="good")
    refused(machine, "keel vm start good", r"good.*running")


def test_unknown_vm(machine):
    for verb in ("start", "stop", "kill", "console --dump", "delete"):
        refused(machine, f"keel vm {verb} nobody", r"nobody")


def test_second_device_process(machine):
    refused(machine, "keelvm --vm good", r"good.*has a device process")


def test_second_daemon(machine):
    refused(machine, "keeld", r"keeld")


def test_usage(machine):
    """Exit code 2 and the verb's own usage."""
    for command in ("keel", "keel vm", "keel vm flip", "keel vm start", "keel vm start a b",
                    "keel status --colour", "keelvm --what"):
        result = machine.run(command)
        same(result.code, 2, f"exit code of {command}")
        has(result.output, r"^usage: ", f"what {command} said")


def test_good_one_still_runs(machine):
    guests.check(machine, GOOD, f"ping -c 3 {guests.ROOT_ADDRESS}")
    machine.check("keel vm stop --timeout 120 good", 150)
    same(guests.status(machine)["vms"], [], "VMs of hyp")


run_cases(lambda: boot_server(below="keel", data=True, limit_s=900), [
    test_good_one_runs, test_unknown_key, test_missing_key, test_wrong_types, test_broken_file,
    test_missing_disk, test_kernel_is_no_bzimage, test_locked_disk, test_more_memory_than_the_pool,
    test_missing_bridge, test_two_of_one_name, test_unknown_vm, test_second_device_process,
    test_second_daemon, test_usage, test_good_one_still_runs])
