# SPDX-License-Identifier: BSD-2-Clause
"""Figures: one file each under build/figures/, so that two runs or two systems can be laid side by side.

A file has name, unit, better ("higher" or "lower"), runs (each run's value, in order) and their median.
"""
import json
import os
import statistics

from lab.paths import FIGURES


def write(name, unit, better, runs, **more):
    """Writes build/figures/NAME.json. more: what else belongs to the figure, e.g. how it was made up."""
    figure = {"name": name, "unit": unit, "better": better, "runs": list(runs),
              "median": statistics.median(runs), **more}
    os.makedirs(FIGURES, exist_ok=True)
    path = os.path.join(FIGURES, f"{name}.json")
    with open(f"{path}.new", "w", encoding="utf-8") as out:
        json.dump(figure, out, indent=1)
        out.write("\n")
    os.replace(f"{path}.new", path)
    return figure


def ratio(values, peers, better):
    """Of pairs measured one beside the other: the median of their ratios, with its range. Above 1: values are better."""
    pairs = [a / b if better == "higher" else b / a for a, b in zip(values, peers)]
    return {"ratio": round(statistics.median(pairs), 3), "from": round(min(pairs), 3), "to": round(max(pairs), 3)}


def tell(figure):
    """A line for people."""
    runs = f"  ({', '.join(str(r) for r in figure['runs'])})" if len(figure["runs"]) > 1 else ""
    text = f"{figure['name']:<28} {round(figure['median'], 3):>10} {figure['unit']}{runs}"
    parts = figure.get("by_kind")
    return text + (": " + ", ".join(f"{k} {v}" for k, v in parts.items()) if parts else "")
