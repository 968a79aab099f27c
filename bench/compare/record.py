# SPDX-License-Identifier: BSD-2-Clause
"""The raw data of the comparison: a JSON file a run and row, complete or not there, and what is looked up in them.

    format       FORMAT
    row, side    rows.py's name; "keel" or "kvm"
    repetition   1, 2, 3; 0 is the run in which KVM's tracepoints count too, whose time is not used
    size         "full", "count" or "short"
    value        in `unit`; `better` says which direction
    how          where the time comes from: "emulated" or "metal"
    command      what ran in guest a
    work         amount and unit of what the run did, by which its counts are divided
    counts       exits, kinds, interrupts, ipis, halts, kicks, user_exits (answered by QEMU or keelvm),
                 switches (the host's or root's context switches): what was added during the run; a count that a
                 side cannot give is not there
    started, seconds, load (CPUs that others used on the machine that emulates, and root's own load)
    session      one boot of the server and start of its guests
    setup        versions, the guests' command lines, the machine
    output       the program's own words
"""
import json
import os
import statistics

FORMAT = 1
SIDES = ("keel", "kvm")
OUTPUT_MAX = 20000


def path_of(folder, row, side, repetition):
    return os.path.join(folder, f"{row}.{side}.{repetition}.json")


def write(folder, record):
    os.makedirs(folder, exist_ok=True)
    path = path_of(folder, record["row"], record["side"], record["repetition"])
    with open(path + ".new", "w", encoding="utf-8") as out:
        json.dump(record, out, indent=1, ensure_ascii=False, sort_keys=True)
        out.write("\n")
    os.replace(path + ".new", path)
    return path


def read_all(folder):
    """All complete records, by row, side and repetition."""
    records = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".json") and name.count(".") == 3:
            with open(os.path.join(folder, name), encoding="utf-8") as text:
                records.append(json.load(text))
    return records


def is_done(folder, rows, side, repetition):
    return all(os.path.exists(path_of(folder, row, side, repetition)) for row in rows)


def added(before, after):
    """What was added from one picture of the counters to the next; nested ones too."""
    out = {}
    for key, value in after.items():
        if isinstance(value, dict):
            out[key] = {k: n for k, n in added(before.get(key, {}), value).items() if n}
        else:
            out[key] = value - before.get(key, 0)
    return out


def values_of(records, row, side):
    """The timed values of a row on a side, by repetition."""
    chosen = [r for r in records if r["row"] == row and r["side"] == side and r["repetition"] > 0]
    return [r["value"] for r in sorted(chosen, key=lambda r: r["repetition"])]


def median_of(records, row, side):
    """None where nothing was measured."""
    values = values_of(records, row, side)
    return statistics.median(values) if values else None


def per_work(records, row, side):
    """Counts by unit of work: the median over the timed runs; what only the counted run has, from that one."""
    chosen = [r for r in records if r["row"] == row and r["side"] == side and r["work"]["amount"] > 0]
    timed = [r for r in chosen if r["repetition"] > 0]
    out = {}
    for group in (timed, [r for r in chosen if r["repetition"] == 0]):
        for key in sorted({k for r in group for k in r["counts"]} - set(out)):
            values = [r["counts"][key] for r in group if key in r["counts"]]
            amounts = [r["work"]["amount"] for r in group if key in r["counts"]]
            if isinstance(values[0], dict):
                names = sorted({n for v in values for n in v})
                out[key] = {n: statistics.median(v.get(n, 0) / a for v, a in zip(values, amounts)) for n in names}
            else:
                out[key] = statistics.median(v / a for v, a in zip(values, amounts))
    return out
