# SPDX-License-Identifier: BSD-2-Clause
"""What a soak comes to: how many rounds of what, faults, points hit, and figures for each kind of event."""
import collections
import re
import statistics

from lab import figures

# A number of a round, and its unit: a figure for each kind of event that has it.
NUMBERS = {
    "io_stall_ms": "ms",
    "stream_stall_ms": "ms",
    "packets_lost": "packets",
    "exits_parked": "exits",
    "root_down_ms": "ms",
}


def collect(results, name):
    return [r["numbers"][name] for r in results if name in r["numbers"]]


def write_gaps(event, results, quiet):
    """The guest's ticks: each round's 99th percentile, beside what quiet rounds have."""
    def summary(rounds):
        return {"p50": statistics.median(collect(rounds, "gap_ms_p50")),
                "p99": statistics.median(collect(rounds, "gap_ms_p99")), "max": max(collect(rounds, "gap_ms_max"))}
    more = {"quiet": summary(quiet)} if quiet else {}
    return figures.write(f"soak_{event}_tick_gap_p99_ms", "ms", "lower", collect(results, "gap_ms_p99"),
                         **summary(results), **more)


def write_event(event, results, quiet):
    written = [write_gaps(event, results, quiet)]
    for name, unit in NUMBERS.items():
        values = collect(results, name)
        if values:
            more = {"quiet": statistics.median(collect(quiet, name))} if collect(quiet, name) else {}
            written.append(figures.write(f"soak_{event}_{name}", unit, "lower", values, max=max(values), **more))
    return written


def count_points(results, points):
    """How often each store was died at."""
    hits = collections.Counter()
    for result in results:
        for death in result.get("numbers", {}).get("deaths", []):
            match = re.match(r"killed (\w+) the store to (.*) in (\w+)", death)
            hits[(match.group(3), match.group(2), match.group(1))] += 1
    missed = [" ".join(p) for p in points if not hits[p]]
    print(f"{sum(hits.values())} deaths at {len([p for p in points if hits[p]])} of {len(points)} stores"
          + (f"; not yet at: {', '.join(missed)}" if missed else ""))
    return hits


def run(results, points):
    """Prints and writes; 0 if no round failed."""
    good = [r for r in results if r["verdict"] == "ok"]
    bad = [r for r in results if r["verdict"] != "ok"]
    given_up = [g for r in results for g in r.get("given_up", [])]
    quiet = [r for r in good if r["event"] == "none"]
    for event in dict.fromkeys(r["event"] for r in sorted(good, key=lambda r: r["event"])):
        for figure in write_event(event, [r for r in good if r["event"] == event], quiet):
            print("  " + figures.tell({**figure, "runs": []}) + f", worst {max(figure['runs'])}")
    hits = count_points(good, points)
    totals = {name: sum(collect(good, name)) for name in ("records", "checked", "ticks")}
    figures.write("soak_rounds", "rounds", "higher", [len(good)], failed=len(bad), given_up_for_the_emulator=len(given_up),
                  deaths_at_stores=sum(hits.values()), stores=len(points), **totals)
    print(f"{len(good)} rounds right, {len(bad)} failed, {len(given_up)} given up for the emulator and repeated; "
          f"{totals['records']} records and wake-ups, {totals['checked']} read back")
    for result in bad:
        print(f"FAIL round {result['round']}: {result['event']} under {result['load']}: {result['why'].splitlines()[0]}")
    for text in sorted({line for g in given_up for line in g["evidence"]})[:10]:
        print(f"given up for: {text}")
    return 1 if bad or not good else 0
