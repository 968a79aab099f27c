#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the head of every source file: its licence line, then one sentence of what it is for."""
import re

from common import finish, list_files, read, report

LICENCE = {"kmod/": "GPL-2.0-only OR BSD-2-Clause"}
SOURCES = (".c", ".h", ".S", ".py", ".ld", ".pml", ".sh", "Makefile", "Kbuild")


def find_licence(path):
    return next((LICENCE[f] for f in LICENCE if path.startswith(f)), "BSD-2-Clause")


def is_source(path):
    return path.endswith(SOURCES) or read(path)[:2] == "#!"


def main():
    paths = [p for p in list_files() if is_source(p)]
    for path in paths:
        lines = [l for l in read(path).splitlines()[:12] if not l.startswith("#!")]
        want = f"SPDX-License-Identifier: {find_licence(path)}"
        first = re.sub(r"^(/\*|//|#)\s*|\s*\*/$", "", lines[0]) if lines else ""
        if first != want:
            report(path, 1, f"the first line must be '{want}'")
        elif len(lines) < 2 or not re.match(r'\s*(/\*|//|#|"""|\')\s*\S+ \S+', lines[1]):
            report(path, 2, "a comment sentence must say why the file exists")
        if path.endswith(".h") and "#pragma once" not in read(path):
            report(path, 1, "no #pragma once")
    finish(f"{len(paths)} files")


main()
