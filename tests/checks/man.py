#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the manual: groff has nothing to say against it, and it names each verb, option and key."""
import re
import shutil
import subprocess

from common import TOP, finish, list_files, read, report


def lint(path):
    out = subprocess.run(["groff", "-mdoc", "-Tutf8", "-ww", "-z", path], cwd=TOP,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
    for line in out.splitlines():
        match = re.match(r"\S*?:\S*?:(\d+): (.*)", line)
        report(path, match.group(1) if match else 1, match.group(2) if match else line)


def check_named(path, words, what, pattern):
    text = read(path)
    for word in sorted(words):
        if not re.search(pattern.format(re.escape(word)), text, re.M):
            report(path, 1, f"does not tell of {what} '{word}'")


def find_all(regex, files):
    return {m for f in files for m in re.findall(regex, read(f))}


def main():
    pages = list_files(*[f".{n}" for n in range(1, 9)])
    pages = [p for p in pages if p.startswith("docs/man/")]
    if not shutil.which("groff"):
        report("docs/man", 1, "cannot be read: there is no groff (scripts/setup installs groff-base)")
    for page in pages if shutil.which("groff") else []:
        lint(page)
    verbs = [f for f in list_files(".c") if f.startswith("cli/")]
    names = set()
    for file in verbs:
        for group, name in re.findall(r'(?:\.group = "(\w+)",\s*)?\.name = "(\w+)",\s*\.words',
                                      read(file)):
            names.add(f"{group} {name}".strip())
    options = find_all(r'"--([a-z][a-z-]+)"', [f for f in verbs if f != "cli/options.c"]) - {"help"}
    keys = find_all(r'^\s*\{"(\w+)", key_\w+,', ["config/vmfile.c"]) | \
        set(re.findall(r'\{"(\w+)", key_', read("config/vmfile.c")))
    if len(names) < 10 or len(options) < 8 or len(keys) < 15:
        report("tests/checks/man.py", 1, f"finds too few verbs, options or keys: {names} {options} {keys}")
    check_named("docs/man/keel.1", names, "the verb", r"^\.It Cm {}\b")
    check_named("docs/man/keel.1", options, "the option", r"Fl -{}\b")
    check_named("docs/man/keel.conf.5", keys, "the key", r"^\.It Cm {}$")
    words = find_all(r'\{"(\w+)", do_\w+\}', ["keeld/requests.c"])
    check_named("docs/man/keeld.8", words, "the request", r'"cmd":"{}"')
    finish(f"{len(pages)} pages: {len(names)} verbs, {len(options)} options, {len(keys)} keys")


main()
