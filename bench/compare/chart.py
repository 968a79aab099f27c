# SPDX-License-Identifier: BSD-2-Clause
"""Bars of one group of rows as SVG: keelOS as a share of KVM, on a ground that ends at 120 %."""
from html import escape

WIDTH, LEFT, RIGHT = 360, 8, 8
ROW, BAR, TOP, BOTTOM = 46, 16, 8, 22
GROUND = 1.2  # the axis' end; a longer bar is cut there and says its number


def scale(share):
    return round(LEFT + (WIDTH - LEFT - RIGHT) * min(share, GROUND) / GROUND, 1)


def bar(top, label, share, behind, note):
    """One row: its words, the ground, the bar, its number."""
    width = round(scale(share) - LEFT, 1)
    number = f"{share * 100:.0f} %"
    cut = share > GROUND
    out = [f'<text class="label" x="{LEFT}" y="{top + 13}">{escape(label)}</text>',
           f'<text class="number{" low" if behind else ""}" x="{WIDTH - RIGHT}" y="{top + 13}" text-anchor="end">'
           f'{escape(f"{note} " if note else "")}{number}</text>',
           f'<rect class="ground" x="{LEFT}" y="{top + 19}" width="{scale(GROUND) - LEFT:.1f}" height="{BAR}"/>',
           f'<rect class="bar{" low" if behind else ""}" data-share="{share:.4f}" x="{LEFT}" y="{top + 19}" width="{width}" '
           f'height="{BAR}"/>']
    out.append(f'<line class="kvm" x1="{scale(1.0)}" x2="{scale(1.0)}" y1="{top + 16}" y2="{top + 22 + BAR}"/>')
    if cut:
        end = WIDTH - RIGHT
        out.append(f'<path class="cut" d="M{end - 14} {top + 19} l6 {BAR / 2} l-6 {BAR / 2} M{end - 9} {top + 19} '
                   f'l6 {BAR / 2} l-6 {BAR / 2}"/>')
    return out


def draw(title, entries):
    """entries: (label, share, behind, note). The SVG's text."""
    height = TOP + ROW * len(entries) + BOTTOM
    out = [f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" '
           'xmlns="http://www.w3.org/2000/svg">']
    for number, entry in enumerate(entries):
        out += bar(TOP + number * ROW, *entry)
    for share, words in ((0, "0"), (0.5, "50 %"), (1.0, "KVM 100 %"), (GROUND, "120 %")):
        # KVM's words end a little behind its line: the ground's own begin soon after.
        anchor, shift = {0: ("start", 0), 1.0: ("end", 20), GROUND: ("end", 0)}.get(share, ("middle", 0))
        out.append(f'<text class="axis" x="{scale(share) + shift:.1f}" y="{height - 6}" text-anchor="{anchor}">{words}</text>')
    out.append("</svg>")
    return "\n".join(out)
