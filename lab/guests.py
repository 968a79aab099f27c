# SPDX-License-Identifier: BSD-2-Clause
"""VMs in an emulated server, by `keel` as a person uses it: their files, a bridge, their consoles.

Root's bridge br0 has 10.77.0.1/24; VM number N has 10.77.0.(10 + N) and a disk of its own on /srv.
"""
import json
import re
import shlex
from dataclasses import dataclass

from lab.paths import LabError

BRIDGE = "br0"
ROOT_ADDRESS = "10.77.0.1"
# What a shell on a guest's console ends its line with: tiny guests, and Debian's root.
PROMPT = {"tiny": r"guest# ", "debian": r"root@[a-z0-9-]+:[^ ]*# ", "initramfs": r"/ # "}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass
class Guest:
    """A VM's file as text, with what the lab's images need of it. kind: tiny, debian or initramfs."""
    name: str
    number: int = 1
    kind: str = "tiny"
    cpus: int = 1
    memory: str = "256M"
    more_args: str = ""  # added to the guest kernel's command line
    more: str = ""  # further lines of the file
    disk_more: str = ""  # further keys of its disk's section

    @property
    def address(self):
        return f"10.77.0.{10 + self.number}"

    @property
    def disk(self):
        return f"/srv/{self.kind}-{'abcdef'[self.number - 1]}.img"

    def kernel_line(self):
        words = ["console=ttyS0", "panic=-1"]
        if self.kind != "initramfs":
            words += ["root=/dev/vda", "rw", "systemd.log_color=0"]
        words += [f"keel.ip={self.address}/24", f"keel.name=vm-{self.name}", self.more_args]
        return " ".join(w for w in words if w)

    def text(self):
        lines = [f"name = {self.name}", f"cpus = {self.cpus}", f"memory = {self.memory}",
                 "kernel = /srv/vmlinuz", "initrd = /srv/initrd.img",
                 f'cmdline = "{self.kernel_line()}"']
        if self.kind != "initramfs":
            lines.append(f"disk {{ path = {self.disk}; {self.disk_more} }}")
        if "net {" not in self.more:
            lines.append(f"net {{ bridge = {BRIDGE} }}")
        return "\n".join(lines + [self.more]) + "\n"


def make_bridge(machine):
    """br0 with root's address. busybox's ip has no bridges, Debian has no brctl."""
    machine.check(f"[ -e /sys/class/net/{BRIDGE} ] || ip link add {BRIDGE} type bridge 2>/dev/null || "
                  f"brctl addbr {BRIDGE}\n"
                  f"ip addr add {ROOT_ADDRESS}/24 dev {BRIDGE} 2>/dev/null; ip link set {BRIDGE} up")


def wait_for(machine, condition, timeout_s=60):
    """Until a line of shell succeeds in root; an error that shows keel's state if it does not."""
    result = machine.run(f"timeout {timeout_s} sh -c {shlex.quote(f'until {condition}; do sleep 0.1; done')}",
                         timeout_s + 30)
    if result.code != 0:
        raise LabError(f"not within {timeout_s} s: {condition}\n"
                       + machine.run("keel vm list 2>&1; keel log | tail -5").output)


def wait_daemon(machine, timeout_s=60):
    """Until keeld takes requests."""
    wait_for(machine, "keel vm list >/dev/null 2>&1", timeout_s)


def create(machine, guest):
    machine.put(f"/tmp/{guest.name}.conf", guest.text())
    machine.check(f"keel vm create /tmp/{guest.name}.conf")


def start(machine, guest):
    """Creates it, if it is not known yet, and starts it."""
    if machine.run(f"keel vm show {guest.name} >/dev/null 2>&1").code != 0:
        create(machine, guest)
    machine.check(f"keel vm start {guest.name}", 120)


def console(machine, name, *steps, timeout_s=120, from_start=False):
    """Steps are ("send", TEXT) and ("expect", REGEX). Returns what the console said meanwhile."""
    words = ["keel", "vm", "console", name, "--timeout", str(timeout_s)]
    words += ["--from-start"] if from_start else []
    for what, text in steps:
        words += [f"--{what}", text]
    result = machine.run(shlex.join(words) + " 2>&1", timeout_s + 60)
    if result.code != 0:
        raise LabError(f"console of {name}: exit {result.code} at {steps}:\n{result.output[-3000:]}")
    return result.output.replace("\r", "")


def log_in(machine, guest, timeout_s=180):
    """Waits for the guest's userland, and for a shell's prompt on its console."""
    if guest.kind == "debian":
        steps = [("expect", "login: "), ("send", "root"), ("expect", PROMPT["debian"])]
    else:
        steps = [("expect", "guest-userland [0-9.]+"), ("expect", PROMPT[guest.kind])]
    return console(machine, guest.name, *steps, timeout_s=timeout_s, from_start=True)


def run(machine, guest, script, timeout_s=120):
    """Runs a line in the guest's shell, over its console. Needs: log_in. Returns code and output."""
    # The marks are put together by the guest's shell, so that the echo of the line does not have them.
    line = f"echo \"begin-\"of; ({script}); echo \"end-\"of $?"
    text = console(machine, guest.name, ("send", line), ("expect", "end-of [0-9]+"),
                   ("expect", PROMPT[guest.kind]), timeout_s=timeout_s)
    match = re.search(r"begin-of\n(.*)end-of (\d+)", text, re.S)
    if not match:
        raise LabError(f"{guest.name}: no answer to {script} in:\n{text}")
    return int(match.group(2)), ESCAPES.sub("", match.group(1))


def check(machine, guest, script, timeout_s=120):
    """Runs a line in the guest that has to succeed; returns what it printed."""
    code, output = run(machine, guest, script, timeout_s)
    if code != 0:
        raise LabError(f"{guest.name}: exit {code} of: {script}\n{output}")
    return output


def status(machine):
    """What `keel status --json` says."""
    return json.loads(machine.check("keel status --json"))


def list_vms(machine):
    """Name to what `keel vm list --json` says of it."""
    return {vm["name"]: vm for vm in json.loads(machine.check("keel vm list --json"))}


def wait_state(machine, name, state, timeout_s=120):
    """Until keeld says that a VM is in that state; a regular expression."""
    wait_for(machine, f"keel vm list | grep -qE '^{name} +({state}) '", timeout_s)


def console_text(machine, name):
    """All that the VM's console still has."""
    return machine.check(f"keel vm console {name} --dump").replace("\r", "")
