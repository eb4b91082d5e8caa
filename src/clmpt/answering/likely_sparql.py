"""SPARQL over what is likely: the model finds rows for the existential first-order part of a query,
and what else the query says is done with these rows.

Filters, VALUES, BIND and ORDER BY are applied to the rows; OPTIONAL adds known facts; COUNT becomes
the expected number, the sum of the rows' probabilities; ASK becomes the probability of the
likeliest row. What has no meaning over likely rows is refused in one line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from clmpt.answering.likely_rows import RankedRows
from clmpt.answering.row_answers import LikelyCells, LikelyResult
from clmpt.errors import UnknownName, UnsupportedQuery
from clmpt.graph.edges import Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.algebra import (
    Aggregate,
    Basic,
    Bind,
    Call,
    ExistsTest,
    Expression,
    JoinAll,
    Optionally,
    Pattern,
    Select,
    Service,
    SparqlQuery,
    TriplePattern,
    Values,
    Where,
    conjuncts,
    in_scope,
    sub_expressions,
)
from clmpt.logic.formula import Limits, Name, Query, Variable
from clmpt.logic.iris import iri_of
from clmpt.logic.rdf_terms import Iri
from clmpt.logic.sparql import Translator
from clmpt.sparql.answering import evaluator_for
from clmpt.sparql.evaluator import Evaluator
from clmpt.sparql.grouping import grouped
from clmpt.sparql.labels import LABEL_SERVICE, with_labels
from clmpt.sparql.solutions import UNBOUND, Solutions, group_numbers, join
from clmpt.sparql.substitution import mentioned

# What is done with the rows of the core, in order.
Later: TypeAlias = Where | Bind | Optionally | Values
FindRows: TypeAlias = Callable[[Query], tuple[RankedRows, tuple[str, ...]]]

_ORDERED = 0.05  # the least probability of a row that ORDER BY sorts in
_ROW = Variable(".row")  # which of the ranked rows a solution comes from


def likely_sparql(
    query: SparqlQuery,
    graph: KnowledgeGraph,
    find_rows: FindRows,
    at_least: float = 0.0,
    limits: Limits | None = None,
) -> LikelyResult:
    """The result of a query, with rows that `find_rows` ranks."""
    if query.form not in ("SELECT", "ASK"):
        raise UnsupportedQuery(
            f"{query.form} has no likely answers", "Use SELECT or ASK", query.position
        )
    if query.has_dataset:
        raise UnsupportedQuery("FROM has no likely answers", "Leave it out", query.position)
    run = _LikelyRun(query, graph, find_rows, at_least, limits or Limits())
    return run.ask() if query.form == "ASK" else run.select()


@dataclass(frozen=True)
class _LikelyRun:
    query: SparqlQuery
    graph: KnowledgeGraph
    find_rows: FindRows
    at_least: float
    limits: Limits

    def rows(
        self, further: frozenset[Variable]
    ) -> tuple[Solutions, RankedRows, Evaluator, tuple[str, ...]]:
        """The likely rows over all variables that the query needs, after what it does with them."""
        where, ground = _with_a_variable(self.query.select.where)
        core, later = split(where)
        scope = in_scope(core)
        for one in later:
            _check_order(one, frozenset(scope))
        needed = further.union(*(_used(one) for one in later))
        if _counts_rows(self.query.select):
            needed |= {variable for variable in scope if not variable.name.startswith(".")}
        wanted = tuple(v for v in scope if v in needed) or tuple(scope)[:1]
        if not wanted:
            raise UnsupportedQuery(
                "The question has no variable that a triple binds",
                "Ask about one triple, as in ASK { :a :r :b }, or use a variable",
                self.query.position,
            )
        evaluator = evaluator_for(self.query, self.graph)
        asked = None if ground is None else self._entity(ground[1], evaluator)
        ranked, notes = self._found(core, wanted, evaluator)
        found = Solutions(
            {v: ranked.rows_NC[:, at] for at, v in enumerate(wanted)}, len(ranked)
        ).extended(_ROW, np.arange(len(ranked)))
        if ground is not None:
            found = found.take(found.column(ground[0]) == asked)
        for one in later:
            found = _applied(one, found, evaluator)
        order = np.argsort(found.column(_ROW), kind="stable")
        return found.take(order), ranked, evaluator, (*notes, *evaluator.names.notes)

    def _entity(self, term: Iri, evaluator: Evaluator) -> int:
        """The id of a constant; an unknown one is refused as in any other triple."""
        found = evaluator.names.term(term)
        if found >= 0:
            return found
        return self.graph.entities.resolve(Translator(self.limits, set()).symbol(term))

    def _found(
        self, core: Pattern, wanted: tuple[Variable, ...], evaluator: Evaluator
    ) -> tuple[RankedRows, tuple[str, ...]]:
        taken = {variable.name for variable in in_scope(core)}
        try:
            return self.find_rows(Translator(self.limits, taken).asking(wanted, core))
        except UnknownName as error:
            known = evaluator.names.predicate(Iri(iri_of(Name(error.name))))
            if error.kind != "relation" or known < 0:
                raise
            raise UnsupportedQuery(
                f"No model learns from '{error.name}', which has literals or was left out",
                "Put it into OPTIONAL, where known facts are added",
                error.position,
            ) from None

    def ask(self) -> LikelyResult:
        found, ranked, _, notes = self.rows(frozenset())
        chances = _chances(ranked)[found.column(_ROW)]
        return LikelyResult("ASK", (), (), float(chances.max(initial=0.0)), notes)

    def select(self) -> LikelyResult:
        select = self.query.select
        _check_aggregates(select)
        expressions = [one.expression or one.variable for one in select.columns or ()]
        expressions += [key.expression or key.variable for key in select.keys]
        expressions += [*select.having, *(key.expression for key in select.order)]
        names = select.names if select.columns is None else ()
        further = frozenset(names).union(*map(mentioned, expressions))
        found, ranked, evaluator, notes = self.rows(further)
        chance, least = _chances(ranked), self.at_least
        if select.order and not least and not select.grouped:
            least = _ORDERED
            notes = (
                *notes,
                f"Rows below {least:.0%} are not sorted in; --at-least says otherwise.",
            )
        kept = chance[found.column(_ROW)] >= least
        found = with_labels(evaluator.dataset, evaluator.terms, select, found.take(kept))
        if select.grouped:
            weights = chance[found.column(_ROW)]
            made = grouped(select, found, evaluator.surroundings, evaluator.column, weights)
            select, found = made.select, made.solutions
        for condition in select.having:
            found = found.take(evaluator.holds(condition, found))
        for column in select.columns or ():
            if column.expression is not None:
                found = found.extended(column.variable, evaluator.column(column.expression, found))
        found = _each_once(evaluator.ordered(select, found), select.names)
        stop = None if select.limit is None else select.offset + select.limit
        rows = self._cells(found.take(slice(select.offset, stop)), select.names, ranked, evaluator)
        shown = tuple(variable.name for variable in select.names)
        return LikelyResult("SELECT", shown, tuple(rows), None, notes)

    def _cells(
        self,
        found: Solutions,
        names: tuple[Variable, ...],
        ranked: RankedRows,
        evaluator: Evaluator,
    ) -> list[LikelyCells]:
        chance, entities = _chances(ranked), len(self.graph.entities)
        made = []
        for row, own in zip(found.matrix(names).tolist(), found.column(_ROW).tolist(), strict=True):
            cells = tuple(None if one < 0 else evaluator.terms.term(one) for one in row)
            ids = tuple(one if 0 <= one < entities else UNBOUND for one in row)
            known = own >= 0
            made.append(
                LikelyCells(
                    cells,
                    ids,
                    float(chance[own]) if known else None,
                    ranked.status[own] if known else None,
                )
            )
        return made


def _chances(ranked: RankedRows) -> npt.NDArray[np.float64]:
    if ranked.probability_N is None:
        raise UnsupportedQuery(
            "The model is not calibrated, so it gives no probabilities",
            "Ask truth values: --reasoner truth-values",
        )
    return ranked.probability_N


def _each_once(solutions: Solutions, names: tuple[Variable, ...]) -> Solutions:
    """Rows that show the same are one, with the best of their probabilities."""
    group_N, first_G = group_numbers(solutions.matrix(names))
    if _ROW not in solutions.columns:
        return solutions.take(first_G)
    best_G: Ints = np.full(len(first_G), np.iinfo(np.int64).max)
    np.minimum.at(best_G, group_N, solutions.column(_ROW))
    return solutions.take(first_G).extended(_ROW, best_G)


def _check_aggregates(select: Select) -> None:
    expressions = [one.expression for one in select.columns or () if one.expression]
    expressions += [*select.having, *(key.expression for key in select.order)]
    for one in expressions:
        for part in sub_expressions(one):
            name = getattr(part, "name", "")
            if name in ("SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT"):
                raise UnsupportedQuery(
                    f"{name} has no meaning over likely answers",
                    "Use COUNT, or 'clmpt solve' for known facts",
                    getattr(part, "position", None),
                )


# --- the core and the rest ------------------------------------------------------------------------


def split(pattern: Pattern) -> tuple[Pattern, list[Later]]:
    """The existential first-order part of a pattern, and what is done with its rows.

    >>> from clmpt.logic.sparql_parser import read_sparql
    >>> where = read_sparql("SELECT * { ?x :r ?y FILTER(?x != ?y) }").select.where
    >>> core, later = split(where)
    >>> type(core).__name__, [type(one).__name__ for one in later]
    ('Basic', ['Where'])
    """
    if isinstance(pattern, Where):
        core, later = split(pattern.inner)
        tests = conjuncts(pattern.condition)
        inside = [test for test in tests if not later and _is_existential(test)]
        outside = [test for test in tests if test not in inside]
        if inside:
            core = Where(core, _all(inside))
        if outside:
            later = [*later, replace(pattern, condition=_all(outside))]
        return core, later
    if isinstance(pattern, Bind):
        core, later = split(pattern.inner)
        return core, [*later, pattern]
    if isinstance(pattern, Optionally):
        core, later = split(pattern.left)
        return core, [*later, pattern]
    if isinstance(pattern, JoinAll):
        return _split_join(pattern)
    return pattern, []


def _split_join(pattern: JoinAll) -> tuple[Pattern, list[Later]]:
    cores: list[Pattern] = []
    later: list[Later] = []
    for part in pattern.parts:
        if isinstance(part, Values):
            later.append(part)
        elif not isinstance(part, Service) or part.endpoint != LABEL_SERVICE:
            core, own = split(part)
            cores.append(core)
            later += own
    if not cores:
        return Basic(()), later
    return (cores[0] if len(cores) == 1 else JoinAll(tuple(cores))), later


def _all(tests: list[Expression]) -> Expression:
    return tests[0] if len(tests) == 1 else Call("&&", tuple(tests))


def _is_existential(test: Expression) -> bool:
    """Whether a condition is about what exists alone."""
    if isinstance(test, ExistsTest):
        return True
    return (
        isinstance(test, Call)
        and test.name in ("&&", "||", "!")
        and all(map(_is_existential, test.arguments))
    )


def _used(later: Later) -> frozenset[Variable]:
    """The variables of the core that a later step may need."""
    if isinstance(later, Where):
        return mentioned(later.condition)
    if isinstance(later, Bind):
        return mentioned(later.expression)
    if isinstance(later, Optionally):
        condition = mentioned(later.condition) if later.condition is not None else frozenset()
        return mentioned(later.right) | condition
    return frozenset(later.variables)


def _check_order(later: Later, core: frozenset[Variable]) -> None:
    """Refuses a step whose variables other triples bind as well: it would come too late."""
    if isinstance(later, Values):
        return
    own = frozenset(in_scope(later.left if isinstance(later, Optionally) else later.inner))
    made = {later.variable} if isinstance(later, Bind) else set()
    if (_used(later) | made) & core - own or made & core:
        word = {Where: "FILTER", Bind: "BIND", Optionally: "OPTIONAL"}[type(later)]
        raise UnsupportedQuery(
            f"This {word} has no likely answers: triples outside its group use its variables",
            "Put them into the same group, before it",
            later.position,
        )


def _counts_rows(select: Select) -> bool:
    """Whether some aggregate counts rows, not distinct values."""
    expressions = [one.expression for one in select.columns or () if one.expression]
    expressions += [*select.having, *(key.expression for key in select.order)]
    parts = (part for one in expressions for part in sub_expressions(one))
    return any(isinstance(part, Aggregate) and not part.distinct for part in parts)


def _applied(later: Later, found: Solutions, evaluator: Evaluator) -> Solutions:
    if isinstance(later, Where):
        return found.take(evaluator.holds(later.condition, found))
    if isinstance(later, Bind):
        return found.extended(later.variable, evaluator.column(later.expression, found))
    if isinstance(later, Optionally):
        right = evaluator.solutions(later.right)
        return evaluator.with_optional(found, right, later.condition)
    return join(found, evaluator.values(later))


def _with_a_variable(where: Pattern) -> tuple[Pattern, tuple[Variable, Iri] | None]:
    """A pattern without variables with one in place of its first constant, and which that was."""
    if in_scope(where) or not isinstance(where, Basic) or not where.triples:
        return where, None
    constant = where.triples[0].object
    if not isinstance(constant, Iri):
        return where, None
    variable = Variable("asked")

    def filled(end: object) -> object:
        return variable if end == constant else end

    triples = tuple(
        TriplePattern(filled(one.subject), one.predicate, filled(one.object))  # type: ignore[arg-type]
        for one in where.triples
    )
    return Basic(triples), (variable, constant)
