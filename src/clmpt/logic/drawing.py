"""Drawings of query graphs: as text for a terminal, and as SVG.

Terms are nodes and atoms are edges. Negation is marked: a negated atom by ✗ or a dashed red edge, a
negated group (no such entity exists) by a marked part of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby

from clmpt.logic.formula import Atom, Query, Term, Variable
from clmpt.logic.normal_form import Pattern, all_variables
from clmpt.logic.printing import symbol_text, term_text

# --- text -----------------------------------------------------------------------------------------


def draw_text(query: Query) -> str:
    """The query graph as a tree rooted at the free variable. Of several, the first is the root, and
    all are marked.

    >>> from clmpt.logic.parser import parse_formula
    >>> print(draw_text(parse_formula("?y : wrote(?x, ?y) & won(?x, Nobel) & !banned(?y, USSR)")))
    ?y
    ├─◀ wrote ─ ?x
    │  └─ won ▶─ Nobel
    └✗─ banned ▶─ USSR
    """
    asked = query.frees if len(query.frees) > 1 else ()
    pictures = [
        "\n".join(_Tree(pattern, asked).lines(query.frees[0])) for pattern in query.patterns
    ]
    return "\n\nor\n\n".join(pictures)


class _Tree:
    """`asked` are the terms to mark."""

    def __init__(
        self, pattern: Pattern, asked: tuple[Term, ...], seen: set[Term] | None = None
    ) -> None:
        self.asked = asked
        self.edges = [(atom, False) for atom in pattern.atoms]
        self.groups: list[Pattern] = []
        for absent in pattern.absent:
            if absent.variables:
                self.groups.append(absent)
            else:
                self.edges += [(atom, True) for atom in absent.atoms]
        self.seen = set(seen or ())

    def text(self, term: Term) -> str:
        return term_text(term) + " (asked for)" * (term in self.asked)

    def lines(self, root: Term) -> Iterator[str]:
        yield self.text(root)
        yield from self.below(root)
        yield from self.disconnected()

    def disconnected(self) -> Iterator[str]:
        """The parts that no path connects to the root."""
        while self.edges:
            start = self.edges[0][0].head
            yield f"and  {self.text(start)}"
            yield from self.below(start)
        while self.groups:
            line, inside = self.group(self.groups.pop(0), None)
            yield f"and  {line}"
            yield from ("     " + below for below in inside)

    def below(self, node: Term) -> list[str]:
        """The branches at a node, each with its subtree."""
        self.seen.add(node)
        branches: list[tuple[str, list[str]]] = []
        while mine := [e for e in self.edges if node in (e[0].head, e[0].tail)]:
            self.edges.remove(mine[0])
            branches.append(self.branch(node, *mine[0]))
        for group in [g for g in self.groups if node in all_variables(g)]:
            self.groups.remove(group)
            branches.append(self.group(group, node))
        found = []
        for number, (line, inside) in enumerate(branches):
            last = number == len(branches) - 1
            found.append(("└" if last else "├") + line)
            found += [("   " if last else "│  ") + below for below in inside]
        return found

    def group(self, group: Pattern, node: Term | None) -> tuple[str, list[str]]:
        """A negated group, drawn from a node that occurs in it, if any."""
        names = " ".join(f"?{variable.name}" for variable in group.variables)
        inner = _Tree(group, self.asked, self.seen - set(group.variables))
        inside = inner.below(node) if node else []
        return f"✗─ there is no {names} with", [*inside, *inner.disconnected()]

    def branch(self, node: Term, atom: Atom, negated: bool) -> tuple[str, list[str]]:
        forward = atom.head == node
        other = atom.tail if forward else atom.head
        mark = "✗" if negated else "─"
        name = symbol_text(atom.relation)
        line = f"{mark}─ {name} ▶─ " if forward else f"{mark}◀ {name} ─ "
        line = line.replace("── ", "─ ", 1)
        if other in self.seen:
            again = " (the same)" if isinstance(other, Variable) else ""
            return line + term_text(other) + again, []
        return line + self.text(other), self.below(other)


# --- SVG ------------------------------------------------------------------------------------------

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1b1f24; text-anchor: middle; }
.label { font-size: 12px; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
.edge { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#arrow); }
.no .edge { stroke: #cf222e; stroke-dasharray: 5 4; marker-end: url(#no-arrow); }
.no .label { fill: #cf222e; }
.constant { fill: #ddf4ff; stroke: #0969da; }
.hidden { fill: #f6f8fa; stroke: #57606a; }
.free { fill: #fff1e5; stroke: #bc4c00; stroke-width: 2.5; }
.none { fill: #ffebe9; stroke: #cf222e; stroke-dasharray: 5 4; }
.or { font-style: italic; fill: #57606a; }
""".strip()
_MARKER = (
    '<marker id="{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
)
_ROW, _MARGIN, _HEIGHT, _LETTER = 74, 28, 30, 7.6


@dataclass(frozen=True)
class _Edge:
    """An atom to draw: whether it is inside a negation, and whether it is negated itself."""

    atom: Atom
    within: bool
    negated: bool
    note: str = ""
    dashed: bool = False


@dataclass
class _Layout:
    """The node positions of one alternative: a column per distance from the free variable."""

    edges: list[_Edge]
    none: set[Variable]
    asked: Sequence[Term]  # columns are counted from the first
    place: dict[Term, tuple[float, float]] = field(default_factory=dict)
    width: float = 0
    height: float = 0


def draw_svg(query: Query) -> str:
    """A self-contained SVG: constants blue, free variables orange, negated parts red."""
    layouts = [_layout(*_flat(pattern), query.frees) for pattern in query.patterns]
    return _stacked(str(query), [("or" * bool(n), each) for n, each in enumerate(layouts)])


@dataclass(frozen=True)
class DrawnFact:
    """A fact of a derivation: `dashed` if it is not known, with a note at its edge."""

    atom: Atom
    negated: bool
    dashed: bool
    note: str


def draw_derivations(
    title: str, derivations: Sequence[tuple[str, Term, Sequence[DrawnFact]]]
) -> str:
    """An SVG of derivations, each with a heading and the answer that it ends in."""
    layouts = []
    for heading, answer, facts in derivations:
        edges = [_Edge(f.atom, f.negated, f.negated, f.note, f.dashed) for f in facts]
        layouts.append((heading, _layout(edges, set(), [answer])))
    return _stacked(title, layouts)


def _stacked(title: str, layouts: Sequence[tuple[str, _Layout]]) -> str:
    """Drawings below each other, each with a heading, if it has one."""
    width = max(layout.width for _, layout in layouts)
    parts, top = [], 14.0 * bool(layouts[0][0])
    for heading, layout in layouts:
        if heading:
            at = f'x="{width / 2:.0f}" y="{top + 5:.0f}"'
            parts.append(f'<text class="or" {at}>{escape(heading)}</text>')
            top += 20
        shift = (width - layout.width) / 2
        drawn = _draw(layout)
        parts.append(f'<g transform="translate({shift:.0f} {top:.0f})">{drawn}</g>')
        top += layout.height
    markers = _MARKER.format(name="arrow", colour="#57606a") + _MARKER.format(
        name="no-arrow", colour="#cf222e"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}" '
        f'viewBox="0 0 {width:.0f} {top:.0f}" role="img"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><defs>{markers}</defs>"
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def _flat(pattern: Pattern, within: bool = False) -> tuple[list[_Edge], set[Variable]]:
    """All edges of a pattern, including nested ones, and the variables that must not exist."""
    edges = [_Edge(atom, within, False) for atom in pattern.atoms]
    none: set[Variable] = set(pattern.variables) if within else set()
    for absent in pattern.absent:
        if absent.variables:
            inner, hidden = _flat(absent, True)
            edges += inner
            none |= hidden
        else:
            edges += [_Edge(atom, True, True) for atom in absent.atoms]
    return edges, none


def _layout(edges: list[_Edge], none: set[Variable], asked: Sequence[Term]) -> _Layout:
    layout = _Layout(edges, none, asked)
    distance: dict[Term, int] = {asked[0]: 0}
    queue: list[Term] = [asked[0]]
    terms = dict.fromkeys(end for edge in edges for end in (edge.atom.head, edge.atom.tail))
    while queue or len(distance) < len(terms):
        if not queue:
            queue = [next(term for term in terms if term not in distance)]
            distance[queue[0]] = max(distance.values()) + 1
        node = queue.pop(0)
        for atom in (edge.atom for edge in edges):
            for near, far in ((atom.head, atom.tail), (atom.tail, atom.head)):
                if near == node and far not in distance:
                    distance[far] = distance[node] + 1
                    queue.append(far)
    columns = [
        list(column)
        for _, column in groupby(
            sorted(terms, key=lambda t: -distance[t]), key=distance.__getitem__
        )
    ]
    longest = max(len(symbol_text(edge.atom.relation) + edge.note) for edge in edges) * _LETTER + 70
    layout.height = 2 * _MARGIN + _ROW * max(len(column) for column in columns)
    left = float(_MARGIN)
    for column in columns:
        wide = max(_width(term) for term in column)
        for number, term in enumerate(column):
            y = layout.height * (number + 0.5) / len(column)
            layout.place[term] = (left + wide / 2, y)
        left += wide + longest
    layout.width = left - longest + _MARGIN
    return layout


def _width(term: Term) -> float:
    return max(_HEIGHT + 8, (len(term_text(term)) + 4) * _LETTER)


def _draw(layout: _Layout) -> str:
    parts, drawn = [], dict[frozenset[Term], int]()
    for edge in layout.edges:
        pair = frozenset((edge.atom.head, edge.atom.tail))
        parts.append(_edge(layout, edge, drawn.get(pair, 0)))
        drawn[pair] = drawn.get(pair, 0) + 1
    for term, (x, y) in layout.place.items():
        kind = (
            "free"
            if term in layout.asked
            else "none"
            if term in layout.none
            else "hidden"
            if isinstance(term, Variable)
            else "constant"
        )
        text = ("no " if kind == "none" else "") + term_text(term)
        wide = _width(term)
        round_ = _HEIGHT / 2 if isinstance(term, Variable) else 5
        parts.append(
            f'<rect class="{kind}" x="{x - wide / 2:.1f}" y="{y - _HEIGHT / 2:.1f}" '
            f'width="{wide:.1f}" height="{_HEIGHT}" rx="{round_}"/>'
            f'<text x="{x:.1f}" y="{y + 4.5:.1f}">{escape(text)}</text>'
        )
    return "".join(parts)


def _edge(layout: _Layout, edge: _Edge, number: int) -> str:
    """A line, curved if the two nodes have several, or a loop."""
    atom = edge.atom
    (x1, y1), (x2, y2) = layout.place[atom.head], layout.place[atom.tail]
    bend = (number + 1) // 2 * 26 * (-1) ** number
    if atom.head == atom.tail:
        half, up = _width(atom.head) / 4, 34 + 16 * number
        path = f"M{x1 - half:.1f} {y1 - 15:.1f}C{x1 - 30} {y1 - up - 20} {x1 + 30} {y1 - up - 20} "
        path += f"{x1 + half:.1f} {y1 - 15:.1f}"
        middle = (x1, y1 - up - 6)
    else:
        x1, y1 = _border(layout, atom.head, x2, y2 + bend)
        x2, y2 = _border(layout, atom.tail, x1, y1 + bend)
        if abs(x1 - x2) < 1:
            bend += 40
        path = f"M{x1:.1f} {y1:.1f}Q{(x1 + x2) / 2 + bend * (abs(x1 - x2) < 1):.1f} "
        path += f"{(y1 + y2) / 2 + bend:.1f} {x2:.1f} {y2:.1f}"
        middle = ((x1 + x2) / 2 + bend / 2 * (abs(x1 - x2) < 1), (y1 + y2) / 2 + bend / 2)
    name = ("¬ " if edge.negated else "") + symbol_text(atom.relation) + edge.note
    dashes = ' stroke-dasharray="5 4"' if edge.dashed else ""
    return (
        f'<g class="{"no" if edge.within else "yes"}"><path class="edge"{dashes} d="{path}"/>'
        f'<text class="label" x="{middle[0]:.1f}" y="{middle[1] - 5:.1f}">{escape(name)}</text></g>'
    )


def _border(layout: _Layout, term: Term, x: float, y: float) -> tuple[float, float]:
    """Where a line from a node's centre towards (x, y) leaves the node."""
    cx, cy = layout.place[term]
    dx, dy = x - cx, y - cy
    if not dx and not dy:
        return cx, cy
    scale = min(
        (_width(term) / 2 + 2) / abs(dx) if dx else 1e9, (_HEIGHT / 2 + 2) / abs(dy) if dy else 1e9
    )
    return cx + dx * scale, cy + dy * scale
