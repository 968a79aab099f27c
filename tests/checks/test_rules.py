#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes make's rules for unit tests and fuzz targets from the `sources:` line that each carries."""
import os
import re
import sys

LINE = re.compile(r"/\*\s*(sources|libs):\s*(.*?)\s*\*/")


def read_needs(path):
    """The words after `sources:` and `libs:` in the head of a test, as two lists."""
    needs = {"sources": [], "libs": []}
    with open(path, encoding="utf-8") as text:
        head = "".join(text.readlines()[:40])
    for kind, words in LINE.findall(head):
        needs[kind] += words.split()
    return needs["sources"], needs["libs"]


def main():
    build = sys.argv[1]
    for path in sys.argv[2:]:
        sources, libs = read_needs(path)
        for source in sources:
            if not os.path.exists(source):
                print(f"{path}: 'sources:' names {source}, which is not there", file=sys.stderr)
        kind, objects = ("fuzz", "fuzzobj") if path.startswith("tests/fuzz/") else ("unit", "san")
        target = f"{build}/{kind}/{path.split('/', 2)[2][:-2]}"
        print(f"{target}: " + " ".join(f"{build}/{objects}/{s}.o" for s in [path] + sources))
        if libs:
            print(f"{target}: LIBS = {' '.join(libs)}")


main()
