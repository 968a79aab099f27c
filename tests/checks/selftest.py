#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Shows each checker trees with one fault each: a checker that finds nothing in them is broken."""
import os
import shutil
import subprocess
import sys
import tempfile

import size

CHECKS = os.path.dirname(os.path.abspath(__file__))
HEAD = "/* SPDX-License-Identifier: BSD-2-Clause */\n/* A file for the checkers' own test. */\n"
LONG = "void f(void)\n{\n" + "\tf();\n" * 71 + "}\n"
TOUR = {"docs/tour.md": "[lib](tour.d/lib.md)\n", "docs/tour.d/lib.md": "- `lib/a.c`: a file\n"}

# Checker, what is wrong, files of the tree, words that the finding must have (None: no finding).
CASES = [
    ("layers", "nothing", {"lib/a.c": HEAD + "#include <stdint.h>\n"}, None),
    ("layers", "an arrow the wrong way", {"hyp/dev/a.c": HEAD + '#include "hyp/core/b.h"\n',
                                          "hyp/core/b.h": HEAD}, "may not include"),
    ("layers", "one vendor in the other", {"hyp/svm/a.c": HEAD + '#include "hyp/vmx/b.h"\n',
                                           "hyp/vmx/b.h": HEAD}, "may not include"),
    ("layers", "libc in lib/", {"lib/a.c": HEAD + "#include <stdio.h>\n"}, "<stdio.h>"),
    ("layers", "a relative include", {"lib/a.c": HEAD + '#include "b.h"\n', "lib/b.h": HEAD},
     "no path from the top"),
    ("layers", "a folder without rule", {"other/a.c": HEAD}, "not in tests/checks/layers.txt"),
    ("lengths", "nothing", {"lib/a.c": HEAD + LONG.replace("\tf();\n", "", 1)}, None),
    ("lengths", "a long function", {"lib/a.c": HEAD + LONG}, "function of 71 lines"),
    ("lengths", "an excused one", {"lib/a.c": HEAD + "/* long: a table */\n" + LONG}, None),
    ("lengths", "a long file", {"lib/a.c": HEAD + "\n" * 799}, "file of 801 lines"),
    ("heads", "nothing", {"lib/a.c": HEAD}, None),
    ("heads", "no licence", {"lib/a.c": "/* A file. */\n"}, "the first line must be"),
    ("heads", "no purpose", {"lib/a.c": HEAD.splitlines()[0] + "\nint a;\n"}, "why the file exists"),
    ("heads", "the module's licence", {"kmod/a.c": HEAD}, "GPL-2.0-only OR BSD-2-Clause"),
    ("heads", "no pragma", {"lib/a.h": HEAD}, "#pragma once"),
    ("tour", "nothing", {"lib/a.c": HEAD, **TOUR}, None),
    ("tour", "a file not named", {"lib/b.c": HEAD, "lib/a.c": HEAD, **TOUR}, "is not in the tour"),
    ("tour", "a name without file", TOUR, "which is not there"),
    ("tour", "a part not linked", {"docs/tour.md": "\n", "docs/tour.d/lib.md": "\n"},
     "does not link"),
]


def run_case(checker, files):
    """The checker's exit code and words over a tree of these files."""
    with tempfile.TemporaryDirectory(prefix="keel-checks-") as tree:
        checks = os.path.join(tree, "tests/checks")
        os.makedirs(checks)
        for name in ("common.py", f"{checker}.py", "layers.txt"):
            shutil.copy(os.path.join(CHECKS, name), checks)
        subprocess.run(["git", "init", "-q", tree], check=True)
        with open(os.path.join(tree, ".git/info/exclude"), "w", encoding="utf-8") as out:
            out.write("/tests/\n")
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
            with open(os.path.join(tree, name), "w", encoding="utf-8") as out:
                out.write(text)
        done = subprocess.run([sys.executable, os.path.join(checks, f"{checker}.py")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode()

# Source text, and how many lines of code size.py has to see in it.
COUNTS = [
    ("", 0), ("int a;\n\n\t\nint b;\n", 2), ("/* one\n * two */\nint a; /* end\n*/ int b;\n", 2),
    ("// no\nint a; // yes\n", 1), ("char *a = \"/*\";\nint b;\nchar *c = \"*/\";\n", 3),
    ("char q = '\"'; /* \" */\n/* ' */\nint b;\n", 2), ("int a /**/ ;\n/**/\n", 1),
]


def main():
    wrong = 0
    for text, lines in COUNTS:
        if size.count_code(text) != lines:
            wrong += 1
            print(f"size.py counts {size.count_code(text)} lines of code, not {lines}, in:\n{text}")
    for checker, fault, files, words in CASES:
        code, output = run_case(checker, files)
        if (code == 0) != (words is None) or words is not None and words not in output:
            wrong += 1
            print(f"{checker}.py with {fault}: exit {code}, said:\n{output}")
    print(f"{len(CASES)} trees and {len(COUNTS)} texts, {wrong} judged wrongly")
    sys.exit(1 if wrong else 0)


main()
