# SPDX-License-Identifier: BSD-2-Clause
"""What `make run` shows: keelOS boots on an emulated server, each stage with its time, then figures."""
import json
import os
import sys
import time

from lab import images
from lab.machine import Hardware, Machine
from lab.paths import FIGURES


class Stages:
    """Prints each stage with the seconds since the start and what it took itself."""

    def __init__(self, start):
        self.start = start
        self.last = time.monotonic()
        self.figures = {}

    def say(self, text):
        print(f"[{time.monotonic() - self.start:6.1f} s]   {text}", flush=True)

    def done(self, name, text):
        now = time.monotonic()
        print(f"[{now - self.start:6.1f} s] {text} ({now - self.last:.1f} s)", flush=True)
        self.figures[f"{name}_s"] = round(now - self.last, 2)
        self.last = now

    def finish(self):
        self.figures["total_s"] = round(time.monotonic() - self.start, 1)
        os.makedirs(FIGURES, exist_ok=True)
        with open(os.path.join(FIGURES, "run.json"), "w", encoding="utf-8") as out:
            json.dump(self.figures, out, indent=1)


def run(start):
    stages = Stages(start)
    boot, disks = images.make_boot(below="keel", root="debian", data=True, tell=stages.say)
    stages.done("images", "images are there")
    with Machine("run", boot, "keel", Hardware(disks=disks), limit_s=170) as machine:
        machine.hyp.expect(r"\S", 30)
        stages.done("power_on", "hyp's first line")
        machine.console.expect(r"Linux version (\S+)", 60)
        stages.done("root_kernel", "root's kernel")
        machine.wait_ready()
        stages.done("root_userland", "root's userland answers")
        stages.say(machine.check("uname -srv").strip())
        machine.power_off()
        stages.done("power_off", "root has shut down, the server is off")
    stages.finish()
    print(f"logs: {machine.logs}", file=sys.stderr)
    return 0
