#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""keel-blk under QEMU: a stock Linux guest on a vhost-user disk, whose process is killed meanwhile."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

from harness import Hardware, Machine, has, run_alone, same
from lab import debian, initramfs
from lab.kernel import Kernel
from lab.machine import Boot

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Under a busy emulator the check of the timer is a lottery.
ARGS = "no_timer_check root=/dev/vda rw keel.ip=10.77.0.11/24 keel.name=vm-a"


class Disk:
    """keel-blk on a copy of an image; killed and started again at will."""

    def __init__(self, folder, image):
        self.path, self.socket = os.path.join(folder, "disk"), os.path.join(folder, "sock")
        shutil.copyfile(image, self.path)
        self.log = open(os.path.join(folder, "log"), "wb")
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [f"{TOP}/build/bin/keel-blk", f"--blk-file={self.path}", f"--socket-path={self.socket}",
             "--queues=2"], stdout=self.log, stderr=self.log)
        end = time.monotonic() + 10
        while not os.path.exists(self.socket) and time.monotonic() < end:
            time.sleep(0.01)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.terminate()
        code = self.process.wait(30)
        self.log.close()
        if kind is None:
            same(code, 0, "keel-blk's exit code")


def boot(disk):
    kernel = Kernel()
    boot_of = Boot(kernel=kernel.image, initrd=initramfs.build_guest(kernel), root_args=ARGS,
                   console="ttyS0")
    more = ["-object", "memory-backend-memfd,id=m,size=512M,share=on", "-machine", "memory-backend=m",
            "-chardev", f"socket,id=d,path={disk.socket},reconnect-ms=50",
            "-device", "vhost-user-blk-pci,chardev=d,num-queues=2"]
    return Machine("vhost-blk", boot_of, "none", Hardware(memory_mib=512, more=more), limit_s=150)


def test_killed_under_a_guest():
    with tempfile.TemporaryDirectory(prefix="keel-vhost-", dir="/var/tmp") as folder:
        with Disk(folder, debian.build_tiny(Kernel())) as disk, boot(disk) as machine:
            console = machine.hyp
            console.expect("guest# ", 90)
            console.send("cd /srv; sha256sum -c checked.sha256\n")
            has(console.expect(r"checked.bin: (\w+)", 30).group(0), "OK", "the checked file")
            console.send("i=0; while [ $i -lt 40 ]; do dd if=/dev/urandom of=f$i bs=64k count=4 2>/dev/null;"
                         " sha256sum f$i >>sums; sync; echo round-$i.; i=$((i+1)); done; echo written=yes\n")
            for kill in range(5):
                console.expect(rf"round-{kill * 4}\.", 60)
                disk.kill()
                disk.start()
            console.expect(r"\nwritten=yes", 60)
            console.send("echo 3 >/proc/sys/vm/drop_caches; sha256sum -c sums >out && echo all=$(grep -c OK out);"
                         " dmesg | grep -ci 'error' ; echo end=1\n")
            text = console.expect(r"(?s)\nall=(\d+)(.*)\nend=1", 60)
            same(int(text.group(1)), 40, "files that are right")
            console.send("poweroff\n")
            machine.wait_end(60)


run_alone([test_killed_under_a_guest])
