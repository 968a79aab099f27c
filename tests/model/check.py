#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks one spin model and its wrong variants: tests/model/check.py MODEL.pml

The model as it stands must have no error within its bound. Each line ` * -DNAME: …` of its comments names
a wrong variant, which spin must reject: so the check is known to be able to fail.
"""
import os
import re
import subprocess
import sys
import tempfile

DEPTH = 1000000
STATES = re.compile(r"(\d+) states, stored")


def search(model, variant):
    """Spin's exhaustive search. Returns the number of errors and its report."""
    with tempfile.TemporaryDirectory() as folder:
        def run(*command):
            return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  check=False).stdout.decode()
        out = run("spin", "-a", *([f"-D{variant}"] if variant else []), model)
        if "rror" in out:
            sys.exit(f"{model}: spin: {out}")
        out = run("gcc", "-O2", "-w", "-DSAFETY", "-o", "pan", "pan.c")
        if not os.path.exists(os.path.join(folder, "pan")):
            sys.exit(f"{model}: gcc: {out}")
        report = run("./pan", f"-m{DEPTH}")
    found = re.search(r"errors: (\d+)", report)
    if not found or "max search depth too small" in report or "out of memory" in report:
        sys.exit(f"{model}: the search did not end: {report}")
    return int(found.group(1)), report


def main():
    model = os.path.abspath(sys.argv[1])
    with open(model, encoding="utf-8") as text:
        variants = re.findall(r"^ \* -D(\w+):", text.read(), re.M)
    failed = 0
    for variant in [None] + variants:
        errors, report = search(model, variant)
        good = (errors == 0) == (variant is None)
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {variant or 'as it stands'}: {errors} errors, "
              f"{STATES.search(report).group(1)} states")
        if not good:
            print(report)
    if not variants:
        print(f"FAIL {model} names no wrong variant")
        failed += 1
    print(f"cases: {1 + len(variants) - min(failed, 1 + len(variants))} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
