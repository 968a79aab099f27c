#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks every #include against layers.txt, and that quoted includes give a path from the top."""
import os
import re

from common import TOP, finish, list_files, read, report

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.M)
# What C17 §4 gives a freestanding program.
FREESTANDING = {"stdint.h", "stddef.h", "stdbool.h", "stdarg.h", "limits.h", "stdalign.h",
                "stdnoreturn.h", "float.h", "iso646.h"}
GENERATED = re.compile(r"(^|/)offsets\.h$")


def read_rules():
    rules = {}
    for line in read("tests/checks/layers.txt").splitlines():
        if line and not line.startswith("#"):
            folder, allowed = line.split(":")
            rules[folder.strip()] = allowed.split()
    return rules


def is_under(path, folder):
    return path == folder or path.startswith(folder + "/")


def find_folder(rules, path):
    fits = [f for f in rules if is_under(path, f)]
    return max(fits, key=len) if fits else None


def check_system(path, line, folder, allowed, name):
    kind = "<freestanding>" if name in FREESTANDING else "<any>"
    # lib/ is for both sides: only its *_host.c may use more than a freestanding program has.
    if kind in allowed or "<any>" in allowed or f"<{name}>" in allowed \
            or folder == "lib" and "_host." in path:
        return
    report(path, line, f"{folder}/ may not include <{name}>")


def check_own(path, line, folder, allowed, name):
    if not (os.path.exists(os.path.join(TOP, name)) or GENERATED.search(name)):
        report(path, line, f'"{name}" is no path from the top of the tree')
    elif "*" not in allowed and find_folder({folder: 1}, name) is None \
            and not any(is_under(name, a) for a in allowed):
        report(path, line, f'{folder}/ may not include "{name}" (tests/checks/layers.txt)')


def main():
    rules = read_rules()
    count = 0
    for path in list_files(".c", ".h", ".S"):
        folder = find_folder(rules, path)
        if folder is None:
            report(path, 1, "its folder is not in tests/checks/layers.txt")
            continue
        text = read(path)
        for match in INCLUDE.finditer(text):
            count += 1
            line = text.count("\n", 0, match.start()) + 1
            kind, name = match.groups()
            check = check_own if kind == '"' else check_system
            check(path, line, folder, rules[folder], name)
    finish(f"{count} includes")


main()
