#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""keelOS beside KVM, shortened: both sides boot, every row gives a value and counts, the page comes out of them.

On-metal is what measures, with the lab's server in the place of a server of metal; so it is tested here too.
"""
import json
import os
import subprocess
import sys
import tempfile

from harness import Wrong, has, run_alone, same
from lab.paths import TOP

sys.path.insert(0, os.path.join(TOP, "bench/compare"))
import data  # noqa: E402
import record  # noqa: E402
import rows  # noqa: E402

RUN = os.path.join(TOP, "bench/compare/run")
# Compiling takes too long for a test in an emulator; what it would show of the way the others show.
LEFT_OUT = "redis-build"
FOLDER = tempfile.mkdtemp(prefix="keel-compare-")
RUNS = os.path.join(FOLDER, "runs")
COUNTS = {"keel": {"exits", "kinds", "interrupts", "ipis", "halts", "kicks", "user_exits", "switches"},
          "kvm": {"exits", "interrupts", "halts", "user_exits", "switches"}}
WANTED = [row.name for row in rows.ROWS if row.name != LEFT_OUT]


def run(*words):
    done = subprocess.run([RUN, "--out", RUNS, "--short", "--leave-out", LEFT_OUT, *words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    output = done.stdout.decode(errors="replace")
    print(output, end="", flush=True)
    return done.returncode, output


def test_runs():
    """Both sides, all rows. Called again it finds all done, and boots nothing."""
    same(run()[0], 0, "the runs")
    kept = {name: os.stat(os.path.join(RUNS, name)).st_mtime_ns for name in os.listdir(RUNS)}
    code, output = run()
    same((code, output), (0, ""), "the same once more")
    same({name: os.stat(os.path.join(RUNS, name)).st_mtime_ns for name in os.listdir(RUNS)}, kept, "runs made again")


def test_records():
    """Every row has a value on both sides; counts, versions, load and command beside it."""
    runs = record.read_all(RUNS)
    same(sorted((r["row"], r["side"]) for r in runs), sorted((row, side) for row in WANTED for side in record.SIDES), "runs")
    for entry in runs:
        what = f"{entry['row']} of {entry['side']}"
        if not entry["value"] > 0 or not entry["work"]["amount"] > 0 or not entry["seconds"] > 0:
            raise Wrong(f"{what}: nothing measured: {entry}")
        missing = COUNTS[entry["side"]] - set(entry["counts"])
        same(missing, set(), f"{what}: counts that are missing")
        if entry["counts"]["exits"] <= 0:
            raise Wrong(f"{what}: no exits: {entry['counts']}")
        same((entry["size"], entry["how"]), ("short", "emulated"), what)
        has(entry["started"], r"^\d{4}-\d\d-\d\dT", f"{what}: its start")
        has(" ".join(entry["setup"]["guest"]), "Debian GNU/Linux 13", f"{what}: the guest")
        if "others_cpus" not in entry["load"] or not entry["setup"]["commands"]["a"] or not entry["setup"]["versions"]:
            raise Wrong(f"{what}: load, command or versions are missing: {entry['load']}, {entry['setup']}")


def test_page():
    """The page of them says that they are shortened, and has every row."""
    site = os.path.join(FOLDER, "site")
    subprocess.run([os.path.join(TOP, "bench/compare/page"), "--runs", RUNS, "--version", "short", "--date", "2026-01-01",
                    "--history", os.path.join(FOLDER, "history"), "--out", site], check=True)
    with open(os.path.join(site, "index.html"), encoding="utf-8") as text:
        html = text.read()
    has(html, "These are shortened runs", "the warning")
    for row in WANTED:
        has(html, f'data-row="{row}"', "the table")
    with open(os.path.join(site, "data/2026-01-01-short.json"), encoding="utf-8") as text:
        results = [r for r in data.results_of(json.load(text)) if r.measured]
    same([r.row.name for r in results], WANTED, "rows in its data")


run_alone([test_runs, test_records, test_page])
