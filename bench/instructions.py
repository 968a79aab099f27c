#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Instructions of a disk queue for a request, counted by callgrind: a figure that noise does not shake.

Usage: bench/instructions.py [--gate]    (--gate: exit 1 if a figure is over its mark)

Counted is what a queue's thread executes itself, from the driver's requests to the call to the driver.
The marks are a little above what the engine needed when they were set; who gets below lowers them. They rose by
25 and 30 when kicks were put off for good and storage was started before a burst is all prepared.
"""
import json
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIP = 77
LIMIT_S = 300
# Name, arguments of tests/instructions/blk.c, requests in all, and the most instructions for one.
CASES = [
    ("4K read QD1", ["read", "1", "2000"], 2000, 1440),
    ("4K read QD32", ["read", "32", "100"], 3200, 1020),
]


def count(arguments):
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--callgrind-out-file=/dev/null",
         f"{TOP}/build/instructions/blk"] + arguments, timeout=LIMIT_S, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return int(re.search(r"Collected : (\d+)", done.stdout.decode()).group(1))


def main():
    try:
        subprocess.run(["valgrind", "--version"], check=True, stdout=subprocess.DEVNULL)
    except OSError:
        print("valgrind is not installed")
        sys.exit(SKIP)
    figures, over = [], 0
    for name, arguments, requests, most in CASES:
        n = count(arguments) / requests
        over += n > most
        figures.append({"name": name, "instructions": round(n, 1), "at_most": most})
        print(f"{name}: {n:.0f} instructions a request, at most {most}"
              + ("   <- too many" if n > most else ""))
    os.makedirs(f"{TOP}/build/figures", exist_ok=True)
    with open(f"{TOP}/build/figures/disk-instructions.json", "w", encoding="utf-8") as out:
        json.dump(figures, out, indent=1)
    print(f"cases: {len(CASES) - over} passed, {over} failed")
    sys.exit(1 if over and "--gate" in sys.argv else 0)


main()
