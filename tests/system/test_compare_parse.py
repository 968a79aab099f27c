#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the comparison reads: the programs' words, KVM's histograms and codes, what runs add up to. Needs no server."""
import os
import sys

from harness import Wrong, run_alone, same
from lab.paths import TOP

sys.path.insert(0, os.path.join(TOP, "bench/compare"))
import data  # noqa: E402
import record  # noqa: E402
import rows  # noqa: E402
import side_kvm  # noqa: E402

SAYS = {
    "7zip": ("18:        805   133    540    717  |      22294   187    967   1803\nTot:             160    753   1260\n"
             "real-s 10.5\n", {"7zip": 1260.0}, 13.23),
    "sysbench-cpu": ("    events per second:   590.76\n    total number of events:              602\n",
                     {"sysbench-cpu": 590.76}, 602),
    "sysbench-memory": ("4601.00 MiB transferred (4556.22 MiB/sec)\n", {"sysbench-memory": 4556.22}, 4601.0),
    "sched-pipe": ("# Executed 4000 pipe operations between two processes\n     Total time: 7.681 [sec]\n\n"
                   "    1920.295500 usecs/op\n", {"sched-pipe": 1920.2955}, 4000),
    "redis-build": ("real-s 61.25\n", {"redis-build": 61.25}, 1),
    "randwrite-qd32": ('fio: a note\n{"jobs": [{"read": {"total_ios": 0, "iops": 0, "bw_bytes": 0}, '
                       '"write": {"total_ios": 900, "iops": 450.5, "bw_bytes": 1}}]}\n', {"randwrite-qd32": 450.5}, 900),
    "seqread-qd8": ('{"jobs": [{"read": {"total_ios": 64, "iops": 64, "bw_bytes": 67108864}}]}', {"seqread-qd8": 64.0}, 64),
    "randread-qd1": ('{"jobs": [{"read": {"total_ios": 10, "iops": 5.5, "clat_ns": {"percentile": {"99.000000": 1500000}}}}]}',
                     {"randread-qd1": 5.5, "randread-qd1-p99": 1500.0}, 10),
    "vm-to": ('{"end": {"sum_received": {"bits_per_second": 2.5e9, "bytes": 3145728}}}', {"vm-to": 2.5}, 3.0),
}
HISTOGRAM = """# event histogram
#
{ exit_reason:        120, info1:          0 } hitcount:       2002
{ exit_reason:        124, info1:          1 } hitcount:        300
{ exit_reason:        124, info1:          0 } hitcount:         40
{ exit_reason:       1024, info1: 4294967309 } hitcount:          7
{ exit_reason:       1024, info1: 4294967300 } hitcount:          5

Totals:
    Hits: 2354
"""


def test_readers():
    for name, (says, values, work) in SAYS.items():
        got, amount = rows.JOB_BY_NAME[name].read(says)
        same((got, round(amount, 6)), (values, work), name)


def test_unreadable():
    """A program that says something else is an error, never a value."""
    for name, (says, _, _) in SAYS.items():
        for text in ("", says[:len(says) // 2], "error: no such device"):
            try:
                got = rows.JOB_BY_NAME[name].read(text)
            except (rows.Unreadable, KeyError):
                continue
            raise Wrong(f"{name} reads {got} from {text!r}")


def test_every_row_has_a_job():
    made = sorted(row for job in rows.JOBS for row in job.rows)
    same(made, sorted(row.name for row in rows.ROWS), "rows that jobs give")
    same(len(rows.ROWS), 17, "rows")
    for job in rows.JOBS:
        script = rows.script_of(job, "short", {"DISK": "/d", "BYTES": "1m", "VCPUS": 2, "OTHER": "o", "GUEST_B": "b"})
        if "@" in script:
            raise Wrong(f"{job.name} has a place that is not filled: {script}")


def test_histogram():
    kinds = {}
    for keys, hits in side_kvm.parse_histogram(HISTOGRAM):
        kind = side_kvm.kind_of(keys["exit_reason"], keys["info1"], False)
        kinds[kind] = kinds.get(kind, 0) + hits
    same(kinds, {"halt": 2002, "msr-write": 300, "msr-read": 40, "mmio": 7, "nested-page": 5}, "KVM's exits")
    same([side_kvm.kind_of(c, 0, True) for c in (12, 32, 48, 999)], ["halt", "msr-write", "nested-page", "vmx-999"], "Intel's")


def test_added():
    before = {"exits": 10, "kinds": {"halt": 4}, "gone": 1}
    after = {"exits": 30, "kinds": {"halt": 9, "pio": 2, "mmio": 0}}
    same(record.added(before, after), {"exits": 20, "kinds": {"halt": 5, "pio": 2}}, "what was added")


def entry(side, repetition, value, counts, amount=10):
    return {"row": "7zip", "side": side, "repetition": repetition, "value": value, "counts": counts, "how": "emulated",
            "work": {"amount": amount, "unit": "x"}}


def test_results():
    """Medians leave run 0 out; counts that only run 0 has are taken from it; noise is overlap or less than 20 %."""
    runs = [entry("kvm", 0, 1, {"exits": 900, "ipis": 30}), entry("kvm", 1, 100, {"exits": 50}),
            entry("kvm", 2, 120, {"exits": 70}, 7), entry("kvm", 3, 110, {"exits": 60}),
            entry("keel", 1, 150, {}), entry("keel", 2, 140, {}), entry("keel", 3, 400, {})]
    result = data.Result({"runs": runs}, rows.BY_NAME["7zip"])
    same((result.median("kvm"), result.median("keel")), (110, 150), "medians")
    same(result.counts["kvm"], {"exits": 6.0, "ipis": 3.0}, "KVM's counts by work")
    same((result.behind, result.in_noise), (False, False), "ahead, clearly")
    runs[-3]["value"] = 119
    same(data.Result({"runs": runs}, rows.BY_NAME["7zip"]).in_noise, True, "sides that overlap")


run_alone([test_readers, test_unreadable, test_every_row_has_a_job, test_histogram, test_added, test_results])
