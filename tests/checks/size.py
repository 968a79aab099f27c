#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Holds hyp's image and source lines against the budget of DESIGN.md §3, and writes the figures."""
import json
import os
import re
import sys

from common import TOP, finish, list_files, read, report

IMAGE_MAX = 512 * 1024
LINES_MAX = 10000
VENDOR_LINES_MAX = 1500


def count_lines(paths):
    return sum(len(read(p).splitlines()) for p in paths)


def find_linked_lib():
    """The lib/ sources that the linker took out of the archive, by hyp's link map."""
    with open(os.path.join(TOP, "build/hyp.elf.map"), encoding="utf-8") as text:
        taken = set(re.findall(r"lib\.a\((\w+\.c)\.o\)", text.read()))
    return ["lib/" + name for name in sorted(taken)]


def measure_image():
    """Bytes of hyp's PT_LOAD segments: in the image, and in memory with what starts as zeroes."""
    with open(os.path.join(TOP, "build/hyp.elf"), "rb") as elf:
        data = elf.read()
    offset = int.from_bytes(data[32:40], "little")
    size, count = (int.from_bytes(data[i:i + 2], "little") for i in (54, 56))
    image = memory = 0
    for i in range(count):
        header = data[offset + i * size:offset + (i + 1) * size]
        if int.from_bytes(header[0:4], "little") == 1:
            image += int.from_bytes(header[32:40], "little")
            memory += int.from_bytes(header[40:48], "little")
    return image, memory


def main():
    sources = [p for p in list_files(".c", ".h", ".S") if p.startswith("hyp/")]
    lib = find_linked_lib()
    image, memory = measure_image()
    figures = {
        "image_bytes": image, "image_bytes_max": IMAGE_MAX, "memory_bytes": memory,
        "lines": count_lines(sources + lib), "lines_max": LINES_MAX,
        "lines_lib": count_lines(lib), "lines_by_folder": {},
    }
    for folder in sorted({os.path.dirname(p) for p in sources}):
        figures["lines_by_folder"][folder] = count_lines(
            p for p in sources if os.path.dirname(p) == folder)
    for vendor in ("hyp/svm", "hyp/vmx"):
        lines = figures["lines_by_folder"].get(vendor, 0)
        if lines > VENDOR_LINES_MAX:
            report(vendor, 1, f"{lines} lines, at most {VENDOR_LINES_MAX}")
    if figures["image_bytes"] > IMAGE_MAX:
        report("build/hyp.elf", 1, f"{figures['image_bytes']} bytes, at most {IMAGE_MAX}")
    if figures["lines"] > LINES_MAX:
        report("hyp", 1, f"{figures['lines']} lines, at most {LINES_MAX}")
    if "--write" in sys.argv:
        path = sys.argv[sys.argv.index("--write") + 1]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            json.dump(figures, out, indent=1)
    finish(f"hyp: {figures['image_bytes']} bytes of {IMAGE_MAX}, {figures['lines']} lines of "
           f"{LINES_MAX} ({figures['lines_lib']} of them in lib/)")


main()
