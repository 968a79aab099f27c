#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The lab itself, on bare emulated metal: what a test is told by it has to be true."""
import hashlib

from harness import LabError, Wrong, boot_server, has, run_cases, same


def test_exit_code_and_output(machine):
    result = machine.run("echo out; echo err >&2; exit 7")
    same((result.code, result.output), (7, "out\nerr\n"), "exit code and output")


def test_answers_whole_beside_kernel_messages(machine):
    """The kernel prints on the console while a large answer comes through the agent's port."""
    script = ("(i=0; while [ $i -lt 200 ]; do echo noise $i >/dev/kmsg; i=$((i + 1)); done) &\n"
              "seq 1 20000; wait")
    output = machine.check(script)
    same(output, "".join(f"{n}\n" for n in range(1, 20001)), "20,000 lines")
    machine.console.expect(r"noise 199", 10)


def test_binary_file_arrives(machine):
    data = bytes(range(256)) * 16
    machine.put("/tmp/put.bin", data)
    same(machine.check("wc -c </tmp/put.bin").strip(), "4096", "size")
    same(machine.check("md5sum </tmp/put.bin").split()[0], hashlib.md5(data).hexdigest(), "sum")


def test_late_answer_is_an_error(machine):
    """A command that does not end within its time is told as such, and the next one still works."""
    try:
        machine.run("sleep 3", timeout_s=1)
    except LabError as error:
        has(str(error), "no answer within 1 s", "the error")
    else:
        raise Wrong("no error for a late answer")
    same(machine.check("echo next", timeout_s=20), "next\n", "the next command")


def test_hardware(machine):
    """Two CPUs, 4 GiB, SVM, a network card, the TSC as clock: what all other tests rely on."""
    same(machine.check("nproc").strip(), "2", "CPUs")
    has(machine.check("grep -m1 ^flags /proc/cpuinfo"), r"\bsvm\b", "CPU flags")
    has(machine.check("ls /sys/class/net"), "eth0", "network cards")
    clock = machine.check("cat /sys/devices/system/clocksource/clocksource0/current_clocksource")
    same(clock.strip(), "tsc", "clock source")


def test_disk_writes_do_not_last(machine):
    """The NVMe disk takes writes, but the image behind it stays as built (a later boot sees it)."""
    same(machine.check("ls /srv/written 2>/dev/null | wc -l").strip(), "0", "left by another run")
    machine.check("echo x >/srv/written && sync && ls /srv/written")


run_cases(lambda: boot_server(below="none", data=True, limit_s=120), [
    test_exit_code_and_output, test_answers_whole_beside_kernel_messages,
    test_binary_file_arrives, test_late_answer_is_an_error, test_hardware,
    test_disk_writes_do_not_last])
