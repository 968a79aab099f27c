# SPDX-License-Identifier: BSD-2-Clause
"""The parts of the comparison's page as HTML; page puts them into files."""
import os
import statistics
from html import escape

import data
import record
import rows
from chart import draw
from texts import HTML_LANG, LANGUAGES, text
from why import WHY

HERE = os.path.dirname(os.path.abspath(__file__))
GROUPS = ("compute", "disk", "network")
COUNTS = ("exits", "interrupts", "ipis", "halts", "kicks", "user_exits", "switches")
NAMES = {"keel": "keelOS", "kvm": "KVM"}


def number(value):
    """Four figures, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.4g}" if abs(value) >= 0.001 else f"{value:.6f}".rstrip("0").rstrip(".") or "0"


class Page:
    """One language's page of the newest version."""

    def __init__(self, history, language):
        self.history = history
        self.version = history[0]
        self.language = language
        self.results = [r for r in data.results_of(self.version) if r.measured]
        self.missing = [row for row in rows.ROWS if row.name not in {r.row.name for r in self.results}]
        # The last version that has a row is what its change is told against.
        self.before = [{r.row.name: r for r in data.results_of(v) if r.measured} for v in history[1:]]

    def say(self, key, **values):
        return escape(text(self.language, key, **values))

    def name(self, row):
        return self.say(f"row_{row.name}")

    def is_emulated(self):
        return any(r["how"] == "emulated" for r in self.version["runs"])

    def head(self, files):
        links = " ".join(
            f'<a href="{files[code]}" hreflang="{HTML_LANG[code]}" lang="{HTML_LANG[code]}">{name}</a>'
            if code != self.language else f'<strong lang="{HTML_LANG[code]}">{name}</strong>'
            for code, name in LANGUAGES.items())
        behind = [r for r in self.results if r.behind]
        out = [f'<header>\n<nav aria-label="languages">{links}</nav>', f"<h1>{self.say('title')}</h1>",
               f'<p class="lead">{self.say("lead")}</p>',
               f'<p class="soft">{escape(self.version["version"])}, {escape(self.version["date"])}</p>']
        if any(r["size"] == "short" for r in self.version["runs"]):
            out.append(f'<p class="warn">{self.say("short")}</p>')
        out.append('<p class="verdict"><strong>' + self.say(
            "verdict", ahead=len(self.results) - len(behind), behind=len(behind), total=len(self.results),
            noise=sum(r.in_noise for r in self.results)) + "</strong></p>")
        if self.missing:
            out.append(f'<p>{self.say("missing", rows=", ".join(text(self.language, "row_" + r.name) for r in self.missing))}</p>')
        return "\n".join(out) + "\n</header>"

    def worth(self):
        if not self.is_emulated():
            return f'<p>{self.say("metal")}</p>'
        return f'<section class="warn"><h2>{self.say("emulated_head")}</h2>\n<p>{self.say("emulated")}</p></section>'

    def note(self, result):
        words = []
        if result.behind:
            words.append("▼ " + text(self.language, "behind"))
        if result.in_noise:
            words.append("(" + text(self.language, "in_noise") + ")")
        return " ".join(words)

    def short_note(self, result):
        """What a bar has room for on a phone."""
        words = ["▼ " + text(self.language, "behind")] if result.behind else []
        return " ".join(words + (["≈"] if result.in_noise else []))

    def charts(self):
        out = [f'<p class="soft">{self.say("chart")}</p>', '<div class="charts">']
        for group in GROUPS:
            chosen = [r for r in self.results if r.row.group == group]
            if chosen:
                title = text(self.language, f"group_{group}")
                entries = [(text(self.language, f"row_{r.row.name}"), r.ratio, r.behind, self.short_note(r)) for r in chosen]
                out.append(f"<figure><h3>{escape(title)}</h3>\n{draw(title, entries)}</figure>")
        return "\n".join(out + ["</div>"])

    def side_cell(self, result, side):
        runs = ", ".join(number(v) for v in result.values[side])
        return f'<td class="n">{number(result.median(side))}<small>({runs})</small></td>'

    def change(self, result):
        last = next((b[result.row.name] for b in self.before if result.row.name in b), None)
        if last is None or last.ratio == 0:
            return self.say("none")
        return f"{(result.ratio / last.ratio - 1) * 100:+.0f} %"

    def table(self):
        heads = [("row", ""), ("unit", ""), ("better", "")]
        out = [f"<h2>{self.say('table_head')}</h2>",
               f'<p class="soft">{self.say("table_note", runs=max((len(r.values["keel"]) for r in self.results), default=0))}</p>',
               '<div class="wide"><table id="results"><thead><tr>']
        out += [f'<th scope="col">{self.say(key)}</th>' for key, _ in heads]
        out += [f'<th scope="col" class="n">{NAMES[side]}</th>' for side in ("kvm", "keel")]
        out += [f'<th scope="col" class="n">{self.say("ratio")}</th>', f'<th scope="col">{self.say("how")}</th>',
                f'<th scope="col" class="n">{self.say("change")}</th></tr></thead><tbody>']
        for result in self.results:
            mark = f'<small class="mark">{escape(self.note(result))}</small>' if self.note(result) else ""
            out.append(f'<tr data-row="{result.row.name}"{" class=" + chr(34) + "low-row" + chr(34) if result.behind else ""}>'
                       f"<td>{self.name(result.row)}{mark}</td><td>{escape(result.row.unit)}</td>"
                       f"<td>{self.say(result.row.better)}</td>" + self.side_cell(result, "kvm")
                       + self.side_cell(result, "keel") + f'<td class="n ratio">{result.ratio * 100:.0f} %</td>'
                       f'<td>{self.say("how_" + result.how)}</td><td class="n">{self.change(result)}</td></tr>')
        return "\n".join(out + ["</tbody></table></div>"])

    def pair(self, result, key):
        values = [result.counts[side].get(key) for side in ("keel", "kvm")]
        return " / ".join("–" if v is None else number(v) for v in values)

    def counts(self):
        out = [f"<h2>{self.say('counts_head')}</h2>", f'<p class="soft">{self.say("counts_note")}</p>',
               '<div class="wide"><table id="counts"><thead><tr>', f'<th scope="col">{self.say("row")}</th>',
               f'<th scope="col">{self.say("work")}</th>']
        out += [f'<th scope="col" class="n">{self.say(key)}</th>' for key in COUNTS]
        out.append("</tr></thead><tbody>")
        for result in self.results:
            out.append(f'<tr data-row="{result.row.name}"><td>{self.name(result.row)}</td><td>{escape(result.work)}</td>'
                       + "".join(f'<td class="n">{self.pair(result, key)}</td>' for key in COUNTS) + "</tr>")
        out.append("</tbody></table></div>")
        return "\n".join(out + [self.kinds()])

    def kinds(self):
        """What the exits are, folded away: a row of the table a kind, keelOS / KVM."""
        out = [f"<details><summary>{self.say('kinds')}</summary>", '<div class="wide"><table><thead><tr>',
               f'<th scope="col">{self.say("row")}</th><th scope="col">{self.say("kind")}</th>',
               '<th scope="col" class="n">keelOS</th><th scope="col" class="n">KVM</th></tr></thead><tbody>']
        body = []
        for result in self.results:
            kinds = {side: result.counts[side].get("kinds", {}) for side in record.SIDES}
            names = sorted({k for side in kinds.values() for k in side}, key=lambda k: -kinds["keel"].get(k, 0))
            for kind in names:
                cells = ["–" if not kinds[side] else number(kinds[side].get(kind, 0)) for side in record.SIDES]
                body.append(f"<tr><td>{self.name(result.row)}</td><td>{escape(kind)}</td>"
                            + "".join(f'<td class="n">{c}</td>' for c in cells) + "</tr>")
        return "\n".join(out + body + ["</tbody></table></div></details>"]) if body else ""

    def native_table(self, name, peer, own, rows):
        """rows: what, the peer's figure, ours, and their ratio with its range, or None."""
        out = [f'<div class="wide"><table id="{name}"><thead><tr>', f'<th scope="col">{self.say("row")}</th>',
               f'<th scope="col" class="n">{peer}</th><th scope="col" class="n">{own}</th>',
               f'<th scope="col" class="n">{self.say("ratio").replace("KVM", peer)}</th>',
               f'<th scope="col">{self.say("how")}</th></tr></thead><tbody>']
        for what, theirs, ours, part in rows:
            ratio = "–" if part is None else (f'{part["ratio"] * 100:.0f} %<small>({part["from"] * 100:.0f}–'
                                              f'{part["to"] * 100:.0f} %)</small>')
            out.append(f'<tr><td>{escape(what)}</td><td class="n">{number(theirs)}</td><td class="n">{number(ours)}</td>'
                       f'<td class="n">{ratio}</td><td>{self.say("how_native")}</td></tr>')
        return "\n".join(out + ["</tbody></table></div>"])

    def native(self):
        native = self.version.get("native")
        head = f"<h2>{self.say('native_head')}</h2>\n"
        if not native:
            return head + f"<p>{self.say('native_none')}</p>"
        note = self.say("native_note") + " " + self.say(
            "native_load", cpus=statistics.median(r["other_cpus"] for r in native["rows"]))
        rows = [(row["name"], row["qemu"]["iops"], row["keel"]["iops"],
                 next((a for a in row["aims"] if a["figure"] == "iops" and a["against"] == "qemu"), None))
                for row in native["rows"]]
        return head + f'<p class="soft">{note}</p>\n' + self.native_table("native", "QEMU", "keel-blk", rows)

    def native_net(self):
        native = self.version.get("native_net")
        head = f"<h2>{self.say('native_net_head')}</h2>\n"
        if not native:
            return head + f"<p>{self.say('native_net_none')}</p>"
        units = {"mb_s": "MB/s", "answer_us_p50": "µs p50", "answer_us_p99": "µs p99"}
        rows = [(f'{row["name"]}, {units[part["figure"]]}', row["bare"][part["figure"]], row["keel"][part["figure"]], part)
                for row in native["rows"] for part in row["ratios"] if part["figure"] in units]
        return (head + f'<p class="soft">{self.say("native_net_note")}</p>\n'
                + self.native_table("native-net", self.say("native_net_bare"), "keelOS", rows))

    def last_setup(self, side):
        sessions = [r["session"] for r in self.version["runs"] if r["side"] == side]
        return self.version["setups"][sessions[-1]] if sessions else {}

    def setup(self):
        out = [f"<h2>{self.say('setup_head')}</h2>", '<div class="wide"><table id="setup"><tbody>']
        for side in record.SIDES:
            setup = self.last_setup(side)
            machine = setup.get("machine", {})
            words = [f"{k} {v}" for k, v in setup.get("versions", {}).items()]
            words += [machine.get("cpu", ""), f"{machine.get('cpus')} CPUs", machine.get("kernel", ""),
                      machine.get("kernel_command_line", "")]
            out.append(f'<tr><th scope="row">{NAMES[side]}</th><td>{escape("; ".join(words))}</td></tr>')
        setup = self.last_setup("kvm") or self.last_setup("keel")
        out.append(f'<tr><th scope="row">{self.say("setup_guest")}</th><td>{escape("; ".join(setup.get("guest", [])))}; '
                   f'{setup.get("vcpus")} vCPUs</td></tr>')
        if setup.get("emulated_by"):
            out.append(f'<tr><th scope="row">{self.say("setup_emulated_by")}</th><td>'
                       + escape("; ".join(f"{k} {v}" for k, v in setup["emulated_by"].items())) + "</td></tr>")
        out.append("</tbody></table></div>")
        loads = [r["load"]["others_cpus"] for r in self.version["runs"] if r["load"].get("others_cpus") is not None]
        if loads:
            out.append(f'<p>{self.say("setup_load", median=number(statistics.median(loads)), most=number(max(loads)))}</p>')
        if self.is_emulated():
            failures = self.version["failures"]
            out.append(f'<p>{self.say("setup_failures", keel=failures.get("keel", 0), kvm=failures.get("kvm", 0))}</p>')
        commands = "\n\n".join(f"{NAMES[side]}, {name}:\n{words}" for side in record.SIDES
                               for name, words in self.last_setup(side).get("commands", {}).items())
        out.append(f"<details><summary>{self.say('setup_commands')}</summary><pre>{escape(commands)}</pre></details>")
        lines = "\n".join(f"{r.row.name}: " + next(e["command"] for e in self.version["runs"] if e["row"] == r.row.name
                                                     and e["repetition"] > 0) for r in self.results)
        out.append(f"<details><summary>{self.say('setup_sizes')}</summary><pre>{escape(lines)}</pre></details>")
        return "\n".join(out)

    def why(self):
        out = [f"<h2>{self.say('why_head')}</h2>"]
        place = list(LANGUAGES).index(self.language)
        behind = [r for r in self.results if r.behind]
        if not behind:
            out.append(f"<p>{self.say('why_none')}</p>")
        told = []
        for words, names in WHY:
            concerned = [f"{self.name(r.row)} ({r.ratio * 100:.0f} %)" for r in behind if r.row.name in names]
            if concerned:
                told.append(f"<dt>{', '.join(concerned)}</dt><dd>{escape(words[place])}</dd>")
        if told:
            out.append("<dl>" + "\n".join(told) + "</dl>")
        return "\n".join(out + [f"<h2>{self.say('doing_head')}</h2>", f"<p>{self.say('doing')}</p>"])

    def past(self):
        out = [f"<h2>{self.say('history_head')}</h2>", f'<p class="soft">{self.say("history_note")}</p>',
               '<div class="wide"><table id="history"><thead><tr>', f'<th scope="col">{self.say("row")}</th>']
        out += [f'<th scope="col" class="n">{escape(v["version"])}<br>{escape(v["date"])}</th>' for v in self.history]
        out.append("</tr></thead><tbody>")
        by_version = [{r.row.name: r for r in data.results_of(v) if r.measured} for v in self.history]
        for row in rows.ROWS:
            cells = [f'{b[row.name].ratio * 100:.0f} %' if row.name in b else "–" for b in by_version]
            out.append(f"<tr><td>{self.name(row)}</td>" + "".join(f'<td class="n">{c}</td>' for c in cells) + "</tr>")
        links = "".join(f'<li><a href="data/{v["file"]}" download>{escape(v["file"])}</a></li>' for v in self.history)
        out.append(f"</tbody></table></div>\n<h2>{self.say('raw_head')}</h2>\n<p>{self.say('raw_note')}</p>\n<ul>{links}</ul>")
        return "\n".join(out)


def make_page(history, language, files):
    """The whole file."""
    page = Page(history, language)
    with open(os.path.join(HERE, "style.css"), encoding="utf-8") as style:
        look = style.read()
    body = "\n".join([page.head(files), "<main>", page.worth(), page.charts(), page.table(), page.counts(), page.native(),
                      page.native_net(), page.setup(), page.why(), page.past(), "</main>"])
    return (f'<!DOCTYPE html>\n<html lang="{HTML_LANG[language]}">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{page.say('title')}</title>\n<style>\n{look}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n")
