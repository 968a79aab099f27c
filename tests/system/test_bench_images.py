#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The images of the comparison have on them what measures and what is compared. Built here, so that no later test waits."""
import subprocess

from harness import Wrong, run_alone
from lab import compare
from lab.kernel import Kernel

GUEST = ["/usr/bin/7z", "/usr/bin/fio", "/usr/bin/iperf3", "/usr/bin/sysbench", "/usr/bin/perf", "/usr/bin/gcc", "/usr/bin/make",
         "/usr/bin/perl", "/usr/sbin/compare-init", "/usr/sbin/compare-agent", "/usr/src/redis/version", "/etc/compare-versions"]
ROOT = ["/usr/bin/qemu-system-x86_64", "/usr/bin/python3", "/usr/bin/keel", "/usr/bin/keelvm", "/usr/sbin/lab-agent"]
DATA = ["/vmlinuz", "/initrd.img", "/guest-a.img", "/guest-b.img"]


def check_files(image, names):
    for name in names:
        done = subprocess.run(["/sbin/debugfs", "-R", f"stat {name}", image], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=True)
        text = done.stdout.decode(errors="replace")
        if "Inode:" not in text:
            raise Wrong(f"{image} has no {name}: {text[-300:]}")


def test_guest():
    check_files(compare.build_guest(print), GUEST)


def test_data_disk():
    check_files(compare.build_data(print), DATA)


def test_root():
    check_files(compare.build_root(Kernel(), print)[0], ROOT)


run_alone([test_guest, test_data_disk, test_root])
