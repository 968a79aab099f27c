# SPDX-License-Identifier: BSD-2-Clause
"""What the checkers share: the list of this repository's files, and how a finding is told."""
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
findings = []


def list_files(*suffixes):
    """Files that git knows or would add, relative to the top; only those with these suffixes."""
    out = subprocess.run(
        ["git", "-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, stdout=subprocess.PIPE).stdout.decode()
    names = sorted({n for n in out.split("\0") if n})
    names = [n for n in names if os.path.isfile(os.path.join(TOP, n))]
    return [n for n in names if not suffixes or n.endswith(suffixes)]


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8", errors="replace") as text:
        return text.read()


def report(path, line, text):
    findings.append(f"{path}:{line}: {text}")


def finish(what):
    """Ends the checker: findings on standard output and 1, or a word of what was looked at and 0."""
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} finding(s)")
        sys.exit(1)
    print(what)
    sys.exit(0)
