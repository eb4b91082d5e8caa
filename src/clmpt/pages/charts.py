"""Line and bar charts as SVG.

Too little code to justify a plotting library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 420, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 16, 34, 44
_LONGEST_NAME, _LONGEST_OF_CLUSTERS, _LETTER = 9, 16, 6.5
_LEGEND_LINE = 20
_WIDEST, _ANGLE = 700, 35  # of names side by side; degrees by which wider ones are slanted
_SLOPE = math.sin(math.radians(_ANGLE))
_COLOURS = ("#0969da", "#cf222e", "#1a7f37", "#8250df", "#bf8700", "#57606a", "#1b7c83", "#bf3989")
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
    """Lines on one pair of axes."""

    title: str
    x_label: str
    lines: Sequence[Line]


def draw_charts(charts: Sequence[Chart]) -> str:
    """Charts side by side, with a shared legend below if a chart has more than one line."""
    names = list(dict.fromkeys(line.name for chart in charts for line in chart.lines))
    width = _WIDTH * len(charts)
    legend = _legend_height(names, width) if len(names) > 1 else 0
    height = _HEIGHT + legend
    parts = [
        f'<g transform="translate({number * _WIDTH} 0)">{_draw(chart, names)}</g>'
        for number, chart in enumerate(charts)
    ]
    if legend:
        parts.append(_legend(names, _HEIGHT + 14, width))
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


def _centred(x: float, y: float, content: str) -> str:
    return _text(x, y, content, "middle")


def _slanted(x: float, y: float, content: str) -> str:
    """Text that rises to its end, just right of x."""
    place = f'x="{x + 6}" y="{y}" transform="rotate(-{_ANGLE} {x + 6} {y})"'
    return f'<text class="tick" {place} text-anchor="end">{escape(content)}</text>'


def _legend(names: list[str], y: float, width: float) -> str:
    """Names with their colours, wrapped to the width."""
    parts = []
    for number, (name, (x, line)) in enumerate(zip(names, _places(names, width), strict=True)):
        colour, below = _COLOURS[number % len(_COLOURS)], y + line * _LEGEND_LINE
        parts.append(f'<path class="line" stroke="{colour}" d="M{x} {below - 4}h18"/>')
        parts.append(f'<text x="{x + 24}" y="{below}">{escape(name)}</text>')
    return "".join(parts)


def _places(names: Sequence[str], width: float) -> list[tuple[float, int]]:
    found: list[tuple[float, int]] = []
    x, line = float(_LEFT), 0
    for name in names:
        needed = 48 + 7 * len(name)
        if found and x + needed > width:
            x, line = float(_LEFT), line + 1
        found.append((x, line))
        x += needed
    return found


def _legend_height(names: Sequence[str], width: float) -> int:
    return 4 + _LEGEND_LINE * (1 + max((line for _, line in _places(names, width)), default=0))


@dataclass(frozen=True)
class Bars:
    """A named value with an error margin."""

    name: str
    value: float
    margin: float = 0.0


def draw_bars(title: str, bars: Sequence[Bars]) -> str:
    """A bar chart with the value above each bar."""
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


@dataclass(frozen=True)
class Cluster:
    """A named group of values, one per series."""

    name: str
    values: Sequence[float | None]


def draw_clusters(title: str, series: Sequence[str], clusters: Sequence[Cluster]) -> str:
    """A clustered bar chart with a colour per series and a legend below; names that would make it
    too wide are slanted."""
    names = [_shortened(cluster.name, _LONGEST_OF_CLUSTERS) for cluster in clusters]
    longest = max(map(len, names), default=0)
    least, beside = max(44.0, 9.0 * len(series) + 14), _LETTER * longest + 8
    is_slanted = beside > least and beside * len(clusters) > _WIDEST
    room = least if is_slanted else max(least, beside)
    below = round(_LETTER * longest * _SLOPE) if is_slanted else 0  # the names reach so far down
    legend = _legend_height(series, _LEFT + _RIGHT + room * len(clusters)) + below
    width = round(max(_WIDTH, _LEFT + _RIGHT + room * len(clusters)))
    height = _HEIGHT + legend
    values = [value for cluster in clusters for value in cluster.values if value is not None]
    y_ticks = ticks(0, max(values, default=0.0) or 1.0)

    def at_y(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - value / y_ticks[-1] * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [f'<text class="title" x="{_LEFT}" y="20">{escape(title)}</text>']
    for tick in y_ticks:
        parts.append(f'<path class="grid" d="M{_LEFT} {at_y(tick)}H{width - _RIGHT}"/>')
        parts.append(_text(_LEFT - 6, at_y(tick) + 4, f"{tick:g}", "end"))
    bar = (room - 14) / max(len(series), 1)
    for number, cluster in enumerate(clusters):
        x = _LEFT + number * room + 7
        for at, value in enumerate(cluster.values):
            if value is None:
                continue
            y = at_y(value)
            parts.append(
                f'<rect x="{x + at * bar:.1f}" y="{y}" width="{bar - 1:.1f}" '
                f'height="{at_y(0) - y:.1f}" fill="{_COLOURS[at % len(_COLOURS)]}">'
                f"<title>{escape(series[at])}, {escape(cluster.name)}: {value:.1f}</title></rect>"
            )
        middle = round(x + (room - 14) / 2, 1)
        under = _HEIGHT - _BOTTOM + 16
        parts.append((_slanted if is_slanted else _centred)(middle, under, names[number]))
    parts.append(_legend(list(series), _HEIGHT - 6 + below, width))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style>"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def _shortened(name: str, most: int = _LONGEST_NAME) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
