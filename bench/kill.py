#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""How long a disk's driver waits when the device's process is killed, natively.

Usage: bench/kill.py [--kills N] [--depth N]    (100, 32)

keel-blk is killed under verified load (half reads, half writes of 4 KiB) and started anew at once, as keeld does;
bench-ring reconnects and times from the signal to the next answer. In it: the death, the start of the program,
the disk opened and locked, the ring taken over with its in-flight log, what was in flight done again. A VM's own
device process attaches by hypercalls instead of a socket. Writes build/figures/native_kill_io_stall_ms.json.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOP)
from lab import figures  # noqa: E402

FILE_BYTES = 256 << 20


class Keeper(threading.Thread):
    """A device process all the time; one that is killed has a successor at once. One that ends in any other way
    has none: `failed` is its exit code, and the driver is ended. Waits without looking again and again."""

    def __init__(self, command, log):
        super().__init__(daemon=True)
        self.command, self.log = command, log
        self.ends = False
        self.device = self.driver = self.failed = None

    def run(self):
        while not self.ends:
            with subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=self.log) as self.device:
                if self.ends:  # said so while this one was begun
                    self.device.terminate()
            if self.device.returncode != -signal.SIGKILL and not self.ends:
                self.failed = self.device.returncode
                if self.driver:
                    self.driver.terminate()
                return

    def end(self):
        self.ends = True
        if self.device:
            self.device.terminate()
        self.join(30)


def run(folder, args):
    """Returns what the driver said. Ends with what went wrong if something did."""
    disk, sock = f"{folder}/disk", f"{folder}/sock"
    with open(disk, "wb") as file:
        for _ in range(FILE_BYTES >> 20):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    with open(f"{folder}/log", "w+") as log:
        keeper = Keeper([f"{TOP}/build/bin/keel-blk", f"--blk-file={disk}", f"--socket-path={sock}"], log)
        keeper.start()
        try:
            with subprocess.Popen([f"{TOP}/build/bin/bench-ring", f"--socket={sock}", f"--kills={args.kills}",
                                   f"--depth={args.depth}", "--read-percent=50", "--verify"],
                                  stdout=subprocess.PIPE) as driver:
                keeper.driver = driver
                said = driver.stdout.read()
        finally:
            keeper.end()
        if keeper.failed is not None:
            log.seek(0)
            sys.exit(f"kill: keel-blk ended by itself with {keeper.failed}; it said:\n{log.read()[-2000:]}")
        if driver.returncode:
            sys.exit("kill: the driver found a fault")
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--depth", type=int, default=32)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        result = json.loads(run(folder, args))
    waits = result["waits_ms"]
    figure = figures.write("native_kill_io_stall_ms", "ms", "lower", waits, max=max(waits), depth=args.depth,
                           requests=result["done"], verified=result["verified"])
    print(figures.tell({**figure, "runs": []}) + f", worst {max(waits)}, of {len(waits)}; "
          f"{result['done']} requests, {result['verified']} read back right")


if __name__ == "__main__":
    main()
