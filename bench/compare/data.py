# SPDX-License-Identifier: BSD-2-Clause
"""A version's results as one file of the history: made of the runs, read by the page.

    version, date, runs (record.py; what many of them share is in `setups`), setups, failures {side: count},
    native, native_net (build/figures/disk.json of bench/disk.py, net.json of bench/net.py, if there)
"""
import json
import os
import statistics

import record
import rows

OUTPUT_MAX = 2500  # of a run's words that the history keeps
NOISE = 0.20  # FACTS of the lab: what a quiet machine's runs differ by


def collect(folder, version, date, failures=None, native=None, native_net=None):
    """Runs of a folder put together."""
    runs, setups = [], {}
    for entry in record.read_all(folder):
        key = f"{entry['side']}-{entry['session']}"
        setups[key] = entry.pop("setup")
        entry["session"] = key
        entry["output"] = entry["output"][-OUTPUT_MAX:]
        runs.append(entry)
    return {"version": version, "date": date, "runs": runs, "setups": setups, "failures": failures or {},
            "native": native, "native_net": native_net}


def count_failures(folder):
    """Boots that were ended and made again, by side."""
    counts = {side: 0 for side in record.SIDES}
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        side = name.rsplit("-", 1)[-1].removesuffix(".json")
        if side in counts:
            counts[side] += 1
    return counts


def read_json(path):
    with open(path, encoding="utf-8") as text:
        return json.load(text)


class Result:
    """One row: both sides' values and what follows from them."""

    def __init__(self, version, row):
        runs = version["runs"]
        self.row = row
        self.values = {side: record.values_of(runs, row.name, side) for side in record.SIDES}
        self.counts = {side: record.per_work(runs, row.name, side) for side in record.SIDES}
        self.how = next((r["how"] for r in runs if r["row"] == row.name), "")
        self.work = next((r["work"]["unit"] for r in runs if r["row"] == row.name), "")

    @property
    def measured(self):
        return all(self.values[side] for side in record.SIDES)

    def median(self, side):
        return statistics.median(self.values[side])

    @property
    def ratio(self):
        """keelOS against KVM so that above 1 is better."""
        keel, kvm = self.median("keel"), self.median("kvm")
        if min(keel, kvm) <= 0:
            return 0.0
        return keel / kvm if self.row.better == "higher" else kvm / keel

    @property
    def behind(self):
        return self.ratio < 1

    @property
    def in_noise(self):
        a, b = self.values["keel"], self.values["kvm"]
        overlap = min(a) <= max(b) and min(b) <= max(a)
        return overlap or abs(self.ratio - 1) < NOISE


def results_of(version):
    return [Result(version, row) for row in rows.ROWS]


def read_history(folder):
    """All versions, newest first; with the name of each one's file."""
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".json"):
            version = read_json(os.path.join(folder, name))
            version["file"] = name
            found.append(version)
    return sorted(found, key=lambda v: v["date"], reverse=True)
