"""SPARQL to Query, for what is existential first-order, and Query to SPARQL text.

Solutions are sets here, so DISTINCT changes nothing. Everything else is rejected by name; exact
answers to any SPARQL query are given by `clmpt.sparql`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, product

from clmpt.errors import Position, QueryTooLarge, UnsafeQuery, UnsupportedQuery
from clmpt.logic.algebra import (
    AlternativePath,
    AnyOf,
    Basic,
    Bind,
    Call,
    ExistsTest,
    Expression,
    InGraph,
    InversePath,
    JoinAll,
    NegatedPath,
    Optionally,
    Path,
    PatternTerm,
    RepeatedPath,
    Select,
    SequencePath,
    Service,
    SparqlQuery,
    Subquery,
    TriplePattern,
    Values,
    Where,
    Without,
    sub_expressions,
)
from clmpt.logic.algebra import Pattern as SparqlPattern
from clmpt.logic.formula import (
    Atom,
    Exists,
    Formula,
    Limits,
    Name,
    Query,
    Symbol,
    Term,
    Variable,
    conjunction,
    disjunction,
    negate,
)
from clmpt.logic.iris import iri_of, symbol_of
from clmpt.logic.normal_form import Pattern
from clmpt.logic.rdf_terms import Iri, rdf_text
from clmpt.logic.sparql_parser import read_sparql

# What a part of a query is called in SPARQL, and what to do instead.
_UNSUPPORTED: dict[type, tuple[str, str]] = {
    Optionally: ("OPTIONAL", "Leave it out, or ask for it without OPTIONAL"),
    Bind: ("BIND", "Ask for the variable itself"),
    InGraph: ("GRAPH", "Leave it out: all named graphs are merged"),
    Service: ("SERVICE", "Import the other graph first"),
    Values: ("VALUES", "Use UNION"),
}
_EXACT = "'clmpt solve' answers it exactly, and so does graph.sparql in Python"


def parse_sparql(text: str, limits: Limits | None = None) -> Query:
    """The query that a SPARQL SELECT expresses.

    The empty prefix stands for plain names, so `:Mizoguchi` is the entity named Mizoguchi.

    >>> print(parse_sparql("SELECT ?y { :a :r/^:s ?y FILTER NOT EXISTS { ?y :t ?z } }"))
    ?y : r(a, ?_1) & s(?y, ?_1) & !exists ?z (t(?y, ?z))
    """
    return efo_query(read_sparql(text), limits)


def efo_query(query: SparqlQuery, limits: Limits | None = None) -> Query:
    """The existential first-order query that a SELECT expresses."""
    if query.form != "SELECT":
        raise UnsupportedQuery(f"Unsupported {query.form}", _EXACT, query.position)
    if query.has_dataset:
        raise UnsupportedQuery(
            "Unsupported FROM", "Choose the graph by its folder", _first_place(query)
        )
    _check_modifiers(query.select)
    return Translator(limits or Limits(), _names_in(query.select.where)).query(query.select)


def sparql_text(query: Query) -> str:
    """A SELECT with the same answers; alternatives become UNION, negated parts NOT EXISTS."""
    groups = [_group(pattern) for pattern in query.patterns]
    body = groups[0] if len(groups) == 1 else " UNION ".join(f"{{ {group} }}" for group in groups)
    limit = f" LIMIT {query.limit}" if query.limit is not None else ""
    asked = " ".join(f"?{variable.name}" for variable in query.frees)
    return f"SELECT DISTINCT {asked} WHERE {{ {body} }}{limit}"


def _group(pattern: Pattern) -> str:
    triples = [
        f"{_term(atom.head)} <{iri_of(atom.relation)}> {_term(atom.tail)} ."
        for atom in pattern.atoms
    ]
    filters = [f"FILTER NOT EXISTS {{ {_group(absent)} }}" for absent in pattern.absent]
    return " ".join([*triples, *filters])


def _term(term: Term) -> str:
    return f"?{term.name}" if isinstance(term, Variable) else f"<{iri_of(term)}>"


def _check_modifiers(select: Select) -> None:
    computed = [one.expression for one in select.columns or () if one.expression]
    for word, used in (
        ("expression in SELECT", computed),
        ("GROUP BY", [key.expression or key.variable for key in select.keys]),
        ("HAVING", list(select.having)),
        ("ORDER BY", [key.expression for key in select.order]),
    ):
        if used:
            raise UnsupportedQuery(f"Unsupported {word}", _EXACT, _place(used[0]))
    if select.offset:
        raise UnsupportedQuery("Unsupported OFFSET", _EXACT, select.position)


def _first_place(query: SparqlQuery) -> Position | None:
    return next((iri.position for iri in (*query.default_graphs, *query.named_graphs)), None)


def _names_in(pattern: SparqlPattern) -> set[str]:
    return set(re.findall(r"Variable\(name='(\w+)'", repr(pattern)))


@dataclass(frozen=True)
class _Alternative:
    """A way to satisfy a group, and the variables it binds; no formula means it always holds."""

    formula: Formula | None
    bound: frozenset[Variable] = frozenset()

    def both(self, other: _Alternative) -> _Alternative:
        parts = [part for part in (self.formula, other.formula) if part is not None]
        return _Alternative(conjunction(parts) if parts else None, self.bound | other.bound)


class Translator:
    """Graph patterns to formulas. `taken` are names that new variables must not have."""

    def __init__(self, limits: Limits, taken: set[str]) -> None:
        self.limits = limits
        self.numbers = (n for n in count(1) if f"_{n}" not in taken)
        self.hidden: dict[Variable, Variable] = {}

    def query(self, select: Select) -> Query:
        return self.asking(select.names, select.where, select.limit, select.position)

    def asking(
        self,
        wanted: tuple[Variable, ...],
        where: SparqlPattern,
        limit: int | None = None,
        position: Position | None = None,
    ) -> Query:
        """The query for some variables of a pattern."""
        alternatives = self.group(where, frozenset())
        if not wanted:
            raise UnsafeQuery("The query selects no variable", "Select one", position)
        formulas = [alternative.formula for alternative in alternatives]
        if None in formulas:
            raise UnsafeQuery("The query has a group without any triple pattern", "Add one")
        body = disjunction([formula for formula in formulas if formula is not None])
        return Query(wanted, body, limit, self.limits)

    def group(self, node: SparqlPattern, visible: frozenset[Variable]) -> list[_Alternative]:
        """The alternatives of a group. `visible` variables are passed in by an EXISTS around it."""
        if isinstance(node, Basic):
            return [self.basic(node.triples)]
        if isinstance(node, JoinAll):
            found = [_Alternative(None)]
            for part in node.parts:
                found = self.pairs(found, self.group(part, visible))
            return found
        if isinstance(node, AnyOf):
            inner = [self.group(part, visible) for part in node.parts]
            return self.checked([one for part in inner for one in part])
        if isinstance(node, Where):
            return [
                one.both(_Alternative(self.condition(node.condition, one.bound | visible)))
                for one in self.group(node.inner, visible)
            ]
        if isinstance(node, Without):
            removed = self.group(node.right, visible)
            return [self.without(one, removed, visible) for one in self.group(node.left, visible)]
        if isinstance(node, Subquery):
            return self.subquery(node.select, visible)
        word, way_out = _UNSUPPORTED[type(node)]
        raise UnsupportedQuery(f"Unsupported {word}", way_out, node.position)

    def subquery(self, select: Select, visible: frozenset[Variable]) -> list[_Alternative]:
        _check_modifiers(select)
        if select.limit is not None:
            raise UnsupportedQuery(
                "Unsupported LIMIT",
                "It cannot be used inside a group; limit the whole query",
                select.position,
            )
        kept = frozenset(select.names)
        inner = self.group(select.where, visible & kept)
        return [_hide(one, one.bound - kept) for one in inner]

    def pairs(self, left: list[_Alternative], right: list[_Alternative]) -> list[_Alternative]:
        self.check(len(left) * len(right))
        return [one.both(other) for one, other in product(left, right)]

    def checked(self, alternatives: list[_Alternative]) -> list[_Alternative]:
        self.check(len(alternatives))
        return alternatives

    def check(self, alternatives: int) -> None:
        if alternatives > self.limits.disjuncts:
            raise QueryTooLarge(
                f"The query has more than {self.limits.disjuncts} alternatives",
                "Ask them one by one, or allow more (--max-alternatives, or Limits in Python)",
            )

    def without(
        self, one: _Alternative, removed: list[_Alternative], visible: frozenset[Variable]
    ) -> _Alternative:
        """MINUS: a removed solution must share a variable, or it removes nothing."""
        for other in removed:
            if other.formula is not None and one.bound & other.bound:
                absent = _hide(other, other.bound - one.bound - visible).formula
                assert absent is not None
                one = one.both(_Alternative(negate(absent)))
        return one

    def condition(self, expression: Expression, visible: frozenset[Variable]) -> Formula:
        if isinstance(expression, ExistsTest):
            found = self.exists(expression, visible)
            return negate(found) if expression.negated else found
        if isinstance(expression, Call) and expression.name in ("&&", "||"):
            inner = [self.condition(part, visible) for part in expression.arguments]
            return (conjunction if expression.name == "&&" else disjunction)(inner)
        if isinstance(expression, Call) and expression.name == "!":
            return negate(self.condition(expression.arguments[0], visible))
        raise UnsupportedQuery(
            "Unsupported FILTER by value",
            "FILTER takes only EXISTS and NOT EXISTS; leave the comparison out, or make its value "
            "an entity",
            _place(expression),
        )

    def exists(self, test: ExistsTest, visible: frozenset[Variable]) -> Formula:
        formulas = []
        for one in self.group(test.pattern, visible):
            inner = _hide(one, one.bound - visible).formula
            if inner is None:
                raise UnsafeQuery(
                    "EXISTS around an empty group", "Put a pattern in it", test.position
                )
            formulas.append(inner)
        return disjunction(formulas)

    def basic(self, triples: Iterable[TriplePattern]) -> _Alternative:
        """Steps of paths and blank nodes are existential variables."""
        found = _Alternative(None)
        for triple in triples:
            head, tail = self.term(triple.subject), self.term(triple.object)
            bound = frozenset(term for term in (head, tail) if isinstance(term, Variable))
            found = found.both(_Alternative(self.path(triple.predicate, head, tail), bound))
        return found

    def path(self, path: Variable | Path, head: Term, tail: Term) -> Formula:
        if isinstance(path, Iri):
            return Atom(self.symbol(path), head, tail)
        if isinstance(path, InversePath):
            return self.path(path.path, tail, head)
        if isinstance(path, AlternativePath):
            return disjunction([self.path(part, head, tail) for part in path.parts])
        if isinstance(path, SequencePath):
            between = [Variable(f"_{next(self.numbers)}") for _ in path.parts[1:]]
            ends = [head, *between, tail]
            hops = [
                self.path(p, a, b) for p, a, b in zip(path.parts, ends[:-1], ends[1:], strict=True)
            ]
            return Exists(tuple(between), conjunction(hops)) if between else hops[0]
        if isinstance(path, RepeatedPath | NegatedPath):
            repeated = isinstance(path, RepeatedPath)
            kind = f"path operator '{path.mark}'" if isinstance(path, RepeatedPath) else "'!' path"
            raise UnsupportedQuery(
                f"Unsupported {kind}",
                "Write the steps out: r/r for two, and UNION between alternatives"
                if repeated
                else "Name the relations that you mean",
                path.position,
            )
        raise UnsupportedQuery(
            f"The relation ?{path.name} is a variable", "Name the relation", path.position
        )

    def term(self, term: PatternTerm) -> Term:
        if isinstance(term, Variable):
            if not term.name.startswith("."):
                return term
            if term not in self.hidden:
                self.hidden[term] = Variable(f"_{next(self.numbers)}")
            return self.hidden[term]
        return self.symbol(term) if isinstance(term, Iri) else Name(rdf_text(term))

    def symbol(self, iri: Iri) -> Symbol:
        symbol = symbol_of(iri.text)
        return Name(symbol.text, iri.position) if isinstance(symbol, Name) else symbol


def _place(expression: Expression) -> Position | None:
    places = (getattr(one, "position", None) for one in sub_expressions(expression))
    return next((place for place in places if place is not None), None)


def _hide(one: _Alternative, hidden: frozenset[Variable]) -> _Alternative:
    """The alternative with some of its variables quantified away."""
    if not hidden or one.formula is None:
        return one
    own = tuple(sorted(hidden, key=lambda variable: variable.name))
    return _Alternative(Exists(own, one.formula), one.bound - hidden)
