"""Limits of time and memory: kept, clear when they are met, and gone afterwards."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import numpy as np
import pytest

from clmpt.budget import Budget, check_budget, memory_in_use
from clmpt.cli.main import main
from clmpt.errors import OutOfBudget
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.sparql.answering import answer_sparql
from clmpt.symbolic.solver import solve
from toy import films

# 300 entities, all linked to all: the three edges of the question have 300⁴ = 8.1e9 bindings.
MANY = "?x : r(?x, ?y) & r(?y, ?z) & r(?z, ?w) & !r(?x, ?w) & !r(?y, ?w)"


def dense() -> KnowledgeGraph:
    names = [str(number) for number in range(300)]
    return KnowledgeGraph.from_triples((a, "r", b) for a in names for b in names)


def test_without_a_budget_nothing_is_limited() -> None:
    check_budget(bytes_needed=2**60)


def test_time_that_is_up_is_an_error_that_names_the_limit() -> None:
    with Budget(seconds=0.01):
        time.sleep(0.02)
        with pytest.raises(OutOfBudget, match=r"time limit of 0\.01 s"):
            check_budget()
    check_budget()


def test_memory_is_refused_before_it_is_taken() -> None:
    with Budget(bytes=64 * 2**20):
        check_budget(bytes_needed=2**20)
        with pytest.raises(OutOfBudget, match=r"memory limit of 64\.0 MiB"):
            check_budget(bytes_needed=65 * 2**20)


def test_memory_that_is_held_counts_and_memory_that_was_held_before_does_not() -> None:
    if not memory_in_use():
        pytest.skip("this system does not say how much memory a process holds")
    gc.collect()
    before = np.ones(30 * 2**20)  # 240 MiB
    with Budget(bytes=200 * 2**20):
        check_budget(bytes_needed=100 * 2**20)
        held = np.ones(20 * 2**20)  # 160 MiB
        with pytest.raises(OutOfBudget):
            check_budget(bytes_needed=100 * 2**20)
    assert len(before) + len(held)


def test_the_outer_of_two_budgets_still_applies() -> None:
    with Budget(seconds=0), Budget(seconds=100), pytest.raises(OutOfBudget, match="limit of 0 s"):
        check_budget()


def test_the_solver_stops_in_time() -> None:
    with pytest.raises(OutOfBudget), Budget(seconds=0.05):
        solve(MANY, dense())


def test_the_solver_stops_before_it_takes_too_much_memory() -> None:
    graph = dense()
    graph.index.codes  # noqa: B018 - made on first use, and kept
    with pytest.raises(OutOfBudget, match="memory"), Budget(bytes=16 * 2**20):
        solve(MANY, graph)


def test_solve_takes_limits_and_refuses_nonsense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    films().save(tmp_path / "films")
    question = "?f : directed(Mizoguchi, ?f)"
    words = ["solve", str(tmp_path / "films"), question]
    assert main([*words, "--time-limit", "60", "--memory-limit", "1G"]) == 0
    assert "Ugetsu" in capsys.readouterr().out
    assert main([*words, "--time-limit", "0"]) == 2
    assert "time limit of 0 s" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--memory-limit", "much"])
    assert "such as 500M or 2G" in capsys.readouterr().err


def test_one_way_to_an_answer_is_enough() -> None:
    """Three parts that only negations connect: 2,000³ ways to fill six variables, and one for each
    answer suffices."""
    ends = np.random.default_rng(0).integers(2000, size=(20_000, 2)).tolist()
    graph = KnowledgeGraph.from_triples(
        (f"e{head}", f"r{number % 10}", f"e{tail}") for number, (head, tail) in enumerate(ends)
    )
    question = """?a : r0(?a, ?b) & r1(?c, ?d) & r2(?e, ?f) &
        !r5(?a, ?c) & !exists ?x (r6(?d, ?x) & r3(?x, ?e)) & !r7(?b, ?f)"""
    with Budget(seconds=100):  # it takes seconds; all of them would take days
        found = solve(question, graph)
    # Every negated part misses nearly all pairs, so whoever has an r0 is an answer.
    assert found == frozenset(graph.index.with_relation(graph.relations.names.find("r0")[0]))


def pairs() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples((f"a{number}", "r", f"b{number}") for number in range(3000))


def test_all_pairs_of_two_patterns_count_before_they_are_made() -> None:
    query = "SELECT (COUNT(*) AS ?n) { ?a :r ?b . ?c :r ?d }"  # 9,000,000 rows of four columns
    with pytest.raises(OutOfBudget, match="memory"), Budget(bytes=64 * 2**20):
        answer_sparql(query, pairs())
    with pytest.raises(OutOfBudget, match="time"), Budget(seconds=0.01):
        answer_sparql(query, pairs())


def test_no_more_rows_are_made_than_a_limit_asks_for() -> None:
    with Budget(bytes=64 * 2**20):
        assert len(answer_sparql("SELECT * { ?a :r ?b . ?c :r ?d } LIMIT 7", pairs())) == 7


def test_a_condition_that_names_a_value_comes_before_the_join() -> None:
    graph = KnowledgeGraph.from_triples((f"a{number}", "r", "hub") for number in range(5000))
    query = "SELECT (COUNT(*) AS ?n) { ?x :r ?c . ?y :r ?c FILTER(?x = :a7) }"
    with Budget(bytes=16 * 2**20):  # all pairs are 25,000,000
        assert [row[0].text for row in answer_sparql(query, graph)] == ["5000"]  # type: ignore[union-attr]
