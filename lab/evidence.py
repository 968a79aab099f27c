# SPDX-License-Identifier: BSD-2-Clause
"""What tells the emulator's faults from ours: lines in which hyp says what the CPU did against the manual."""
import glob
import os

from lab.paths import LOGS


def emulator_faults(since):
    """Those lines in the servers' logs written since then (seconds since 1970)."""
    lines = []
    for path in sorted(glob.glob(os.path.join(LOGS, "*/hyp*.log"))):
        if os.path.getmtime(path) >= since:
            with open(path, encoding="utf-8", errors="replace") as text:
                lines += [f"{os.path.relpath(path)}: {line.strip()}" for line in text
                          if "the emulator's fault" in line]
    return lines
