#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Frames between two VMs through the network engine, natively, and the bare taps as the limit.

Usage: bench/net.py [--pairs N] [--seconds S] [--only WORD] [--verify] [--name NAME]

A network namespace of its own has a bridge with two taps. bench-net plays both guests' drivers on real
virtqueues, with the engine as it is in keelvm between ring and tap; in the other turn the same two guests read
and write the taps themselves, which any program that serves a card by a tap has to do. The two in turns; each
row is the median over pairs of the ratio of one turn each. Writes build/figures/NAME.json (net).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TOP)
from lab import figures  # noqa: E402

NET = f"{TOP}/build/bin/bench-net"
SPACE = f"keel-bench-{os.getpid()}"
TAPS = ("keelbench0", "keelbench1")

# name, bench-net's options, {figure: which is better}
ROWS = [
    ("stream, 64 KiB segments", ["--window=16"], {"mb_s": "higher", "cpu_us_per_frame": "lower"}),
    ("stream both ways, 64 KiB segments", ["--window=16", "--both"], {"mb_s": "higher", "cpu_us_per_frame": "lower"}),
    ("stream, 1448-byte segments", ["--window=128", "--bytes=1448"], {"mb_s": "higher", "cpu_us_per_frame": "lower"}),
    ("one frame there and back", ["--window=1", "--bytes=32"],
     {"answer_us_p50": "lower", "answer_us_p99": "lower", "cpu_us_per_frame": "lower"}),
]


def call(*words):
    subprocess.run(words, check=True)


def space_make():
    call("ip", "netns", "add", SPACE)
    inside = ("ip", "-n", SPACE)
    call("ip", "netns", "exec", SPACE, "sysctl", "-q", "-w", "net.ipv6.conf.default.disable_ipv6=1")
    call(*inside, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
    call(*inside, "link", "set", "br0", "up")
    # Where the module is loaded a bridge asks the firewall for each frame, in every namespace anew.
    firewall = "/proc/sys/net/bridge/bridge-nf-call-iptables"
    call("ip", "netns", "exec", SPACE, "sh", "-c", f"[ ! -e {firewall} ] || echo 0 > {firewall}")
    for tap in TAPS:
        call(*inside, "tuntap", "add", "mode", "tap", "vnet_hdr", tap)
        call(*inside, "link", "set", tap, "master", "br0", "up")


def turn(options, seconds, bare, verify):
    command = ["ip", "netns", "exec", SPACE, NET, *(f"--tap={tap}" for tap in TAPS), f"--seconds={seconds}", *options]
    command += ["--bare"] * bare + ["--verify"] * verify
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=seconds + 60)
    if done.returncode:
        sys.exit(f"net: {' '.join(command)}: exit code {done.returncode}")
    return json.loads(done.stdout)


def measure(row, args):
    name, options, wanted = row
    keel, bare = [], []
    for i in range(args.pairs):
        for side in (keel, bare) if i % 2 == 0 else (bare, keel):
            side.append(turn(options, args.seconds, side is bare, args.verify))
    out = {"name": name, "pairs": args.pairs, "seconds": args.seconds, "lost_keel": sum(t["lost"] for t in keel),
           "lost_bare": sum(t["lost"] for t in bare), "verified": sum(t["verified"] for t in keel),
           "keel_runs": keel, "bare_runs": bare}
    for side, turns in (("keel", keel), ("bare", bare)):
        out[side] = {k: round(statistics.median(t[k] for t in turns), 3) for k in turns[0]}
    out["ratios"] = [{"figure": figure, **figures.ratio([t[figure] for t in keel], [t[figure] for t in bare], better)}
                     for figure, better in wanted.items()]
    return out


def tell(row):
    keel, bare = row["keel"], row["bare"]
    print(f"{row['name']}: keel {keel['mb_s']:.0f} MB/s, answer in {keel['answer_us_p50']:.0f} us (p99 "
          f"{keel['answer_us_p99']:.0f}), {keel['cpu_us_per_frame']:.2f} us CPU a frame, {keel['kicks_per_frame']:.3f} "
          f"kicks, {keel['calls_per_frame']:.3f} interrupts; bare {bare['mb_s']:.0f}, {bare['answer_us_p50']:.0f} "
          f"({bare['answer_us_p99']:.0f}), {bare['cpu_us_per_frame']:.2f}; lost {row['lost_keel']} and "
          f"{row['lost_bare']}, verified {row['verified']}")
    for r in row["ratios"]:
        print(f"    {r['figure']}, above 1 is better than bare: {r['ratio']:.2f} ({r['from']:.2f} to {r['to']:.2f})",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--verify", action="store_true", help="each byte of each frame, which costs time")
    parser.add_argument("--name", help="net; with --only or --verify net-part, which is no row of a page")
    args = parser.parse_args()
    args.name = args.name or ("net-part" if args.only or args.verify else "net")
    out = {"name": args.name, "cpus": os.cpu_count(), "load_before": os.getloadavg(), "rows": []}
    try:
        space_make()
        for row in ROWS:
            if args.only in row[0]:
                out["rows"].append(measure(row, args))
                tell(out["rows"][-1])
    finally:
        subprocess.run(["ip", "netns", "del", SPACE], check=False)
    out["load_after"] = os.getloadavg()
    os.makedirs(f"{TOP}/build/figures", exist_ok=True)
    with open(f"{TOP}/build/figures/{args.name}.json", "w", encoding="utf-8") as file:
        json.dump(out, file, indent=1)
    print(f"build/figures/{args.name}.json")


if __name__ == "__main__":
    main()
