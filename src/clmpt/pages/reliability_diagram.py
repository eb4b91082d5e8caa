"""The reliability diagram: what was said to be likely against what is true, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from clmpt.evaluation.reliability import Reliability

_SIZE, _LEFT, _TOP, _GAP = 240, 56, 44, 60
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1b1f24}.axis{stroke:#57606a;fill:none}"
    ".ideal{stroke:#57606a;stroke-dasharray:4 4}.line{stroke:#0969da;stroke-width:2;fill:none}"
    ".dot{fill:#0969da}.note{fill:#57606a}"
)


def reliability_svg(title: str, found: Sequence[Reliability]) -> str:
    """One panel for each; the area of a dot is the share of answers in its bin."""
    width = _LEFT + len(found) * (_SIZE + _GAP)
    height = _TOP + _SIZE + 52
    panels = "".join(_panel(one, _LEFT + n * (_SIZE + _GAP)) for n, one in enumerate(found))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img"><title>{escape(title)}</title>'
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="{_LEFT}" y="18" font-weight="600">{escape(title)}</text>{panels}</svg>\n'
    )


def _panel(one: Reliability, left: int) -> str:
    points = [(left + _SIZE * b.said, _TOP + _SIZE * (1 - b.true), b) for b in one.bins]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    dots = "".join(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{_radius(b.count, one.count):.1f}">'
        f"<title>said {b.said:.0%}, true {b.true:.0%}, {b.count:,} answers</title></circle>"
        for x, y, b in points
    )
    bottom = _TOP + _SIZE
    ticks = "".join(
        f'<text class="note" x="{left + _SIZE * n / 4:.0f}" y="{bottom + 16}" '
        f'text-anchor="middle">{25 * n}</text>'
        f'<text class="note" x="{left - 6}" y="{bottom - _SIZE * n / 4 + 4:.0f}" '
        f'text-anchor="end">{25 * n}</text>'
        for n in range(5)
    )
    return (
        f'<text x="{left}" y="{_TOP - 8}">{escape(one.name)}: error {one.error:.3f}, '
        f"{one.count:,} answers</text>"
        f'<rect class="axis" x="{left}" y="{_TOP}" width="{_SIZE}" height="{_SIZE}"/>'
        f'<path class="ideal" d="M{left} {bottom}L{left + _SIZE} {_TOP}"/>{ticks}'
        f'<text class="note" x="{left + _SIZE / 2}" y="{bottom + 34}" text-anchor="middle">'
        "said, per cent</text>"
        f'<text class="note" text-anchor="middle" '
        f'transform="translate({left - 34} {_TOP + _SIZE / 2}) rotate(-90)">true, per cent</text>'
        f'<polyline class="line" points="{line}"/>{dots}'
    )


def _radius(count: int, total: int) -> float:
    return 2.5 + 12 * math.sqrt(count / max(total, 1))
