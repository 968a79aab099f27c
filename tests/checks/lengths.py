#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks that functions have at most 70 lines and files at most 800 (STYLE.md, 1)."""
import re

from common import finish, list_files, read, report

FUNCTION_MAX = 70
FILE_MAX = 800
EXCUSE = re.compile(r"/\*\s*long:\s*\S+")


def check_c(path, lines):
    """A function body starts at a '{' in column 0 (clang-format sees to that), ends at a '}'."""
    count = 0
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            count += 1
            length = number - start - 1
            if length > FUNCTION_MAX and not is_excused(lines, start):
                report(path, start, f"function of {length} lines (at most {FUNCTION_MAX}; a table "
                       "or switch may pass with /* long: why */ directly above it)")
            start = None
    return count


def is_excused(lines, start):
    """Looks for the excuse in the comment and signature just above a body."""
    for line in reversed(lines[max(0, start - 12):start - 1]):
        if EXCUSE.search(line):
            return True
        if line.startswith("}") or not line.strip():
            return False
    return False


def check_python(path, lines):
    start = indent = None
    last = 0
    count = 0
    for number, line in enumerate(lines + ["end"], 1):
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        if start is not None and depth <= indent and not line.lstrip().startswith(")"):
            count += 1
            if last - start > FUNCTION_MAX:
                report(path, start, f"function of {last - start} lines (at most {FUNCTION_MAX})")
            start = None
        if start is None and re.match(r"\s*def ", line):
            start, indent = number, depth
        last = number
    return count


def main():
    count = 0
    for path in list_files(".c", ".h", ".S", ".py"):
        lines = read(path).splitlines()
        if len(lines) > FILE_MAX:
            report(path, FILE_MAX, f"file of {len(lines)} lines (at most {FILE_MAX})")
        if path.endswith((".c", ".h")):
            count += check_c(path, lines)
        elif path.endswith(".py"):
            count += check_python(path, lines)
    finish(f"{count} functions")


main()
