#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The comparison's page: right numbers, valid HTML, readable in a real browser in every language, width and scheme."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from harness import Skip, Wrong, has, run_alone, same, within
from browser import CHROMIUM, Browser
from lab.paths import BUILD, TOP

sys.path.insert(0, os.path.join(TOP, "bench/compare"))
import data  # noqa: E402
import record  # noqa: E402
import rows  # noqa: E402

FILES = {"en": "index.html", "zh": "zh.html", "ja": "ja.html"}
SHOTS = os.path.join(BUILD, "compare/shots")
WIDTHS = (360, 1280)
CONTRAST_MIN = 4.5  # WCAG 2.1, 1.4.3
# keelOS' share of KVM in the made-up data: behind, ahead, far ahead, equal.
SHARES = {"7zip": 0.5, "sysbench-cpu": 1.05, "sched-pipe": 3.2, "randread-qd1": 0.97, "vm-to": 1.0}


def make_runs(folder, shares, left_out=()):
    """Three runs a side of each row, of which the medians are known."""
    for number, row in enumerate(rows.ROWS):
        if row.name in left_out:
            continue
        kvm = 1000.0 * (number + 1)
        share = shares.get(row.name, 1.1)
        keel = kvm * share if row.better == "higher" else kvm / share
        for side, middle in (("keel", keel), ("kvm", kvm)):
            for repetition in (0, 1, 2, 3):
                record.write(folder, make_record(row, side, repetition, middle * (0.9 + 0.1 * (repetition or 2) - 0.1)))


def make_record(row, side, repetition, value):
    counts = {"exits": 500, "interrupts": 100, "halts": 50, "user_exits": 5, "switches": 70}
    if side == "keel" or repetition == 0:
        counts |= {"kinds": {"halt": 300, "msr-write": 200}, "ipis": 20, "kicks": 10}
    return {"format": 1, "row": row.name, "side": side, "repetition": repetition, "size": "full", "value": value,
            "unit": row.unit, "better": row.better, "how": "emulated", "command": f"<run> & {row.name}",
            "work": {"amount": 100, "unit": "request"}, "counts": counts, "started": "2026-01-02T03:04:05+00:00",
            "seconds": 1.0, "load": {"root": 0.1, "others_cpus": 0.25}, "session": "s1",
            "setup": {"versions": {"X": "1"}, "machine": {"cpu": "c", "cpus": 2, "kernel": "k", "kernel_command_line": "a <b>"},
                      "guest": ["g"], "vcpus": 2, "commands": {"a": "qemu"}, "emulated_by": {"emulator": "QEMU"}},
            "output": "o"}


def run_page(*words):
    done = subprocess.run([os.path.join(TOP, "bench/compare/page"), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    if done.returncode != 0:
        raise Wrong(f"page {' '.join(words)}: {done.stdout.decode()}")


NATIVE = {"disk": {"rows": [{"name": "file <read>", "other_cpus": 0.5, "qemu": {"iops": 1000}, "keel": {"iops": 1500}, "aims": [
    {"figure": "iops", "against": "qemu", "ratio": 1.5, "from": 1.25, "to": 1.75}]}]},
          "net": {"rows": [{"name": "stream & back", "bare": {"mb_s": 800, "answer_us_p50": 20},
                            "keel": {"mb_s": 600, "answer_us_p50": 25}, "ratios": [
                                {"figure": "mb_s", "ratio": 0.75, "from": 0.5, "to": 0.85},
                                {"figure": "answer_us_p50", "ratio": 0.8, "from": 0.7, "to": 0.9},
                                {"figure": "cpu_us_per_frame", "ratio": 0.1, "from": 0.1, "to": 0.1}]}]}}


def make_native(folder):
    paths = []
    for name, figures in NATIVE.items():
        paths.append(os.path.join(folder, f"{name}.json"))
        with open(paths[-1], "w", encoding="utf-8") as out:
            json.dump(figures, out)
    return paths


def make_site(folder):
    """Two versions of made-up data; the first has a row less."""
    history, site = os.path.join(folder, "history"), os.path.join(folder, "site")
    make_runs(os.path.join(folder, "one/runs"), {"7zip": 0.4}, left_out=("vm-to",))
    make_runs(os.path.join(folder, "two/runs"), SHARES, left_out=("redis-build",))
    os.makedirs(os.path.join(folder, "two/failures"))
    for number in range(3):
        with open(os.path.join(folder, f"two/failures/{number}-kvm.json"), "w", encoding="utf-8") as out:
            out.write("{}")
    run_page("--runs", os.path.join(folder, "one/runs"), "--version", "0.1", "--date", "2026-01-01", "--history", history,
             "--out", site)
    disk, net = make_native(folder)
    run_page("--runs", os.path.join(folder, "two/runs"), "--version", "0.2", "--date", "2026-02-01", "--history", history,
             "--native", disk, "--native-net", net, "--out", site)
    return site


def read(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


def in_site(check):
    """A case on the made-up data's site, and on that of the history that the tree has."""
    def case():
        with tempfile.TemporaryDirectory(prefix="keel-page-") as folder:
            check(make_site(folder), "made-up")
        history = os.path.join(TOP, "bench/compare/history")
        if data.read_history(history):
            with tempfile.TemporaryDirectory(prefix="keel-page-") as folder:
                run_page("--history", history, "--out", folder)
                check(folder, "history")
    case.__name__ = check.__name__
    return case


def test_html_is_valid(site, _what):
    """By two judges: tidy without a warning, html5lib in its strict mode; and no script."""
    import html5lib
    for name in FILES.values():
        path = os.path.join(site, name)
        done = subprocess.run(["tidy", "-q", "-e", "--show-warnings", "yes", path], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        same((done.returncode, done.stdout.decode()), (0, ""), f"tidy on {name}")
        html5lib.HTMLParser(strict=True).parse(read(path))
        same(re.findall(r"<script|\son[a-z]+=|javascript:", read(path)), [], f"scripts in {name}")
        for target in re.findall(r'href="([^"]+)"', read(path)):
            if not os.path.exists(os.path.join(site, target)):
                raise Wrong(f"{name} links {target}, which is not there")


def test_numbers(site, _what):
    """Each bar and each cell of the table is what the raw data give, computed here in another way."""
    newest = max(os.listdir(os.path.join(site, "data")))
    runs = json.loads(read(os.path.join(site, "data", newest)))["runs"]
    wanted = {}
    for row in rows.ROWS:
        values = {side: sorted(r["value"] for r in runs if (r["row"], r["side"]) == (row.name, side) and r["repetition"] > 0)
                  for side in ("keel", "kvm")}
        if values["keel"] and values["kvm"]:
            keel, kvm = ((v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2 for v in (values["keel"], values["kvm"]))
            wanted[row.name] = keel / kvm if row.better == "higher" else kvm / keel
    for name in FILES.values():
        html = read(os.path.join(site, name))
        shares = [float(s) for s in re.findall(r'data-share="([\d.]+)"', html)]
        same(len(shares), len(wanted), f"bars of {name}")
        for share, (row, ratio) in zip(shares, wanted.items()):
            within(share, ratio - 1e-4, ratio + 1e-4, f"{row}'s bar in {name}")
        widths = [float(w) for w in re.findall(r'class="bar[^>]* width="([\d.]+)"', html)]
        for share, width in zip(shares, widths):
            within(width, min(share, 1.2) / 1.2 * 344 - 0.2, min(share, 1.2) / 1.2 * 344 + 0.2, f"a bar's length in {name}")
        table = html[html.index('id="results"'):]
        found = dict(re.findall(r'<tr data-row="([^"]+)".*?class="n ratio">(\d+) %', table, re.S))
        same(found, {row: f"{ratio * 100:.0f}" for row, ratio in wanted.items()}, f"the table of {name}")
        low = set(re.findall(r'<tr data-row="([^"]+)" class="low-row"', table))
        same(low, {row for row, ratio in wanted.items() if ratio < 1}, f"rows marked as behind in {name}")


def test_made_up():
    """What the page says of data that are known: the change, the failures, what is missing."""
    with tempfile.TemporaryDirectory(prefix="keel-page-") as folder:
        html = read(os.path.join(make_site(folder), "index.html"))
    row = has(html, r'<tr data-row="7zip".*?</tr>', "the row").group()
    for words in ("500<small>(450, 500, 550)</small>", "1\u202f000<small>(900, 1\u202f000, 1\u202f100)</small>", ">50 %<",
                  ">+25 %<"):
        if words not in row:
            raise Wrong(f"no {words} in {row}")
    has(html, "Not measured yet: Building Redis, -j4", "the missing row")
    has(html, "keelOS 0, KVM 3", "the boots that failed")
    for name, row in (("native", "file &lt;read&gt; 1\u202f000 1\u202f500 150 % (125–175 %)"),
                      ("native-net", "stream &amp; back, MB/s 800 600 75 % (50–85 %)"),
                      ("native-net", "stream &amp; back, µs p50 20 25 80 % (70–90 %)")):
        table = has(html, rf'(?s)<table id="{name}".*?</table>', f"the table {name}").group()
        if row not in re.sub(r"(<[^>]*>|\n)+", " ", table):
            raise Wrong(f"no {row} in {table}")
    counts = html[html.index('id="counts"'):]
    has(counts, r'<tr data-row="7zip".*?>5 / 5<.*?>1 / 1<.*?>0\.2 / 0\.2<.*?>0\.5 / 0\.5<.*?>0\.1 / 0\.1<', "its counts")
    has(html, "a &lt;b&gt;", "what the data have of HTML's signs, escaped")


LOOK = """(() => {
  const rgb = t => t.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                       return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
                        if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const low = [];
  for (const e of document.querySelectorAll('p,td,th,dt,dd,h1,h2,h3,a,summary,small,svg text')) {
    if (!e.getClientRects().length) continue;
    const s = getComputedStyle(e), c = rgb(e.tagName == 'text' ? s.fill : s.color);
    const [a, b] = [light(c.slice(0, 3)), light(ground(e).slice(0, 3))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < %f) low.push([e.textContent.slice(0, 40), ratio]);
  }
  const overlaps = [];
  for (const svg of document.querySelectorAll('svg.chart')) {
    const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([w, a], i) => boxes.slice(i + 1).forEach(([v, b]) => {
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) overlaps.push([w, v]); }));
  }
  const small = [...document.querySelectorAll('svg.chart .label')].map(t => t.getBoundingClientRect().height);
  return {over: document.documentElement.scrollWidth - innerWidth, low, overlaps, smallest: Math.min(...small),
          dark: light(ground(document.body).slice(0, 3)) < 0.2, bars: document.querySelectorAll('rect.bar').length,
          cut: document.querySelectorAll('path.cut').length, line: document.querySelectorAll('line.kvm').length};
})()""" % CONTRAST_MIN


def test_in_browser(site, what):
    """Nothing over the edge, no words on words, contrast enough, the scheme followed, nothing complained of."""
    if not os.path.exists(CHROMIUM):
        raise Skip("no chromium")
    shutil.rmtree(os.path.join(SHOTS, what), ignore_errors=True)
    os.makedirs(os.path.join(SHOTS, what))
    with Browser() as browser:
        for language, name in FILES.items():
            for width in WIDTHS:
                for dark in (False, True):
                    browser.show(os.path.join(site, name), width, 900, dark)
                    seen = browser.evaluate(LOOK)
                    where = f"{what} {language} {width} {'dark' if dark else 'light'}"
                    shares = [float(s) for s in re.findall(r'data-share="([\d.]+)"', read(os.path.join(site, name)))]
                    within(seen["over"], -width, 0, f"{where}: pixels over the edge")
                    same(seen["low"], [], f"{where}: too little contrast")
                    same(seen["overlaps"], [], f"{where}: words on words")
                    same(seen["dark"], dark, f"{where}: a dark page")
                    same((seen["bars"], seen["cut"]), (len(shares), sum(s > 1.2 for s in shares)), f"{where}: bars, cut ones")
                    within(seen["smallest"], 12, 40, f"{where}: height of the smallest label")
                    browser.photograph(os.path.join(SHOTS, what, f"{language}-{width}-{'dark' if dark else 'light'}.png"))
        same(browser.complaints, [], "what the browser complained of")


run_alone([in_site(test_html_is_valid), in_site(test_numbers), test_made_up, in_site(test_in_browser)])
