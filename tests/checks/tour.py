#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks that docs/tour.md links every part in docs/tour.d, and these name every source file."""
import os
import re

from common import TOP, finish, list_files, read, report

LINE = re.compile(r"^- `([^`]+)`:? (.+)$")
NEEDS_LINE = (".c", ".h", ".S", ".py", ".ld", ".pml", "Kbuild")
# Unit tests and fuzz targets mirror the tree, so each is found by the name of what it tests.
LEFT_OUT = ("docs/", "tests/unit/", "tests/fuzz/")


def part_of(path):
    """The part of the tour that lists a file: docs/tour.d/<its folder with dashes>.md."""
    return "docs/tour.d/" + (os.path.dirname(path).replace("/", "-") or "top") + ".md"


def main():
    named = {}
    parts = [p for p in list_files(".md") if p.startswith("docs/tour.d/")]
    for part in parts:
        if os.path.relpath(part, "docs") not in read("docs/tour.md"):
            report("docs/tour.md", 1, f"does not link {part}")
        for number, line in enumerate(read(part).splitlines(), 1):
            match = LINE.match(line)
            if match:
                named[match.group(1)] = (part, number)
            elif line.startswith("- "):
                report(part, number, "a line of the tour reads: - `path/of/file`: what it is for")
    wanted = [p for p in list_files(*NEEDS_LINE) if not p.startswith(LEFT_OUT)]
    for path in wanted:
        if path not in named:
            report(path, 1, f"is not in the tour: add a line \"- `{path}`: what it is for\" to "
                   f"{part_of(path)}")
    for path, (part, number) in named.items():
        if not os.path.exists(os.path.join(TOP, path)):
            report(part, number, f"names {path}, which is not there")
    finish(f"{len(wanted)} files in {len(parts)} parts")


main()
