"""A SPARQL query as plain values: graph patterns, paths, expressions and the form of the result.

Nothing here knows a graph. Variables whose name starts with a dot were made by the parser, for
blank nodes and steps of paths, and are never shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import TypeAlias

from clmpt.errors import Position
from clmpt.logic.formula import Variable
from clmpt.logic.rdf_terms import Iri, Literal

PatternTerm: TypeAlias = Variable | Iri | Literal


# --- paths ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InversePath:
    path: Path


@dataclass(frozen=True, slots=True)
class SequencePath:
    parts: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class AlternativePath:
    parts: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class RepeatedPath:
    """`path?` (at most once), `path*` (any number of times) or `path+` (at least once)."""

    path: Path
    mark: OneOf["?", "*", "+"]
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NegatedPath:
    """Any step except along these relations, forwards or backwards."""

    forward: tuple[Iri, ...]
    backward: tuple[Iri, ...]
    position: Position | None = field(default=None, compare=False, repr=False)


Path: TypeAlias = Iri | InversePath | SequencePath | AlternativePath | RepeatedPath | NegatedPath


# --- expressions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, a built-in function in capitals, or a function by its IRI in angle brackets."""

    name: str
    arguments: tuple[Expression, ...]
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ExistsTest:
    pattern: Pattern
    negated: bool
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`argument` is None for COUNT(*)."""

    name: str
    argument: Expression | None
    distinct: bool = False
    separator: str = " "
    position: Position | None = field(default=None, compare=False, repr=False)


Expression: TypeAlias = Variable | Iri | Literal | Call | ExistsTest | Aggregate


# --- patterns -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TriplePattern:
    subject: PatternTerm
    predicate: Variable | Path
    object: PatternTerm

    @property
    def variables(self) -> frozenset[Variable]:
        ends = (self.subject, self.predicate, self.object)
        return frozenset(end for end in ends if isinstance(end, Variable))


@dataclass(frozen=True, slots=True)
class Basic:
    """A basic graph pattern, paths included; without triples, it has one solution."""

    triples: tuple[TriplePattern, ...]


@dataclass(frozen=True, slots=True)
class JoinAll:
    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """UNION."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Optionally:
    """`left OPTIONAL { right FILTER(condition) }`."""

    left: Pattern
    right: Pattern
    condition: Expression | None = None
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Without:
    """MINUS."""

    left: Pattern
    right: Pattern
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Where:
    """FILTER."""

    inner: Pattern
    condition: Expression
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Bind:
    inner: Pattern
    variable: Variable
    expression: Expression
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class InGraph:
    graph: Variable | Iri
    inner: Pattern
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Values:
    """Rows of terms; None stands for UNDEF."""

    variables: tuple[Variable, ...]
    rows: tuple[tuple[Iri | Literal | None, ...], ...]
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Service:
    endpoint: Variable | Iri
    inner: Pattern
    silent: bool
    position: Position | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Subquery:
    select: Select


Pattern: TypeAlias = (
    Basic
    | JoinAll
    | AnyOf
    | Optionally
    | Without
    | Where
    | Bind
    | InGraph
    | Values
    | Service
    | Subquery
)


# --- queries --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selected:
    """A column of the result: a variable, or an expression under a variable's name."""

    variable: Variable
    expression: Expression | None = None


@dataclass(frozen=True, slots=True)
class OrderKey:
    expression: Expression
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """`columns` is None for SELECT *; `keys` are those of GROUP BY."""

    columns: tuple[Selected, ...] | None
    where: Pattern
    distinct: bool = False
    reduced: bool = False
    keys: tuple[Selected, ...] = ()
    having: tuple[Expression, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    position: Position | None = field(default=None, compare=False, repr=False)

    @property
    def grouped(self) -> bool:
        expressions = [one.expression for one in self.columns or ()]
        expressions += [*self.having, *(key.expression for key in self.order)]
        return bool(self.keys) or any(has_aggregate(one) for one in expressions)

    @property
    def names(self) -> tuple[Variable, ...]:
        """The variables of the result."""
        if self.columns is not None:
            return tuple(column.variable for column in self.columns)
        return tuple(v for v in in_scope(self.where) if not v.name.startswith("."))


Form: TypeAlias = OneOf["SELECT", "ASK", "CONSTRUCT", "DESCRIBE"]


@dataclass(frozen=True, slots=True)
class SparqlQuery:
    """`template` is that of CONSTRUCT, `described` what DESCRIBE names (None for *)."""

    form: Form
    select: Select
    template: tuple[TriplePattern, ...] = ()
    described: tuple[Variable | Iri, ...] | None = None
    default_graphs: tuple[Iri, ...] = ()
    named_graphs: tuple[Iri, ...] = ()
    has_dataset: bool = False
    base: str = ""  # of relative IRIs
    position: Position | None = field(default=None, compare=False, repr=False)


# --- looking into them ----------------------------------------------------------------------------


def has_aggregate(expression: Expression | None) -> bool:
    if isinstance(expression, Aggregate):
        return True
    return isinstance(expression, Call) and any(map(has_aggregate, expression.arguments))


def sub_expressions(expression: Expression) -> Iterator[Expression]:
    """The expression and all in it, not looking into EXISTS."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from sub_expressions(argument)
    elif isinstance(expression, Aggregate) and expression.argument is not None:
        yield from sub_expressions(expression.argument)


def conjuncts(expression: Expression) -> list[Expression]:
    """The conditions that `&&` connects, or the one that there is."""
    if isinstance(expression, Call) and expression.name == "&&":
        return [part for one in expression.arguments for part in conjuncts(one)]
    return [expression]


def expression_variables(expression: Expression) -> list[Variable]:
    """Its variables in order of appearance, not looking into EXISTS."""
    found = (one for one in sub_expressions(expression) if isinstance(one, Variable))
    return list(dict.fromkeys(found))


def in_scope(pattern: Pattern) -> dict[Variable, None]:
    """The variables that solutions of a pattern may bind, in order of appearance."""
    found: dict[Variable, None] = {}
    if isinstance(pattern, Basic):
        for triple in pattern.triples:
            for end in (triple.subject, triple.predicate, triple.object):
                if isinstance(end, Variable):
                    found[end] = None
    elif isinstance(pattern, JoinAll | AnyOf):
        for part in pattern.parts:
            found |= in_scope(part)
    elif isinstance(pattern, Optionally):
        found = in_scope(pattern.left) | in_scope(pattern.right)
    elif isinstance(pattern, Without):
        found = in_scope(pattern.left)
    elif isinstance(pattern, Values):
        found = dict.fromkeys(pattern.variables)
    elif isinstance(pattern, Subquery):
        found = dict.fromkeys(pattern.select.names)
    else:
        if isinstance(pattern, InGraph) and isinstance(pattern.graph, Variable):
            found[pattern.graph] = None
        found |= in_scope(pattern.inner)
        if isinstance(pattern, Bind):
            found[pattern.variable] = None
    return found
