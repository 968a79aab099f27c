# SPDX-License-Identifier: BSD-2-Clause
"""An emulated AMD server: what is below root, what it boots from, and how one speaks with it.

    with Machine("name", below="keel", boot=images) as machine:
        machine.wait_ready()
        print(machine.run("uname -a").output)
        machine.power_off()

COM1 is hyp's log, COM2 (ttyS1) root's console, and a virtio port carries the agent's commands. The
emulator dies with this process, at the latest after limit_s, and always when the with-block ends.
"""
import base64
import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field

from lab.paths import LOGS, LabError
from lab.qmp import Qmp
from lab.stream import Stream

QEMU = "qemu-system-x86_64"
# Under MTTCG Linux else finds the TSCs apart and falls back to the HPET.
ROOT_ARGS = "tsc=reliable panic=-1"
# hyp does without the emulator's first CPU, which is not reliable: hyp/x86/smp.c says why.
POOL = "pool=1536M park=boot"
OVMF = "/usr/share/OVMF/OVMF_CODE_4M.fd"
OVMF_VARS = "/usr/share/OVMF/OVMF_VARS_4M.fd"
NICS = {"virtio": "virtio-net-pci", "e1000": "e1000", "e1000e": "e1000e", "igb": "igb"}
PR_SET_PDEATHSIG = 1


@dataclass
class Boot:
    """What a machine boots: root's kernel and initramfs, or an ISO; and their command lines."""
    kernel: str = ""
    initrd: str = ""
    root_args: str = ""
    console: str = "ttyS1"
    hyp: str = ""
    hyp_args: str = POOL
    iso: str = ""
    uefi: bool = False

    def kernel_line(self):
        return f"console={self.console} {ROOT_ARGS} {self.root_args}".strip()


@dataclass
class Result:
    """What a command in root returned, and what it printed on both its outputs."""
    code: int
    output: str


@dataclass
class Hardware:
    """What the emulated server is made of, where that matters to a test."""
    cpus: int = 2
    memory_mib: int = 4096
    cpu: str = "max"
    disks: list = field(default_factory=list)  # raw images; what is written is forgotten at the end
    nic: str = "virtio"
    tap_fd: int = -1  # where the NIC's cable leads; else to an isolated network of the emulator's
    more: list = field(default_factory=list)  # further arguments for the emulator
    reboot: bool = False  # else a reset ends the machine


class Machine:
    """below: 'none' (Linux on the emulated metal) or 'keel' (hyp below it)."""

    def __init__(self, name, boot, below="keel", hardware=None, limit_s=300):
        self.name = name
        self.boot = boot
        self.below = below
        self.hardware = hardware or Hardware()
        self.limit_s = limit_s
        self.logs = os.path.join(LOGS, name)
        self.ready_s = None
        self.out_of_time = False
        self._ids = itertools.count(1)
        self._folder = None
        self._process = None
        self._watchdog = None

    def __enter__(self):
        shutil.rmtree(self.logs, ignore_errors=True)
        os.makedirs(self.logs)
        self._folder = tempfile.mkdtemp(prefix="keel-lab-")
        self.start_time = time.monotonic()
        self.hyp = Stream("hyp's log", os.path.join(self.logs, "hyp.log"), self.start_time)
        self.console = Stream("root's console", os.path.join(self.logs, "root.log"),
                              self.start_time)
        self.agent = Stream("the agent", os.path.join(self.logs, "agent.log"), self.start_time)
        self.qmp = Qmp()
        try:
            self._launch()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, kind, error, trace):
        self.end()

    def _launch(self):
        ends = [self.hyp.far, self.console.far, self.agent.far, self.qmp.far]
        command = self._command(*[e.fileno() for e in ends])
        with open(os.path.join(self.logs, "command"), "w", encoding="utf-8") as out:
            out.write(" ".join(f"'{c}'" if " " in c else c for c in command) + "\n")
        with open(os.path.join(self.logs, "emulator.log"), "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[e.fileno() for e in ends] + [fd for fd in (self.hardware.tap_fd,) if fd >= 0],
                preexec_fn=die_with_parent)
        self._watchdog = threading.Timer(self.limit_s, self._run_out)
        self._watchdog.daemon = True
        self._watchdog.start()
        for stream in (self.hyp, self.console, self.agent):
            stream.begin()
        self.qmp.begin()

    def _run_out(self):
        self.out_of_time = True
        self._process.kill()

    def _command(self, hyp, console, agent, qmp):
        hardware = self.hardware
        machine = "q35" + (",smm=off" if not self.boot.uefi else "")
        command = [QEMU, "-name", self.name, "-M", machine, "-accel", "tcg,thread=multi",
                   "-cpu", hardware.cpu, "-smp", str(self._emulated_cpus()), "-m", str(hardware.memory_mib),
                   "-nodefaults", "-no-user-config", "-display", "none", "-vga", "none"]
        for name, number in (("com1", hyp), ("com2", console), ("agent", agent), ("qmp", qmp)):
            command += ["-chardev", f"socket,id={name},fd={number}"]
        command += ["-serial", "chardev:com1", "-serial", "chardev:com2",
                    "-mon", "chardev=qmp,mode=control",
                    "-device", "virtio-serial-pci,max_ports=2",
                    "-device", "virtserialport,chardev=agent,name=org.keelos.lab"]
        if not hardware.reboot:
            command.append("-no-reboot")
        if hardware.nic:
            cable = f"tap,id=net0,fd={hardware.tap_fd}" if hardware.tap_fd >= 0 else "user,id=net0,restrict=on"
            command += ["-netdev", cable, "-device",
                        f"{NICS[hardware.nic]},netdev=net0,mac=52:54:00:6b:65:01,romfile="]
        for number, disk in enumerate(hardware.disks):
            command += ["-drive", f"if=none,id=disk{number},format=qcow2,cache=unsafe,"
                        f"discard=unmap,file={self._overlay(number, disk)}",
                        "-device", f"nvme,drive=disk{number},serial=keel{number}"]
        return command + self._boot_arguments() + hardware.more

    def _emulated_cpus(self):
        parked = self.below == "keel" and "park=boot" in self.boot.hyp_args
        return self.hardware.cpus + (1 if parked else 0)

    def _overlay(self, number, disk):
        """A file that takes the writes, so that the image itself stays as built."""
        path = os.path.join(self._folder, f"disk{number}.qcow2")
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b",
                        os.path.abspath(disk), path], check=True)
        return path

    def _boot_arguments(self):
        boot = self.boot
        if boot.iso:
            arguments = ["-drive", f"if=none,id=cd,format=raw,readonly=on,file={boot.iso}",
                         "-device", "ide-cd,drive=cd,bootindex=0"]
            if boot.uefi:
                variables = os.path.join(self._folder, "vars.fd")
                shutil.copyfile(OVMF_VARS, variables)
                arguments += ["-drive", f"if=pflash,format=raw,readonly=on,file={OVMF}",
                              "-drive", f"if=pflash,format=raw,file={variables}"]
            return arguments
        root_args = boot.kernel_line()
        if self.below == "none":
            arguments = ["-kernel", boot.kernel, "-append", root_args]
            return arguments + (["-initrd", boot.initrd] if boot.initrd else [])
        if self.below == "keel":
            # Multiboot 1: a comma parts modules, a doubled one stands for itself.
            modules = [f"{boot.kernel} {root_args}".replace(",", ",,")]
            modules += [boot.initrd] if boot.initrd else []
            return ["-kernel", boot.hyp, "-append", boot.hyp_args, "-initrd", ",".join(modules)]
        raise LabError(f"nothing is known of '{self.below}' below root")

    def wait_ready(self, timeout_s=120):
        """Until root's userland answers. Sets ready_s, the seconds that took since power-on."""
        try:
            self.agent.expect("^hello$", timeout_s)
        except LabError as error:
            raise self._explain(f"root does not come up: {error}") from None
        self.ready_s = time.monotonic() - self.start_time
        return self.ready_s

    def _explain(self, text):
        parts = [text]
        if self.out_of_time:
            parts.append(f"the machine had {self.limit_s} s in all and was ended")
        for stream in (self.hyp, self.console):
            tail = stream.tail()
            if tail:
                parts.append(f"  {stream.name}:\n{tail}")
        with open(os.path.join(self.logs, "emulator.log"), encoding="utf-8") as log:
            emulator = log.read().strip()
        if emulator:
            parts.append("  the emulator:\n    " + emulator.replace("\n", "\n    "))
        parts.append(f"  logs: {self.logs}")
        return LabError("\n".join(parts))

    def run(self, script, timeout_s=60):
        """Runs a shell script in root. A late or missing answer is an error, not a result."""
        number = next(self._ids)
        # Root ends the script some time later, so that it answers again.
        limit_s = int(timeout_s) + 10
        self.agent.send(f"{number} {limit_s} {base64.b64encode(script.encode()).decode()}\n")
        try:
            match = self.agent.expect(rf"^{number} (\d+) ?(\S*)\n", timeout_s)
        except LabError:
            self.dump_cpus()
            raise self._explain(f"no answer within {timeout_s} s to: {script}") from None
        output = base64.b64decode(match.group(2)).decode(errors="replace")
        return Result(int(match.group(1)), output)

    def answers(self, timeout_s=30):
        """Whether root still does what it is told."""
        try:
            return self.run("echo yes", timeout_s).output == "yes\n"
        except LabError:
            return False

    def dump_cpus(self):
        """Leaves each emulated CPU's registers and APIC in the logs; for a machine that is stuck."""
        with open(os.path.join(self.logs, "cpus.log"), "w", encoding="utf-8") as out:
            try:
                for cpu in range(self._emulated_cpus()):
                    for line in ("info registers", "info lapic"):
                        text = self.qmp.command("human-monitor-command",
                                                **{"command-line": line, "cpu-index": cpu})
                        out.write(f"--- CPU {cpu}: {line}\n{text}\n")
            except LabError as error:
                out.write(f"{error}\n")

    def check(self, script, timeout_s=60):
        """Runs a script that has to succeed; returns what it printed."""
        result = self.run(script, timeout_s)
        if result.code != 0:
            raise LabError(f"exit {result.code} of: {script}\n{result.output}")
        return result.output

    def put(self, path, data, mode=0o644):
        """Writes a file in root; for small ones (it goes through the agent)."""
        text = base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()
        self.check(f"mkdir -p $(dirname {path}); echo {text} | base64 -d >{path} && "
                   f"chmod {mode:o} {path}")

    def fire(self, script):
        """Starts a script in root that ends root, or the machine: nobody waits for its answer."""
        self.agent.send(f"{next(self._ids)} 60 {base64.b64encode(script.encode()).decode()}\n")

    def power_off(self, timeout_s=60):
        """Asks root to shut down in order, and waits until the machine is off."""
        self.fire("poweroff")
        self.wait_end(timeout_s)

    def wait_end(self, timeout_s=60):
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.dump_cpus()
            raise self._explain(f"the machine did not turn off within {timeout_s} s") from None
        if self.out_of_time:
            raise self._explain("the machine was ended by the watchdog")

    @property
    def pid(self):
        """The emulator's."""
        return self._process.pid

    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def end(self):
        """Ends the emulator whatever it does; safe to call twice."""
        if self._watchdog:
            self._watchdog.cancel()
        if self.is_running():
            try:
                self.qmp.command("quit", timeout_s=5)
                self._process.wait(5)
            except (LabError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait()
        for stream in (self.hyp, self.console, self.agent):
            stream.close()
        self.qmp.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def die_with_parent():
    """Between fork and exec: the kernel ends the emulator when this process goes, however it goes."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
