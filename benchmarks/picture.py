"""Draws what was measured over its target, a line a row, as SVG."""
import math
from html import escape

WIDTH, LEFT, RIGHT, LINE, TOP, BOTTOM = 900, 330, 30, 26, 46, 34
GOOD, BAD, PEER, TEXT, FAINT = "#1a7f37", "#cf222e", "#8250df", "#1f2328", "#d0d7de"
LONGEST_LABEL = 66


def over_target(row, value):
    """Above 1 is worse than the target, whichever way it counts. None where that is not a number."""
    if not row.limit or value <= 0:
        return None
    return row.limit / value if row.at_least else value / row.limit


def label_of(text):
    return text if len(text) <= LONGEST_LABEL else text[:LONGEST_LABEL - 1].rstrip() + "…"


class Scale:
    """From a share of the target to a position in the picture."""

    def __init__(self, shares):
        self.low = math.floor(min(math.log10(share) for share in shares))
        self.high = max(math.ceil(max(math.log10(share) for share in shares)), self.low + 1)

    def x(self, share):
        part = (math.log10(share) - self.low) / (self.high - self.low)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def ticks(self):
        return [10.0 ** power for power in range(self.low, self.high + 1)]


def text(x, y, words, anchor="start", size=12, color=TEXT):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}">{escape(words)}</text>'


def line(x1, y1, x2, y2, color, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>'


def row_of(summary, scale, y):
    row, measured = summary.row, summary.measured
    drawn = [text(LEFT - 10, y + 4, label_of(row.short or row.what), "end")]
    for name, spread in summary.peers.items():
        share = over_target(row, spread.median)
        if share:
            drawn.append(f'<circle cx="{scale.x(share):.1f}" cy="{y}" r="4" fill="none" stroke="{PEER}"><title>'
                         f'{escape(name)}</title></circle>')
    shares = [over_target(row, value) for value in (measured.low, measured.median, measured.high)]
    if all(shares):
        low, middle, high = (scale.x(share) for share in shares)
        color = GOOD if summary.is_met else BAD
        drawn += [line(low, y, high, y, color, 3), f'<circle cx="{middle:.1f}" cy="{y}" r="5" fill="{color}"/>']
    else:
        drawn.append(text(LEFT + 4, y + 4, "nothing", color=GOOD))
    return drawn


def draw(summaries):
    shown = [summary for summary in summaries if summary.measured]
    shares = [1.0]
    for summary in shown:
        for spread in (summary.measured, *summary.peers.values()):
            shares += filter(None, (over_target(summary.row, value) for value in (spread.low, spread.median, spread.high)))
    scale = Scale(shares)
    height = TOP + LINE * len(shown) + BOTTOM
    drawn = [f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             text(10, 20, "Measured over target: left of the line is met. levin ● with quartiles, peers ○", size=13)]
    for tick in scale.ticks():
        x = scale.x(tick)
        drawn += [line(x, TOP - 12, x, height - BOTTOM, TEXT if tick == 1 else FAINT, 1.5 if tick == 1 else 1),
                  text(x, height - BOTTOM + 18, f"{tick:g} ×", "middle", 11)]
    for index, summary in enumerate(shown):
        drawn += row_of(summary, scale, TOP + LINE * index + LINE // 2)
    body = "\n".join(drawn)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
            f'font-family="sans-serif">\n{body}\n</svg>\n')
