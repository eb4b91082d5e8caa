"""Truth values are what a brute-force evaluation over all assignments gives."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clmpt.errors import UnsafeQuery
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Atom, Id, Query, Term, Variable, atoms
from clmpt.logic.normal_form import Pattern, variables_in
from clmpt.logic.parser import parse
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.truth_values.deriving import derive
from clmpt.reasoners.truth_values.truth_values import TruthValueReasoner
from clmpt.reasoners.truth_values.value_engine import EVERYTHING, Effort
from clmpt.symbolic.solver import solve, solve_rows
from dense_rows import DenseRows, Matrices, with_facts
from strategies import ENTITIES, RELATIONS, graphs, queries

SIZE = len(ENTITIES)


@st.composite
def likely_links(draw: st.DrawFn) -> Matrices:
    """Random truth values, most of them 0."""
    seed, share = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.1, 0.5]))
    random = np.random.default_rng(seed)
    values = random.random((len(RELATIONS), SIZE, SIZE), np.float32)
    return np.where(random.random(values.shape) < share, values, 0).astype(np.float32)


def brute_force(query: Query, matrices: Matrices, scale: float) -> list[float]:
    """The value of every entity, straight from the definition."""
    found = brute_force_rows(query, matrices, scale)
    return [found[entity,] for entity in range(SIZE)]


def brute_force_rows(
    query: Query, matrices: Matrices, scale: float
) -> dict[tuple[int, ...], float]:
    """The value of every row of entities for the variables that are asked for."""

    def atom(one: Atom, chosen: dict[Variable, int]) -> float:
        assert isinstance(one.relation, Id)
        ends = [_value(term, chosen) for term in (one.head, one.tail)]
        return float(matrices[one.relation.number, ends[0], ends[1]])

    def pattern(one: Pattern, chosen: dict[Variable, int]) -> float:
        best = 0.0
        for values in product(range(SIZE), repeat=len(one.variables)):
            filled = {**chosen, **dict(zip(one.variables, values, strict=True))}
            value = float(np.prod([atom(part, filled) for part in one.atoms]))
            for part in one.absent if value else ():
                value *= 1 - min(1, scale * pattern(part, filled))
            best = max(best, value)
        return best

    return {
        row: max(pattern(part, dict(zip(query.frees, row, strict=True))) for part in query.patterns)
        for row in product(range(SIZE), repeat=len(query.frees))
    }


def _value(term: Term, chosen: dict[Variable, int]) -> int:
    if isinstance(term, Variable):
        return chosen[term]
    assert isinstance(term, Id)
    return term.number


def reasoner_of(
    graph: KnowledgeGraph, matrices: Matrices, scale: float, effort: Effort = EVERYTHING
) -> TruthValueReasoner:
    return TruthValueReasoner(DenseRows(graph.index, matrices), graph, scale, effort=effort)


@settings(max_examples=400, deadline=None)
@given(graphs(), queries(), likely_links(), st.sampled_from([1.0, 3.0]))
def test_truth_values_are_those_of_the_best_assignment(
    graph: KnowledgeGraph, query: Query, likely: Matrices, scale: float
) -> None:
    bound, matrices = graph.bind(query), with_facts(graph, likely)
    (found,) = reasoner_of(graph, matrices, scale).score([QueryGroup.single(bound)]).tolist()
    assert found == pytest.approx(brute_force(bound, matrices, scale), abs=1e-5)


def with_two_variables(query: Query) -> Query:
    """The query with one more variable asked for, if every alternative has it."""
    for variable in variables_in(atoms(query.body)):
        if variable != query.free:
            try:
                return Query((query.free, variable), query.body, None, query.limits)
            except UnsafeQuery:
                continue
    assume(False)
    raise AssertionError


@settings(max_examples=300, deadline=None)
@given(graphs(), queries(), likely_links(), st.sampled_from([1.0, 3.0]))
def test_rows_of_two_variables_are_ranked_by_the_best_assignment(
    graph: KnowledgeGraph, query: Query, likely: Matrices, scale: float
) -> None:
    bound, matrices = graph.bind(with_two_variables(query)), with_facts(graph, likely)
    rows, values = reasoner_of(graph, matrices, scale).best_of_rows(bound, SIZE**2)
    expected = brute_force_rows(bound, matrices, scale)
    found = {tuple(row): value for row, value in zip(rows.tolist(), values.tolist(), strict=True)}
    assert list(values) == sorted(values, reverse=True)
    for row, value in expected.items():
        assert found.get(row, 0.0) == pytest.approx(value, abs=1e-5)


@settings(max_examples=200, deadline=None)
@given(graphs(), queries())
def test_without_predictions_rows_are_the_exact_ones(graph: KnowledgeGraph, query: Query) -> None:
    bound = graph.bind(with_two_variables(query))
    nothing = with_facts(graph, np.zeros((len(RELATIONS), SIZE, SIZE), np.float32))
    rows, values = reasoner_of(graph, nothing, 1.0).best_of_rows(bound, SIZE**2)
    certain = {tuple(row) for row, value in zip(rows.tolist(), values, strict=True) if value > 0}
    assert certain == {tuple(row) for row in solve_rows(bound, graph).tolist()}


@settings(max_examples=200, deadline=None)
@given(graphs(), queries())
def test_without_predictions_they_are_the_exact_answers(
    graph: KnowledgeGraph, query: Query
) -> None:
    bound = graph.bind(query)
    nothing = with_facts(graph, np.zeros((len(RELATIONS), SIZE, SIZE), np.float32))
    (found,) = reasoner_of(graph, nothing, 1.0).score([QueryGroup.single(bound)]).tolist()
    answers = solve(bound, graph)
    assert found == [float(entity in answers) for entity in range(SIZE)]


def uniting(graph: KnowledgeGraph, matrices: Matrices) -> TruthValueReasoner:
    return TruthValueReasoner(DenseRows(graph.index, matrices), graph, 1.0, unites=True)


@settings(max_examples=200, deadline=None)
@given(graphs(), queries(), likely_links())
def test_uniting_values_is_never_less_than_their_maximum(
    graph: KnowledgeGraph, query: Query, likely: Matrices
) -> None:
    bound, matrices = graph.bind(query), with_facts(graph, likely)
    if any(part.absent for part in bound.patterns):
        return
    (best,) = reasoner_of(graph, matrices, 1.0).score([QueryGroup.single(bound)]).tolist()
    (found,) = uniting(graph, matrices).score([QueryGroup.single(bound)]).tolist()
    assert [value > 0 for value in found] == [value > 0 for value in best]
    # A value of 1 counts as 0.9999, once for every variable.
    assert all(u >= 0.999 * m - 1e-6 for u, m in zip(found, best, strict=True))
    assert max(found) <= 1


@settings(max_examples=100, deadline=None)
@given(graphs(), likely_links(), st.integers(0, SIZE - 1), st.integers(0, SIZE - 1))
def test_united_values_of_paths_and_negated_parts(
    graph: KnowledgeGraph, likely: Matrices, a: int, b: int
) -> None:
    matrices = np.minimum(with_facts(graph, likely), 0.9)  # away from the cap
    r, s = matrices[0].astype(float), matrices[1].astype(float)

    def some(values_YX: np.ndarray) -> np.ndarray:
        return 1 - np.prod(1 - values_YX, axis=0)

    two = some(r[a][:, None] * s)
    expected = {
        f"?x : r0(#{a}, ?y) & r1(?y, ?x)": two,
        f"?x : r0(#{a}, ?y) & r1(?y, ?z) & r0(?z, ?x)": some(two[:, None] * r),
        f"?x : r0(#{a}, ?y) & r1(?y, ?x) & r0(#{b}, ?x)": two * r[b],
        f"?x : r0(#{b}, ?x) & !exists ?y (r0(#{a}, ?y) & r1(?y, ?x))": r[b] * (1 - two),
        f"?x : r0(#{a}, ?y) & r1(?y, ?x) & r0(?y, ?x)": some(r[a][:, None] * s * r),
    }
    reasoner = uniting(graph, matrices.astype(np.float32))
    for text, values in expected.items():
        query = Query(parse(text).free, parse(text).body)
        (found,) = reasoner.score([QueryGroup.single(_by_ids(query))]).tolist()
        assert found == pytest.approx(values.tolist(), abs=1e-5), text


def _by_ids(query: Query) -> Query:
    """Relations r0 and r1, and entities #n, by number whatever the graph calls them."""
    return query.replace(
        lambda symbol: symbol if isinstance(symbol, Id) else Id(int(str(symbol.text)[1:])),
        lambda symbol: symbol if isinstance(symbol, Id) else Id(int(str(symbol.text)[1:])),
    )


@settings(max_examples=200, deadline=None)
@given(graphs(), queries(), likely_links(), st.sampled_from([1, 2]))
def test_a_value_is_left_out_only_below_the_bound(
    graph: KnowledgeGraph, query: Query, likely: Matrices, sources: int
) -> None:
    bound, matrices = graph.bind(query), with_facts(graph, likely)
    if any(part.absent for part in bound.patterns):
        return  # what is left out of a negated part makes a value larger, not smaller
    group = [QueryGroup.single(bound)]
    (exact,) = reasoner_of(graph, matrices, 1.0).score(group)
    limited = reasoner_of(graph, matrices, 1.0, Effort(sources, sources, 0))
    (found,), (largest,) = limited.score_with_bounds(group)
    assert bool((found <= exact + 1e-6).all())
    changed = (exact - found).abs() > 1e-6
    assert bool((exact[changed] <= largest + 1e-6).all())


@settings(max_examples=300, deadline=None)
@given(graphs(), queries(), likely_links(), st.sampled_from([1.0, 3.0]), st.sampled_from([1, 3]))
def test_the_best_derivation_has_the_answers_value(
    graph: KnowledgeGraph, query: Query, likely: Matrices, scale: float, most: int
) -> None:
    bound, matrices = graph.bind(query), with_facts(graph, likely)
    reasoner = reasoner_of(graph, matrices, scale)
    (values,) = reasoner.score([QueryGroup.single(bound)]).tolist()
    derived = derive(reasoner, bound, list(range(SIZE)), most)
    best = [derived[entity][0].value if derived[entity] else 0 for entity in range(SIZE)]
    assert best == pytest.approx(values, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(graphs(), queries(), likely_links())
def test_several_derivations_differ_and_descend(
    graph: KnowledgeGraph, query: Query, likely: Matrices
) -> None:
    reasoner = reasoner_of(graph, with_facts(graph, likely), 1.0)
    for derivations in derive(reasoner, graph.bind(query), list(range(SIZE)), 3).values():
        values = [one.value for one in derivations]
        assert values == sorted(values, reverse=True)
        ways = {(tuple(one.filled.items()), one.steps) for one in derivations}
        assert len(ways) == len(derivations)
