#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Frames between two VMs through virtqueues and the network engine, natively: in order, whole, none twice."""
import json
import os
import subprocess

from harness import Wrong, run_alone, same
from lab.paths import TOP

FIGURES = os.path.join(TOP, "build/figures/net-short.json")


def test_streams():
    """Each byte of each frame, in every row of the native measurement."""
    subprocess.run([os.path.join(TOP, "bench/net.py"), "--pairs=1", "--seconds=0.5", "--verify", "--name=net-short"],
                   check=True, timeout=120, stdout=subprocess.DEVNULL)
    with open(FIGURES, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    os.unlink(FIGURES)
    same(len(rows), 4, "rows")
    for row in rows:
        same(row["lost_keel"], 0, f"{row['name']}: frames lost")
        if not row["verified"]:
            raise Wrong(f"{row['name']}: no frame was looked at")


def test_bad_options():
    """What is not understood is an exit code of its own, and nothing is started."""
    program = os.path.join(TOP, "build/bin/bench-net")
    for words, code in ([[], 2], [["--tap=a"], 2], [["--tap=a", "--tap=b", "--bytes=31"], 2], [["--help"], 0],
                        [["--tap=keelnone0", "--tap=keelnone1"], 1]):
        same(subprocess.run([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode, code,
             " ".join(words))


run_alone([test_streams, test_bad_options])
