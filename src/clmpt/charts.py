"""Line charts as SVG: so few lines that a plotting library would be the larger burden."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 420, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 16, 34, 44
_LONGEST_NAME = 9
_COLOURS = ("#0969da", "#cf222e", "#1a7f37", "#8250df", "#bf8700", "#57606a")
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1b1f24; }
.title { font-size: 13px; font-weight: 600; }
.tick { fill: #57606a; font-size: 11px; }
.grid { stroke: #d8dee4; stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
"""


@dataclass(frozen=True)
class Line:
    """A named series of points."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """Lines over one pair of axes."""

    title: str
    x_label: str
    lines: Sequence[Line]


def draw_charts(charts: Sequence[Chart]) -> str:
    """Charts side by side, with one legend below when there is more than one line in a chart."""
    names = list(dict.fromkeys(line.name for chart in charts for line in chart.lines))
    legend = 24 if len(names) > 1 else 0
    width, height = _WIDTH * len(charts), _HEIGHT + legend
    parts = [
        f'<g transform="translate({number * _WIDTH} 0)">{_draw(chart, names)}</g>'
        for number, chart in enumerate(charts)
    ]
    if legend:
        parts.append(_legend(names, height - 10))
    title = escape("; ".join(chart.title for chart in charts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img"><title>{title}</title>'
        f"<style>{_STYLE}</style>"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from below `low` to above `high`.

    >>> ticks(0.281, 0.352)
    [0.28, 0.3, 0.32, 0.34, 0.36]
    >>> ticks(0, 10)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    largest = max(abs(low), abs(high), 1.0)
    span = high - low if high - low > 1e-6 * largest else largest
    rough = span / (most - 1)
    scale = 10.0 ** math.floor(math.log10(rough))
    step = scale * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * scale >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def _draw(chart: Chart, names: list[str]) -> str:
    points = [point for line in chart.lines for point in line.points]
    parts = [f'<text class="title" x="{_LEFT}" y="20">{escape(chart.title)}</text>']
    if not points:
        return parts[0] + f'<text x="{_LEFT}" y="60">nothing to show yet</text>'
    xs, ys = ([point[axis] for point in points] for axis in (0, 1))
    x_ticks, y_ticks = ticks(min(xs), max(xs)), ticks(min(ys), max(ys))

    def at_x(value: float) -> float:
        share = (value - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def at_y(value: float) -> float:
        share = (value - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)

    for tick in y_ticks:
        y = at_y(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y}H{_WIDTH - _RIGHT}"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{tick:g}", "end"))
    below = _HEIGHT - _BOTTOM
    parts += [_text(at_x(tick), below + 16, f"{tick:g}", "middle") for tick in x_ticks]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(_text(middle, below + 34, chart.x_label, "middle"))
    for line in chart.lines:
        colour = _COLOURS[names.index(line.name) % len(_COLOURS)]
        path = "L".join(f"{at_x(x)} {at_y(y)}" for x, y in line.points)
        parts.append(f'<path class="line" stroke="{colour}" d="M{path}"/>')
        parts += [
            f'<circle cx="{at_x(x)}" cy="{at_y(y)}" r="2.5" fill="{colour}"/>'
            for x, y in line.points
        ]
    return "".join(parts)


def _text(x: float, y: float, content: str, anchor: str) -> str:
    return f'<text class="tick" x="{x}" y="{y}" text-anchor="{anchor}">{escape(content)}</text>'


def _legend(names: list[str], y: float) -> str:
    parts, x = [], float(_LEFT)
    for number, name in enumerate(names):
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<path class="line" stroke="{colour}" d="M{x} {y - 4}h18"/>')
        parts.append(f'<text x="{x + 24}" y="{y}">{escape(name)}</text>')
        x += 48 + 7 * len(name)
    return "".join(parts)


@dataclass(frozen=True)
class Bars:
    """A named value with a margin to either side."""

    name: str
    value: float
    margin: float = 0.0


def draw_bars(title: str, bars: Sequence[Bars]) -> str:
    """Values side by side, each with its number above it."""
    width = max(_WIDTH, _LEFT + _RIGHT + 44 * len(bars))
    top = max((bar.value + bar.margin for bar in bars), default=1.0)
    y_ticks = ticks(0, 1.1 * top if top > 0 else 1.0)  # room for the number above a bar

    def at_y(value: float) -> float:
        share = value / y_ticks[-1]
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [f'<text class="title" x="{_LEFT}" y="20">{escape(title)}</text>']
    for tick in y_ticks:
        parts.append(f'<path class="grid" d="M{_LEFT} {at_y(tick)}H{width - _RIGHT}"/>')
        parts.append(_text(_LEFT - 6, at_y(tick) + 4, f"{tick:g}", "end"))
    room = (width - _LEFT - _RIGHT) / max(len(bars), 1)
    for number, bar in enumerate(bars):
        x = _LEFT + (number + 0.5) * room
        low, high = at_y(max(bar.value - bar.margin, 0)), at_y(bar.value + bar.margin)
        y, base = at_y(bar.value), at_y(0)
        parts.append(
            f'<rect x="{x - room * 0.32:.1f}" y="{y}" width="{room * 0.64:.1f}" '
            f'height="{base - y:.1f}" fill="{_COLOURS[0]}"/>'
            f'<path d="M{x:.1f} {low}V{high}" stroke="#1b1f24" stroke-width="1.5"/>'
        )
        parts.append(_text(round(x, 1), high - 5, f"{bar.value:.1f}", "middle"))
        parts.append(_text(round(x, 1), _HEIGHT - _BOTTOM + 16, _shortened(bar.name), "middle"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" '
        f'width="{width}" height="{_HEIGHT}" role="img"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style>"
        f'<rect width="{width}" height="{_HEIGHT}" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
