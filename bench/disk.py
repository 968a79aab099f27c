#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""keel-blk against qemu-storage-daemon, in turns, by the same front end; and fio as the limit.

Usage: bench/disk.py [--pairs N] [--seconds S] [--file PATH] [--only WORD] [--pin]

Targets: a file with direct I/O, one that costs nothing (null), and tmpfs, also by both sides' threads.
Each row is the median over pairs of the ratio of one turn each, so that what else the machine does falls on
both. Where a limit is given fio runs in the same round; who begins a round changes. keel-blk runs with its
default watch and with fixed buffers, which the storage daemon does not have. The aims are those of the design;
a missed one is said to be missed.
What other programs used meanwhile is part of the figures.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOP)
from lab import figures  # noqa: E402

KEEL = f"{TOP}/build/bin/keel-blk"
RING = f"{TOP}/build/bin/bench-ring"
FILE_BYTES = 1 << 30
READY_S = 10

# name, target, bench-ring's options, fio's (rw, depth, bytes) or None,
# {figure: (aim of the ratio to QEMU, …to fio)}.
ROWS = [
    ("file read QD32", "file", ["--depth=32"], ("randread", 32, 4096), {"iops": (1.10, 0.97)}),
    ("file write QD32", "file", ["--depth=32", "--read-percent=0"], ("randwrite", 32, 4096),
     {"iops": (1.10, 0.97)}),
    ("file read QD1", "file", ["--depth=1"], None, {"iops": (1.20, None), "p99": (1.0, None)}),
    ("file write QD1", "file", ["--depth=1", "--read-percent=0"], None,
     {"iops": (1.20, None), "p99": (1.0, None)}),
    # A guest whose CPU polls before it halts is back within the ring watch.
    ("file read QD1, polling guest", "file", ["--depth=1", "--poll"], None,
     {"iops": (1.20, None), "p99": (1.0, None)}),
    ("file 1M read QD8", "file", ["--depth=8", "--bytes=1048576", "--sequential"],
     ("read", 8, 1048576), {"iops": (1.00, 0.99)}),
    ("file 1M write QD8", "file", ["--depth=8", "--bytes=1048576", "--sequential", "--read-percent=0"],
     ("write", 8, 1048576), {"iops": (1.00, 0.99)}),
    ("file read QD32, 2 queues", "file", ["--depth=32", "--queues=2"], None, {"iops": (None, None)}),
    ("file read QD32, 4 queues", "file", ["--depth=32", "--queues=4"], None, {"iops": (None, None)}),
    ("null read QD1", "null", ["--depth=1"], None, {"per_cpu_s": (2.0, None)}),
    ("null read QD32", "null", ["--depth=32"], None, {"per_cpu_s": (2.0, None)}),
    ("null read QD32, 4 queues", "null", ["--depth=32", "--queues=4"], None, {"per_cpu_s": (2.0, None)}),
    ("tmpfs read QD32", "tmpfs", ["--depth=32"], None, {"iops": (None, None)}),
    ("tmpfs write QD32", "tmpfs", ["--depth=32", "--read-percent=0"], None, {"iops": (None, None)}),
    # Both sides by their threads.
    ("tmpfs read QD32, workers", "tmpfs-workers", ["--depth=32"], None,
     {"iops": (None, None), "per_cpu_s": (None, None)}),
    ("tmpfs write QD32, workers", "tmpfs-workers", ["--depth=32", "--read-percent=0"], None,
     {"iops": (None, None), "per_cpu_s": (None, None)}),
]


def wait_for_socket(path, process):
    end = time.monotonic() + READY_S
    while not os.path.exists(path):
        if process.poll() is not None or time.monotonic() > end:
            sys.exit(f"the device at {path} did not start")
        time.sleep(0.01)


def keel_command(target, path, sock):
    disk = {"null": f"null:{FILE_BYTES >> 20}"}.get(target, path)
    backend = "workers" if target == "tmpfs-workers" else "io_uring"
    return [KEEL, f"--blk-file={disk}", f"--socket-path={sock}", "--queues=4", "--fixed-buffers",
            f"--backend={backend}"]


def qemu_command(target, path, sock):
    """As its users tune it: io_uring, no page cache, an I/O thread."""
    block = {"null": f"driver=null-co,node-name=d,size={FILE_BYTES},read-zeroes=off",
             "file": f"driver=file,node-name=d,filename={path},aio=io_uring,cache.direct=on",
             "tmpfs": f"driver=file,node-name=d,filename={path},aio=io_uring",
             "tmpfs-workers": f"driver=file,node-name=d,filename={path},aio=threads"}[target]
    return ["qemu-storage-daemon", "--blockdev", block, "--object", "iothread,id=t", "--export",
            f"vhost-user-blk,id=e,node-name=d,addr.type=unix,addr.path={sock},writable=on,iothread=t,"
            "num-queues=4"]


def on_cpu(cpu, pin):
    return ["taskset", "-c", str(cpu)] * pin


def measure_turn(command, sock, options, seconds, pin):
    """One device's life and one run against it."""
    if os.path.exists(sock):
        os.unlink(sock)
    device = subprocess.Popen(on_cpu(0, pin) + command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_socket(sock, device)
        done = subprocess.run(on_cpu(1, pin) + [RING, f"--socket={sock}", f"--seconds={seconds}"]
                              + options, check=True, timeout=seconds + 60, stdout=subprocess.PIPE)
    finally:
        device.terminate()
        device.wait(30)
    said = json.loads(done.stdout)
    said["p99"] = said["lat_us_p99"]
    said["per_cpu_s"] = 1e6 / max(said["device_cpu_us_per_request"], 1e-3)
    return said


def fio_turn(path, what, seconds, pin):
    rw, depth, size = what
    done = subprocess.run(
        on_cpu(0, pin)
        + ["fio", "--name=x", f"--filename={path}", f"--rw={rw}", f"--bs={size}", f"--iodepth={depth}",
         "--ioengine=io_uring", "--direct=1", f"--size={FILE_BYTES}", "--time_based", "--ramp_time=500ms",
         f"--runtime={round(seconds * 1000)}ms", "--registerfiles=1", "--output-format=json"],
        check=True, timeout=seconds + 60, stdout=subprocess.PIPE)
    job = json.loads(done.stdout)["jobs"][0]
    return job["read"]["iops"] + job["write"]["iops"]


def count_system_calls(command, sock, options):
    """System calls of the device for a request, by perf's tracepoint in a run that is not timed."""
    if os.path.exists(sock):
        os.unlink(sock)
    device = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_socket(sock, device)
        perf = subprocess.run(
            ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-p", str(device.pid), "--",
             RING, f"--socket={sock}", "--seconds=1"] + options, check=True, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = json.loads(perf.stdout)
        # Warm-up is traced too: so many requests as its part of the time.
        whole = said["requests"] * (1 + 0.5 / said["seconds"])
        return round(int(perf.stderr.decode().split(",")[0]) / whole, 3)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None
    finally:
        device.terminate()
        device.wait(30)


def measure_row(row, path, sock, args):
    name, target, options, fio, aims = row
    keel, qemu, limit = [], [], []
    turns = [lambda: keel.append(measure_turn(keel_command(target, path, sock), sock, options, args.seconds, args.pin)),
             lambda: qemu.append(measure_turn(qemu_command(target, path, sock), sock, options, args.seconds, args.pin))]
    if fio:
        turns.append(lambda: limit.append(fio_turn(path, fio, args.seconds, args.pin)))
    for i in range(args.pairs):
        # Nobody is always the last: storage may be warmer by then, or have used up what it lends.
        for k in range(len(turns)):
            turns[(i + k) % len(turns)]()
    out = {"name": name, "pairs": args.pairs, "seconds": args.seconds, "aims": [],
           "other_cpus": round(statistics.median(f["other_cpus"] for f in keel + qemu), 2),
           "system_calls_keel": count_system_calls(keel_command(target, path, sock), sock, options),
           "system_calls_qemu": count_system_calls(qemu_command(target, path, sock), sock, options)}
    for side, all_of in (("keel", keel), ("qemu", qemu)):
        out[side] = {k: round(statistics.median(f[k] for f in all_of), 3)
                     for k in ("iops", "mb_s", "lat_us_p50", "lat_us_p99", "device_cpu_us_per_request",
                               "per_cpu_s", "kicks_per_request", "calls_per_request")}
    if limit:
        out["fio_iops"] = round(statistics.median(limit))
    for figure, (to_qemu, to_fio) in aims.items():
        better = "lower" if figure == "p99" else "higher"
        mine = [turn[figure] for turn in keel]
        out["aims"].append({"figure": figure, "against": "qemu", "aim": to_qemu,
                            **figures.ratio(mine, [turn[figure] for turn in qemu], better)})
        if limit:
            out["aims"].append({"figure": figure, "against": "fio", "aim": to_fio, **figures.ratio(mine, limit, better)})
    return out


def tell(row):
    keel, qemu = row["keel"], row["qemu"]
    print(f"{row['name']}: keel {keel['iops']:.0f} IOPS, {keel['device_cpu_us_per_request']:.2f} us CPU, "
          f"p99 {keel['lat_us_p99']:.0f} us, {row['system_calls_keel']} calls; qemu {qemu['iops']:.0f}, "
          f"{qemu['device_cpu_us_per_request']:.2f}, {qemu['lat_us_p99']:.0f}, {row['system_calls_qemu']}"
          + (f"; fio {row['fio_iops']}" if "fio_iops" in row else "")
          + f"; others used {row['other_cpus']:.2f} CPUs")
    for aim in row["aims"]:
        word = "" if aim["aim"] is None else (f", aim {aim['aim']:.2f}: "
                                              + ("met" if aim["ratio"] >= aim["aim"] else "MISSED"))
        print(f"    {aim['figure']} / {aim['against']}: {aim['ratio']:.2f} "
              f"({aim['from']:.2f} to {aim['to']:.2f}){word}", flush=True)


def file_make(path):
    """Written through, so that no row measures the allocation of blocks."""
    with open(path, "wb") as file:
        for _ in range(FILE_BYTES >> 20):
            file.write(os.urandom(4096) * 256)
        file.flush()
        os.fsync(file.fileno())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--file", default="/var/tmp/keel-bench-disk")
    parser.add_argument("--only", default="")
    parser.add_argument("--pin", action="store_true",
                        help="the device has CPU 0 and the guest CPU 1, as who counts microseconds pins them")
    args = parser.parse_args()
    paths = {"file": args.file, "tmpfs": "/dev/shm/keel-bench-disk", "null": "",
             "tmpfs-workers": "/dev/shm/keel-bench-disk-w"}
    sock = f"/var/tmp/keel-bench-{os.getpid()}.sock"
    rows = [r for r in ROWS if args.only in r[0]]
    out = {"load_before": os.getloadavg(), "cpus": os.cpu_count(), "pinned": args.pin, "rows": []}
    try:
        for target in {r[1] for r in rows} - {"null"}:
            file_make(paths[target])
        for row in rows:
            out["rows"].append(measure_row(row, paths[row[1]], sock, args))
            tell(out["rows"][-1])
    finally:
        for path in list(paths.values()) + [sock]:
            if path and os.path.exists(path):
                os.unlink(path)
    out["load_after"] = os.getloadavg()
    os.makedirs(f"{TOP}/build/figures", exist_ok=True)
    name = "disk" + ("-" + args.only.replace(" ", "-") if args.only else "") + "-pinned" * args.pin
    with open(f"{TOP}/build/figures/{name}.json", "w", encoding="utf-8") as file:
        json.dump(out, file, indent=1)
    print(f"load {out['load_before'][0]:.1f} before, {out['load_after'][0]:.1f} after; "
          f"build/figures/{name}.json")


main()
