"""SPARQL SELECT to Query, via rdflib's algebra, and Query to SPARQL text.

Solutions are sets here, so DISTINCT changes nothing. Everything outside EFO-1 is rejected by name.
rdflib takes a third of a second to import, so it is imported only when SPARQL is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, product
from typing import Any

from clmpt.errors import (
    QuerySyntaxError,
    QueryTooLarge,
    UnsafeQuery,
    UnsupportedQuery,
)
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
from clmpt.logic.sparql_source import SparqlSource

# What an algebra node or expression is called in a query, and what to do instead.
_UNSUPPORTED = {
    "LeftJoin": ("OPTIONAL", "Leave it out, or ask for it without OPTIONAL"),
    "Slice": ("LIMIT", "It cannot be used inside a group; limit the whole query"),
    "Extend": ("BIND", "Ask for the variable itself"),
    "Group": ("GROUP BY", "Ask without aggregates and count the answers"),
    "AggregateJoin": (
        "COUNT|SUM|MIN|MAX|AVG|SAMPLE|GROUP_CONCAT|GROUP BY|HAVING",
        "Ask without aggregates and count the answers",
    ),
    "OrderBy": ("ORDER BY", "Leave it out: answers are a set"),
    "Graph": ("GRAPH", "Leave it out: all named graphs are merged"),
    "ServiceGraphPattern": ("SERVICE", "Import the other graph first"),
    "values": ("VALUES", "Use UNION"),
}


def parse_sparql(text: str, limits: Limits | None = None) -> Query:
    """The query that a SPARQL SELECT with one variable expresses.

    The empty prefix stands for plain names, so `:Mizoguchi` is the entity named Mizoguchi.

    >>> print(parse_sparql("SELECT ?y { :a :r/^:s ?y FILTER NOT EXISTS { ?y :t ?z } }"))
    ?y : exists ?_1 (r(a, ?_1) & s(?y, ?_1)) & !exists ?z (t(?y, ?z))
    """
    if not text.strip():
        raise QuerySyntaxError("The query is empty", "Write, for example, SELECT ?x { :a :r ?x }")
    source = SparqlSource(text)
    algebra = source.algebra()
    return _Translator(source, limits or Limits()).query(algebra)


def sparql_text(query: Query) -> str:
    """A SELECT with the same answers; alternatives become UNION, negated parts NOT EXISTS."""
    groups = [_group(pattern) for pattern in query.patterns]
    body = groups[0] if len(groups) == 1 else " UNION ".join(f"{{ {group} }}" for group in groups)
    limit = f" LIMIT {query.limit}" if query.limit is not None else ""
    return f"SELECT DISTINCT ?{query.free.name} WHERE {{ {body} }}{limit}"


def _group(pattern: Pattern) -> str:
    triples = [
        f"{_term(atom.head)} <{iri_of(atom.relation)}> {_term(atom.tail)} ."
        for atom in pattern.atoms
    ]
    filters = [f"FILTER NOT EXISTS {{ {_group(absent)} }}" for absent in pattern.absent]
    return " ".join([*triples, *filters])


def _term(term: Term) -> str:
    return f"?{term.name}" if isinstance(term, Variable) else f"<{iri_of(term)}>"


@dataclass(frozen=True)
class _Alternative:
    """A way to satisfy a group, and the variables it binds; no formula means it always holds."""

    formula: Formula | None
    bound: frozenset[Variable] = frozenset()

    def both(self, other: _Alternative) -> _Alternative:
        parts = [part for part in (self.formula, other.formula) if part is not None]
        return _Alternative(conjunction(parts) if parts else None, self.bound | other.bound)


class _Translator:
    def __init__(self, source: SparqlSource, limits: Limits) -> None:
        self.source, self.limits = source, limits
        used = set(re.findall(r"[?$](\w+)", source.text))
        self.numbers = (n for n in count(1) if f"_{n}" not in used)
        self.blank: dict[str, Variable] = {}

    def query(self, node: Any) -> Query:
        if node.name != "SelectQuery":
            word = str(node.name).removesuffix("Query").upper()
            raise UnsupportedQuery(
                f"Unsupported {word}",
                "Use SELECT with one variable",
                self.source.find(word),
            )
        if node.datasetClause is not None:
            raise UnsupportedQuery(
                "Unsupported FROM",
                "Choose the graph by its folder",
                self.source.find(r"(?<![?$:])FROM"),
            )
        node, limit = node.p, None
        while node.name in ("Slice", "Distinct", "Reduced"):
            if node.name == "Slice":
                limit = self.limit(node)
            node = node.p
        if node.name != "Project":
            raise self.unsupported(node)
        alternatives = self.group(node.p, frozenset())
        free = self.free(node, alternatives)
        formulas = [alternative.formula for alternative in alternatives]
        if None in formulas:
            raise UnsafeQuery("The query has a group without any triple pattern", "Add one")
        body = disjunction([formula for formula in formulas if formula is not None])
        return Query(free, body, limit, self.limits)

    def limit(self, node: Any) -> int | None:
        if node.start:
            raise UnsupportedQuery(
                "Unsupported OFFSET", "Use LIMIT alone", self.source.find("OFFSET")
            )
        return None if node.length is None else int(node.length)

    def free(self, node: Any, alternatives: list[_Alternative]) -> Variable:
        wanted = [_variable(variable) for variable in node.PV]
        if self.source.selects_all:  # rdflib then also lists variables of MINUS and EXISTS
            bound = frozenset[Variable]().union(*(one.bound for one in alternatives))
            wanted = [variable for variable in wanted if variable in bound]
        if len(wanted) == 1:
            return Variable(wanted[0].name, self.source.find(rf"(?<=\?){wanted[0].name}"))
        names = " ".join(f"?{variable.name}" for variable in wanted) or "none"
        raise UnsafeQuery(
            f"A query has one free variable; this SELECT has {len(wanted)} ({names})",
            "Select only the one whose values you want",
            self.source.find("SELECT"),
        )

    def group(self, node: Any, visible: frozenset[Variable]) -> list[_Alternative]:
        """The alternatives of a group. `visible` variables are passed in by an EXISTS around it."""
        if isinstance(node, list):  # what rdflib makes of a VALUES without values
            raise self.unsupported_kind("values")
        if node.name == "BGP":
            return [self.basic(node.triples)]
        if node.name == "Join":
            return self.pairs(self.group(node.p1, visible), self.group(node.p2, visible))
        if node.name == "Union":
            return self.checked([*self.group(node.p1, visible), *self.group(node.p2, visible)])
        if node.name == "Filter":
            return [
                one.both(_Alternative(self.condition(node.expr, one.bound | visible)))
                for one in self.group(node.p, visible)
            ]
        if node.name == "Minus":
            removed = self.group(node.p2, visible)
            return [self.without(one, removed, visible) for one in self.group(node.p1, visible)]
        if node.name in ("ToMultiSet", "Distinct", "Reduced"):
            return self.group(node.p, visible)
        if node.name == "Project":
            kept = frozenset(_variable(variable) for variable in node.PV)
            return [_hide(one, one.bound - kept) for one in self.group(node.p, visible & kept)]
        raise self.unsupported(node)

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

    def condition(self, expression: Any, visible: frozenset[Variable]) -> Formula:
        name = getattr(expression, "name", "")
        if name in ("Builtin_NOTEXISTS", "Builtin_EXISTS"):
            found = self.exists(expression.graph, visible)
            return found if name == "Builtin_EXISTS" else negate(found)
        if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
            parts = [expression.expr, *expression.other]
            inner = [self.condition(part, visible) for part in parts]
            return (conjunction if "And" in name else disjunction)(inner)
        if name == "UnaryNot":
            return negate(self.condition(expression.expr, visible))
        raise UnsupportedQuery(
            "Unsupported FILTER by value",
            "FILTER takes only EXISTS and NOT EXISTS; leave the comparison out, or make its value "
            "an entity",
            self.source.find(r"FILTER(?!\s*NOT\b|\s*EXISTS\b)"),
        )

    def exists(self, node: Any, visible: frozenset[Variable]) -> Formula:
        formulas = []
        for one in self.group(node, visible):
            inner = _hide(one, one.bound - visible).formula
            if inner is None:
                raise UnsafeQuery(
                    "EXISTS around an empty group",
                    "Put a pattern in it",
                    self.source.find("EXISTS"),
                )
            formulas.append(inner)
        return disjunction(formulas)

    def basic(self, triples: Iterable[tuple[Any, Any, Any]]) -> _Alternative:
        found = _Alternative(None)
        for subject, predicate, object_ in triples:
            head, tail = self.term(subject), self.term(object_)
            bound = frozenset(term for term in (head, tail) if isinstance(term, Variable))
            found = found.both(_Alternative(self.path(predicate, head, tail), bound))
        return found

    def path(self, path: Any, head: Term, tail: Term) -> Formula:
        from rdflib.paths import AlternativePath, InvPath, MulPath, NegatedPath, SequencePath
        from rdflib.term import URIRef

        if isinstance(path, URIRef):
            return Atom(self.symbol(str(path)), head, tail)
        if isinstance(path, InvPath):
            return self.path(path.arg, tail, head)
        if isinstance(path, AlternativePath):
            return disjunction([self.path(part, head, tail) for part in path.args])
        if isinstance(path, SequencePath):
            inner = [Variable(f"_{next(self.numbers)}") for _ in path.args[1:]]
            ends = [head, *inner, tail]
            hops = [
                self.path(p, a, b) for p, a, b in zip(path.args, ends[:-1], ends[1:], strict=True)
            ]
            return Exists(tuple(inner), conjunction(hops)) if inner else hops[0]
        if isinstance(path, MulPath | NegatedPath):
            kind = f"path operator '{path.mod}'" if isinstance(path, MulPath) else "'!' path"
            mark = path.mod if isinstance(path, MulPath) else "!"
            raise UnsupportedQuery(
                f"Unsupported {kind}",
                "Write the steps out: r/r for two, and UNION between alternatives",
                self.source.mark(mark),
            )
        raise UnsupportedQuery(
            f"The relation ?{path} is a variable", "Name the relation", self.source.find(str(path))
        )

    def term(self, term: Any) -> Term:
        from rdflib.term import BNode, Literal, URIRef
        from rdflib.term import Variable as SparqlVariable

        if isinstance(term, SparqlVariable):
            return _variable(term)
        if isinstance(term, BNode):
            if term not in self.blank:
                self.blank[term] = Variable(f"_{next(self.numbers)}")
            return self.blank[term]
        if isinstance(term, URIRef):
            return self.symbol(str(term))
        if isinstance(term, Literal):
            return Name(_literal_text(term))
        raise UnsupportedQuery(f"'{term}' is not a variable, a literal or an IRI", "Use an IRI")

    def symbol(self, iri: str) -> Symbol:
        symbol = symbol_of(iri)
        return Name(symbol.text, self.source.name(iri)) if isinstance(symbol, Name) else symbol

    def unsupported(self, node: Any) -> UnsupportedQuery:
        if node.name == "Extend" and node.p.name == "AggregateJoin":
            node = node.p
        return self.unsupported_kind(str(node.name))

    def unsupported_kind(self, kind: str) -> UnsupportedQuery:
        words, way_out = _UNSUPPORTED.get(kind, (kind, "Use triple patterns, UNION and NOT EXISTS"))
        place = self.source.find(words)
        word = words.split("|")[0]
        if place is not None and "|" in words:
            match = re.search(rf"\b(?:{words})\b", self.source.code, re.IGNORECASE)
            word = match[0].upper() if match else word
        return UnsupportedQuery(f"Unsupported {word}", way_out, place)


def _literal_text(literal: Any) -> str:
    """A literal by the name that the RDF reader gives it."""
    import pyoxigraph as ox

    if literal.language:
        return str(ox.Literal(str(literal), language=literal.language.lower()))
    if literal.datatype:
        return str(ox.Literal(str(literal), datatype=ox.NamedNode(str(literal.datatype))))
    return str(ox.Literal(str(literal)))


def _variable(variable: Any) -> Variable:
    return Variable(str(variable))


def _hide(one: _Alternative, hidden: frozenset[Variable]) -> _Alternative:
    """The alternative with some of its variables quantified away."""
    if not hidden or one.formula is None:
        return one
    own = tuple(sorted(hidden, key=lambda variable: variable.name))
    return _Alternative(Exists(own, one.formula), one.bound - hidden)
