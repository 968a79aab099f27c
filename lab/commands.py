# SPDX-License-Identifier: BSD-2-Clause
"""What each verb of lab/run does."""
import codecs
import os
import sys
import termios
import time
import tty

from lab import demo as demo_script
from lab import guests, images
from lab import soak as soak_script
from lab.machine import Hardware, Machine
from lab.stream import join_terminal


def make_machine(arguments, name, limit_s):
    hardware = Hardware(cpus=arguments.cpus, memory_mib=arguments.memory, cpu=arguments.cpu,
                        nic="" if arguments.nic == "none" else arguments.nic,
                        more=arguments.qemu)
    boot, disks = images.make_boot(below=arguments.below, root=arguments.root, iso=arguments.iso,
                                   root_args=arguments.root_args, hyp_args=arguments.hyp_args,
                                   data=arguments.data, tell=tell)
    hardware.disks = disks
    return Machine(name, boot, arguments.below, hardware, limit_s)


def tell(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


def show(prefix):
    """A listener that prints a console's bytes, each line with a prefix."""
    state = {"start": True}
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def listener(data):
        out = []
        for line in decoder.decode(data).replace("\r", "").splitlines(keepends=True):
            out.append((prefix if state["start"] else "") + line)
            state["start"] = line.endswith("\n")
        sys.stdout.write("".join(out))
        sys.stdout.flush()
    return listener


def boot(arguments):
    with make_machine(arguments, "boot", arguments.limit) as machine:
        if not arguments.quiet:
            machine.hyp.show(show("hyp  | "))
            machine.console.show(show("root | "))
        tell(f"root answers after {machine.wait_ready(arguments.limit):.1f} s")
        code = 0
        if arguments.script:
            result = machine.run(arguments.script, arguments.limit)
            print(result.output, end="")
            code = result.code
        machine.power_off()
    return code


def start_vms(machine):
    """The demonstration's two, so that whoever comes finds them running."""
    guests.wait_daemon(machine)
    guests.make_bridge(machine)
    for guest in (demo_script.TINY, demo_script.DEBIAN):
        guests.start(machine, guest)
        tell(f"VM {guest.name} boots at {guest.address}: keel vm console {guest.name}")
    tell("see also: keel vm list, keel status, keel top, keel --help")


def shell(arguments):
    if not sys.stdin.isatty():
        tell("the shell needs a terminal")
        return 1
    arguments.data |= arguments.vms
    # A person may take long: one day.
    with make_machine(arguments, "shell", 86400) as machine:
        tell(f"root answers after {machine.wait_ready():.1f} s")
        if arguments.vms:
            start_vms(machine)
        tell("root's shell; leave with Ctrl-]")
        before = termios.tcgetattr(sys.stdin)
        try:
            tty.setraw(sys.stdin)
            machine.console.send("\r")
            join_terminal(machine.console, sys.stdin.fileno(), sys.stdout.fileno())
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        print()
        if machine.is_running():
            if arguments.vms:
                tell("shutting the VMs down")
                machine.run("for vm in $(keel vm list | sed -n 's/^\\([^ ]*\\) *running .*/\\1/p'); do "
                            "keel vm stop --timeout 60 $vm & done; wait", 120)
            machine.power_off()
    return 0


def build_images(_arguments):
    for name, path in images.build_all(tell).items():
        print(f"{name}: {path} ({os.stat(path).st_blocks // 2048} MiB)")
    return 0


def demo(_arguments):
    return demo_script.run(time.monotonic())


def soak(arguments):
    return soak_script.run(arguments, tell)


VERBS = {"boot": boot, "shell": shell, "demo": demo, "images": build_images, "soak": soak}
