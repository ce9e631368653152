# SPDX-License-Identifier: MIT
"""Draws the speedups of a table that compare.py has printed, as an SVG: python figure.py TABLE.md -o FILE.svg"""

import argparse
import math
import re
from html import escape

# Titles of the table and their labels in the picture; titles that the table lacks are left out.
labels = {
    "S2 MoA 8 of 32 x 64": "MoA, 8 of 32 experts of width 64",
    "S2 MoA 8 of 32 x 128": "MoA, 8 of 32 experts of width 128",
    "S1 MoA 8 of 32 x 128": "MoA x 128, 8 sequences of 128",
    "S3 MoA 8 of 32 x 128": "MoA x 128, 2048 x 1024",
    "S2 MoH 4 of 8 heads": "MoH, 4 of 8 heads",
    "S3 MoH 4 of 8 heads": "MoH, 4 of 8 heads, 2048 x 1024",
    "S2 dense, 8 heads": "dense attention, 8 heads",
    "S3 dense, 16 heads": "dense, 16 heads, 2048 x 1024",
    "S2 experts 2 of 8 x 2048": "SwiGLU experts, 2 of 8 x 2048",
    "headmix-lm 4 x 128, context 64": "headmix-lm, 4 layers of width 128",
    "headmix-lm 6 x 384, context 256": "headmix-lm, 6 layers of width 384",
}
# Scalar, passes, class of the bar, legend.
bars = (
    ("float", "forward", "bar1", "float: forward"),
    ("float", "forward and backward", "bar2", "forward and backward"),
    ("bfloat16", "forward", "bar3", "bfloat16: forward"),
    ("bfloat16", "forward and backward", "bar4", "forward and backward"),
)
left, right, width = 290, 710, 760  # begin of bars, end of the axis, width of the picture

style = """
    text { fill: #1f2328; font: 14px system-ui, 'Segoe UI', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif }
    .paper { fill: #ffffff; stroke: #d1d9e0 }
    .line { stroke: #d1d9e0; fill: none }
    .arrow { stroke: #59636e; stroke-width: 1.5; fill: none }
    .bar1 { fill: #1f6feb }
    .bar2 { fill: #8ab4f8 }
    .bar3 { fill: #8250df }
    .bar4 { fill: #c8a8f5 }
    .soft { fill: #59636e; font-size: 13px }
    .name { font-weight: 600 }
    .end { text-anchor: end }
    .mid { text-anchor: middle }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .paper { fill: #0d1117; stroke: #3d444d }
      .line { stroke: #3d444d }
      .arrow { stroke: #9198a1 }
      .soft { fill: #9198a1 }
      .bar1 { fill: #4493f8 }
      .bar2 { fill: #1f4f8f }
      .bar3 { fill: #ab7df8 }
      .bar4 { fill: #553098 }
    }
  """


def read(text, threads):
    """Ratios of the rows with so many threads by (title, scalar, passes), and the versions in the lines above them."""
    ratios, columns = {}, []
    for line in text.splitlines():
        if not line.startswith("| ") and not line.startswith("|  "):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "ratio" in cells:
            columns = cells
            continue
        row = dict(zip(columns, cells))
        if row.get("threads") != str(threads):
            continue
        title, _, passes = cells[0].rpartition(", ")
        if cells[0].startswith("headmix-lm"):
            title, passes = cells[0], "forward and backward"
        ratios[title, row.get("scalar", "float"), passes] = float(row["ratio"].split()[0])
    torch = re.search(r"^- PyTorch ([\d.]+)", text, re.M)
    cpu = re.search(r"^- cpu (.+)", text, re.M)
    return ratios, torch and torch[1], cpu and cpu[1]


def draw(ratios, title):
    shown = [name for name in labels if any(key[0] == name for key in ratios)]
    used = [bar for bar in bars if any(key[1:] == bar[:2] and key[0] in shown for key in ratios)]
    if not shown:
        raise SystemExit("figure.py: the table has none of the rows that are drawn")
    top = max(2, math.ceil(2 * max(r for key, r in ratios.items() if key[0] in shown)) / 2)
    length = (right - left) / top
    out, y = [], 84
    for name in shown:
        found = [(bar, ratios[name, *bar[:2]]) for bar in used if (name, *bar[:2]) in ratios]
        middle = y + 7 * len(found) + 4
        out.append(f'<text class="end" x="{left - 12}" y="{middle}">{escape(labels[name])}</text>')
        for (*_, kind, _), ratio in found:
            end = left + round(ratio * length)
            out.append(f'<rect class="{kind}" x="{left}" y="{y}" width="{end - left}" height="13"/>')
            out.append(f'<text class="soft" x="{end + 6}" y="{y + 11}">{ratio:.2f}</text>')
            y += 14
        y += 10
    bottom = y
    step = 0.5 if top <= 4 else 1
    axis = []
    for i in range(1, int(top / step) + 1):
        x, dashes = left + round(i * step * length), "" if i * step == 1 else ' stroke-dasharray="4 4"'
        axis.append(f'<path class="line" d="M{x} 76 V{bottom}"{dashes}/>')
        axis.append(f'<text class="soft mid" x="{x}" y="{bottom + 18}">{i * step:.1f}</text>')
    legend, x = [], 24
    for *_, kind, meaning in used:
        legend.append(f'<rect class="{kind}" x="{x}" y="48" width="13" height="13"/>')
        legend.append(f'<text class="soft" x="{x + 20}" y="59">{meaning}</text>')
        x += 38 + 7 * len(meaning)
    height = bottom + 40
    head = [
        f'<title>{escape(title)}, for {len(shown)} shapes</title>',
        f"<style>{style}</style>",
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
        f'<text class="name" x="24" y="32">{escape(title)}</text>',
    ]
    even = left + round(length)
    lines = head + legend + axis + out + [f'<path class="arrow" d="M{even} 76 V{bottom}"/>']
    body = "".join(f"  {line}\n" for line in lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(title)}, for {len(shown)} shapes">\n{body}</svg>\n'
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="what compare.py has printed")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", help="the CPU's name in the picture, if not that of the table")
    arguments = parser.parse_args()
    with open(arguments.table) as f:
        ratios, torch, cpu = read(f.read(), arguments.threads)
    threads = f"{arguments.threads} thread" + "s" * (arguments.threads != 1)
    title = ", ".join(filter(None, (f"Speedup over PyTorch {torch or ''}".rstrip(), arguments.cpu or cpu, threads)))
    with open(arguments.output, "w") as f:
        f.write(draw(ratios, title))


main()
