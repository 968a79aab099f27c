# SPDX-License-Identifier: BSD-2-Clause
"""Runs a folder of tiny guests on keelOS and on KVM with QEMU, in the same emulated server.

The folder has Multiboot images and a file `list`, a test a line:
    NAME IMAGE VCPUS MEMORY_MIB [ARGUMENTS …]
A guest ends itself by port 0xf4 (keel.conf(5), testdev): 0 passed, 38 skipped, else failed. Lines of
its console that begin with PASS, FAIL, SKIP or XFAIL are counted as its cases; so are those that begin with "ok".
"""
import os
import re
import shlex
import tarfile
import tempfile
import time
from dataclasses import dataclass, field

from lab import figures, guests, images, peer
from lab.machine import Hardware, Machine
from lab.paths import LOGS, LabError

SKIPPED = 38  # by QEMU's exit status, which is twice that and 1
LOST_MAX = 2  # the server, in one test, before the test is given up
PLACE = "/tmp/suite"
MARK = "suite-ends-here"
# Root's own consoles, and what else it needs, are not to be in the way.
HYP_ARGS = "pool=2048M park=boot"
MEMORY_MIB = 6144


@dataclass
class Test:
    """A line of the list."""
    name: str
    image: str
    vcpus: int
    memory_mib: int
    arguments: str


@dataclass
class Outcome:
    """What a test came to on one side. kind: pass, skip, fail, time (out of it), dead (the VM is), or
    lost (the server is, each time)."""
    kind: str
    seconds: float = 0.0
    repeats: int = 0
    cases: dict = field(default_factory=dict)  # a case's text to PASS, FAIL, SKIP or XFAIL

    def tell(self):
        if not self.cases:
            return self.kind
        counts = [f"{n} {word}" for word in ("pass", "fail", "skip")
                  if (n := sum(v == word.upper() for v in self.cases.values()))]
        return f"{self.kind} ({', '.join(counts)})"


def read_list(folder, words):
    path = os.path.join(folder, "list")
    tests = []
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}; see lab/README.md") from None
    for number, line in enumerate(lines, 1):
        parts = line.split("#")[0].split(None, 4)
        if not parts:
            continue
        if len(parts) < 4 or not parts[2].isdigit() or not parts[3].isdigit():
            raise LabError(f"{path}:{number}: not NAME IMAGE VCPUS MEMORY_MIB [ARGUMENTS]")
        if not os.path.exists(os.path.join(folder, parts[1])):
            raise LabError(f"{path}:{number}: there is no {parts[1]} in {folder}")
        test = Test(parts[0], parts[1], int(parts[2]), int(parts[3]), parts[4] if parts[4:] else "")
        if not words or any(word in test.name for word in words):
            tests.append(test)
    return tests


def environment(test):
    """What kvm-unit-tests reads from its module, as KEY=VALUE lines."""
    return f"NR_CPUS={test.vcpus}\nMEMSIZE={test.memory_mib}\nTEST_DEVICE=1\nBOOTLOADER=1\n"


class Keel:
    """keelOS's side: a VM's file for each test, and keel's verbs."""
    name = "keel"

    def boot(self, disk, limit_s, tell):
        boot, disks = images.make_boot(hyp_args=HYP_ARGS, tell=tell)
        hardware = Hardware(memory_mib=MEMORY_MIB, disks=disks + [disk])
        return Machine("suite-keel", boot, "keel", hardware, limit_s)

    def prepare(self, machine):
        guests.wait_daemon(machine)

    def script(self, test, timeout_s):
        text = (f"name = {test.name}\ncpus = {test.vcpus}\nmemory = {test.memory_mib}M\n"
                f"kernel = {PLACE}/{test.image}\ninitrd = {PLACE}/env\ntestdev = yes\nrng = no\n"
                "on_poweroff = preserve\non_reboot = restart\n")
        if test.arguments:
            escaped = test.arguments.replace("\\", "\\\\").replace('"', '\\"')
            text += f'cmdline = "{escaped}"\n'
        name = test.name
        over = f"keel vm list | grep -qE '^{name} +(preserved|dead|off|failed) '"
        return (f"printf %s {shlex.quote(environment(test))} >{PLACE}/env\n"
                f"printf %s {shlex.quote(text)} >{PLACE}/conf\n"
                f"keel vm create {PLACE}/conf && keel vm start {name} || exit 1\n"
                f"timeout {timeout_s} sh -c \"until {over}; do sleep 0.1; done\"\n"
                f"keel vm console {name} --dump; echo; echo {MARK}; keel vm list | grep '^{name} '\n"
                f"keel vm log {name}; keel vm kill {name} >/dev/null 2>&1; keel vm delete {name}; true\n")

    def judge(self, rest):
        match = re.findall(r"the guest ended with (\d+)", rest)
        if match:
            return int(match[-1])
        return "dead" if re.search(r"^\S+ +(dead|failed)", rest, re.M) else "time"


class Kvm:
    """The other side: QEMU's command as kvm-unit-tests' own runner has it."""
    name = "kvm"

    def boot(self, disk, limit_s, tell):
        boot, disks = peer.make_boot(tell)
        hardware = Hardware(memory_mib=MEMORY_MIB, disks=disks + [disk])
        return Machine("suite-kvm", boot, "none", hardware, limit_s)

    def prepare(self, machine):
        machine.check(peer.LOAD_KVM)

    def script(self, test, timeout_s):
        command = ["timeout", "-k", "5", str(timeout_s), "qemu-system-x86_64", "-nodefaults",
                   "-no-user-config", "-M", "q35,accel=kvm", "-cpu", "max", "-display", "none", "-serial", "stdio",
                   "-device", "pc-testdev", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x4",
                   "-kernel", f"{PLACE}/{test.image}", "-append", test.arguments, "-smp", str(test.vcpus),
                   "-m", str(test.memory_mib), "-initrd", f"{PLACE}/env"]
        return (f"printf %s {shlex.quote(environment(test))} >{PLACE}/env\n"
                f"{shlex.join(command)} </dev/null 2>&1; code=$?; echo; echo {MARK}; echo code $code\n")

    def judge(self, rest):
        code = int(re.search(r"code (\d+)", rest).group(1))
        # isa-debug-exit ends QEMU with twice the value plus 1.
        return "time" if code in (124, 137) else code >> 1 if code & 1 else "dead"


SIDES = {side.name: side for side in (Keel(), Kvm())}


def read_cases(console):
    """Each case's text and its result; a text that comes again has its number behind it."""
    cases = {}
    for word, text in re.findall(r"^(PASS|FAIL|XFAIL|SKIP|ok):? (.*)$", console, re.M):
        name, again = text.strip(), 2
        word = "PASS" if word == "ok" else word
        while name in cases:
            name, again = f"{text.strip()} #{again}", again + 1
        cases[name] = word
    return cases


def consoles(side):
    """Where what the guests said is kept: beside the servers' logs, which each boot begins anew."""
    return os.path.join(LOGS, f"suite-{side}-guests")


def run_test(machine, side, test, timeout_s):
    start = time.monotonic()
    result = machine.run(side.script(test, timeout_s), timeout_s + 60)
    text = result.output.replace("\r", "")
    os.makedirs(consoles(side.name), exist_ok=True)
    with open(os.path.join(consoles(side.name), f"{test.name}.log"), "w", encoding="utf-8") as out:
        out.write(text)
    if MARK not in text:
        raise LabError(f"{test.name} on {side.name}: {text}")
    console, rest = text.split(MARK, 1)
    code = side.judge(rest)
    kind = code if isinstance(code, str) else {0: "pass", SKIPPED: "skip"}.get(code, "fail")
    return Outcome(kind, time.monotonic() - start, cases=read_cases(console))


def make_disk(folder, path):
    """The folder as a tar, which root reads from its last disk."""
    with tarfile.open(path, "w") as tar:
        tar.add(folder, "suite", recursive=True)


def run_tests(machine, side, left, outcomes, timeout_s, tell):
    """Runs what is left, and takes each from the list when its outcome is there."""
    machine.wait_ready(300)
    machine.check("cd /tmp && tar x -f $(ls /dev/nvme*n1 | tail -1)", 120)
    side.prepare(machine)
    while left:
        outcome = run_test(machine, side, left[0], timeout_s)
        outcomes[left[0].name] = outcome
        tell(f"{side.name}: {left[0].name}: {outcome.tell()}, {outcome.seconds:.1f} s")
        left.pop(0)


def run_side(side, folder, tests, timeout_s, tell):
    """Outcomes by name. A server that is lost on the way is counted, and started again for the rest."""
    outcomes, lost, left = {}, {}, list(tests)
    with tempfile.TemporaryDirectory(prefix="keel-suite-") as place:
        disk = os.path.join(place, "suite.tar")
        make_disk(folder, disk)
        while left:
            try:
                with side.boot(disk, 400 + len(left) * (timeout_s + 60), tell) as machine:
                    run_tests(machine, side, left, outcomes, timeout_s, tell)
            except (LabError, OSError) as error:
                name = left[0].name
                lost[name] = lost.get(name, 0) + 1
                tell(f"{side.name}: the server was lost in {name}: {str(error).splitlines()[0]}")
                if lost[name] == LOST_MAX:
                    outcomes[name] = Outcome("lost")
                    left.pop(0)
    for name, times in lost.items():
        outcomes[name].repeats = times
    return outcomes


def print_table(tests, results):
    sides = list(results)
    width = max(len(t.name) for t in tests)
    print(f"{'test':<{width}}  " + "  ".join(f"{s:<34}" for s in sides))
    for test in tests:
        cells = [results[s][test.name] for s in sides]
        mark = "" if len({c.kind for c in cells}) == 1 else "  <- differ"
        print(f"{test.name:<{width}}  " + "  ".join(f"{c.tell():<34}" for c in cells) + mark)
        print_cases(cells, sides)
    for side in sides:
        kinds = [o.kind for o in results[side].values()]
        print(f"{side}: " + ", ".join(f"{kinds.count(k)} {k}" for k in ("pass", "skip", "fail", "time", "dead", "lost") if k in kinds))


def print_cases(cells, sides):
    """Cases that failed somewhere, or that the sides do not agree on."""
    names = dict.fromkeys(name for cell in cells for name in cell.cases)
    shown = 0
    for name in names:
        words = [cell.cases.get(name, "-") for cell in cells]
        if "FAIL" not in words:
            continue
        shown += 1
        if shown <= 12:
            print("    " + ", ".join(f"{s} {w}" for s, w in zip(sides, words)) + f": {name[:90]}")
    if shown > 12:
        print(f"    and {shown - 12} more; see {os.path.relpath(consoles('SIDE'))}/")


def write_figure(folder, tests, results):
    name = "suite-" + re.sub(r"[^a-z0-9]+", "-", os.path.basename(os.path.abspath(folder)).lower())
    table = {t.name: {s: {"result": results[s][t.name].kind,
                          "seconds": round(results[s][t.name].seconds, 1),
                          "servers_lost": results[s][t.name].repeats,
                          "failed": [n for n, w in results[s][t.name].cases.items() if w == "FAIL"]}
                      for s in results} for t in tests}
    for side in results:
        passed = sum(o.kind == "pass" for o in results[side].values())
        figures.write(f"{name}-{side}", "tests passed", "higher", [passed], of=len(tests),
                      tests={n: row[side] for n, row in table.items()})


def run(folder, sides, words, timeout_s, tell):
    """0 if nothing fails on keelOS that passes on the other side (or, alone, nothing fails)."""
    tests = read_list(folder, words)
    if not tests:
        raise LabError(f"no test of {folder} has one of these words in its name: {' '.join(words)}")
    results = {s: run_side(SIDES[s], folder, tests, timeout_s, tell) for s in sides}
    print_table(tests, results)
    write_figure(folder, tests, results)
    ours = results.get("keel", {})
    theirs = results.get("kvm")
    worse = [t.name for t in tests if ours.get(t.name, Outcome("pass")).kind not in ("pass", "skip")
             and (theirs is None or theirs[t.name].kind == "pass")]
    if worse:
        print("keelOS is behind in: " + ", ".join(worse))
    return 1 if worse else 0
