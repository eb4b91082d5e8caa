"""Answered queries: the compact file, and JSON lines for people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from clmpt.errors import DataError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.shapes import shape
from clmpt.queries.json_lines import read_json_lines, write_json_lines
from clmpt.queries.store import AnswerSets, QueryGroup, QuerySet
from clmpt.sampling.sampler import Protocol, sample
from toy import films, random_graph


def graph() -> KnowledgeGraph:
    return random_graph(both_directions=False)


def some_queries() -> QuerySet:
    protocol = Protocol(("train",), ("train", "test"))
    groups = [
        sample(shape(name), graph(), protocol, 20, seed=3) for name in ("1p", "2i", "pni", "up")
    ]
    assert all(len(group) for group in groups)
    return QuerySet(tuple(groups), {"seed": 3, "graph": graph().fingerprint})


def same(left: QuerySet, right: QuerySet) -> bool:
    return len(left.groups) == len(right.groups) and all(
        one.name == other.name
        and one.template == other.template
        and np.array_equal(one.entities, other.entities)
        and np.array_equal(one.relations, other.relations)
        and [set(a.tolist()) for a in one.easy] == [set(a.tolist()) for a in other.easy]
        and [set(a.tolist()) for a in one.hard] == [set(a.tolist()) for a in other.hard]
        for one, other in zip(left.groups, right.groups, strict=True)
    )


def test_a_stored_file_opens_unchanged(tmp_path: Path) -> None:
    queries, path = some_queries(), tmp_path / "test.queries"
    queries.save(path)
    again = QuerySet.open(path)
    assert same(queries, again)
    assert again.about == queries.about
    assert not again.groups[0].easy.entities.flags.writeable


def test_other_tools_can_read_it_as_safetensors(tmp_path: Path) -> None:
    queries, path = some_queries(), tmp_path / "test.queries"
    queries.save(path)
    with safe_open(path, framework="np") as file:
        assert np.array_equal(file.get_tensor("1.entities"), queries.groups[1].entities)
        assert json.loads(file.metadata()["clmpt"])["groups"][2]["name"] == "pni"


def test_a_file_without_queries_can_be_opened(tmp_path: Path) -> None:
    QuerySet(()).save(tmp_path / "none.queries")
    assert len(QuerySet.open(tmp_path / "none.queries")) == 0


def test_json_lines_survive_a_round_trip(tmp_path: Path) -> None:
    queries, path = some_queries(), tmp_path / "test.jsonl"
    write_json_lines(queries, graph(), path)
    again = read_json_lines(path, graph())
    first = json.loads(path.read_text().splitlines()[0])
    assert first["shape"] == "1p"
    assert same(queries, again), "shapes, ids and answers, including inverse relations"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 1"),
        ("[]", "line 1"),
        ('{"query": 3}', "line 1"),
        ('{"easy": []}', "line 1"),
        ('{"query": "?x : directed("}', "line 1: The query ends too early"),
        ('{"query": "?x : directd(Mizoguchi, ?x)"}', "line 1: Unknown relation"),
        ('{"query": "?x : directed(Mizoguchi, ?x)", "easy": ["Nobody"]}', "Unknown entity"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(line)
    with pytest.raises(DataError, match=words):
        read_json_lines(path, films())


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "junk", "huge header", "bad offsets", "no metadata"]
)
def test_damaged_files_are_rejected(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "test.queries"
    some_queries().save(path)
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    if damage == "bad offsets":
        header["0.entities"]["data_offsets"] = [0, 10**12]
    if damage == "no metadata":
        del header["__metadata__"]
    text = json.dumps(header).encode()
    path.write_bytes(
        {
            "empty": b"",
            "cut": whole[:-20],
            "junk": b"junk" * 1000,
            "huge header": (2**60).to_bytes(8, "little") + whole[8:],
        }.get(damage, len(text).to_bytes(8, "little") + text + whole[8 + length :])
    )
    with pytest.raises(DataError, match="not a query file"):
        QuerySet.open(path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        QuerySet.open(tmp_path / "nothing.queries")


def test_answer_sets_can_be_selected_and_joined() -> None:
    sets = AnswerSets(np.array([0, 2, 2, 3]), np.array([5, 7, 9]))
    assert [found.tolist() for found in sets.take(np.array([2, 0, 0]))] == [[9], [5, 7], [5, 7]]
    assert [found.tolist() for found in AnswerSets.joined([sets, sets])] == [[5, 7], [], [9]] * 2
    assert len(AnswerSets.joined([])) == 0


def test_a_group_knows_its_size() -> None:
    nothing = AnswerSets(np.zeros(3, np.int64), np.empty(0, np.int64))
    ids = np.zeros((2, 1), np.int32)
    assert len(QueryGroup("1p", shape("1p"), ids, ids, nothing, nothing)) == 2
