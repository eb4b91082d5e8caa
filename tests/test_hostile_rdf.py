"""RDF files that would exhaust a parser, and harmless ones that look like them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from clmpt.errors import DataError
from clmpt.graph.rdf_reading import RdfOptions
from clmpt.graph.readers import read_graph
from clmpt.sparql.answering import answer_sparql

PREFIX = "@prefix : <http://e/> . "


def bomb(entities: str, body: str = "&z;") -> str:
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    return (
        f'<?xml version="1.0"?><!DOCTYPE r [{entities}]><rdf:RDF xmlns:rdf="{rdf}" '
        f'xmlns:e="http://e/"><rdf:Description rdf:about="http://e/a"><e:p>{body}</e:p>'
        "</rdf:Description></rdf:RDF>"
    )


DOUBLING = '<!ENTITY a "0123456789">' + "".join(
    f'<!ENTITY {new} "{f"&{old};" * 10}">'
    for old, new in zip("abcdefghi", "bcdefghiz", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (bomb(DOUBLING), "XML entity"),
        (bomb(f'<!ENTITY z "{"x" * 50_000}">', "&z;" * 20_000), "XML entity"),
        (bomb(f'<!ENTITY z "{"x" * 1900}">', "&z;" * 200_000), "too much text"),
        ("<a>" * 40_000, "levels deep"),
    ],
)
def test_hostile_xml_is_refused_before_it_grows(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.rdf").write_text(text)
    with pytest.raises(DataError, match=words):
        read_graph([tmp_path / "x.rdf"])


def nested(levels: int) -> str:
    return '{"http://e/p":' * levels + "1" + "}" * levels


STAR = ":a :p " + "<<( :a :p " * 40_000 + ":b" + " )>>" * 40_000 + " ."


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("x.jsonld", nested(40_000), "nested more than 200 levels deep"),
        ("x.jsonld", f'{{"http://e/p": {"[" * 201}', "nested more than 200 levels deep"),
        ("x.ttl", PREFIX + STAR, "statements about statements"),
        ("x.nt", STAR.replace(":a", "<http://a>").replace(":p", "<http://p>"), "about statements"),
    ],
    ids=["objects", "arrays", "terms", "terms-in-lines"],
)
def test_what_would_exhaust_the_parsers_stack_is_refused(
    tmp_path: Path, name: str, text: str, words: str, packed: bool
) -> None:
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(DataError, match=words):
        read_graph([path])


def test_brackets_in_strings_are_no_depth(tmp_path: Path) -> None:
    # The quotes and backslashes are where a piece of 65,536 bytes ends, and around it.
    for before in range(65_500, 65_540):
        text = "x" * before + '\\\\\\"' + "[{" * 500
        (tmp_path / "x.jsonld").write_text(f'{{"@id": "http://e/a", "http://e/p": "{text}"}}')
        assert len(read_graph([tmp_path / "x.jsonld"], rdf=RdfOptions(literals=True))[0].entities)
    (tmp_path / "x.jsonld").write_text(nested(200))
    assert read_graph([tmp_path / "x.jsonld"])[0].index.triples == 199


def test_turtle_nests_as_deep_as_it_likes(tmp_path: Path) -> None:
    deep = ":a :p " + "[ :p " * 50_000 + ":b" + "]" * 50_000 + " . :a :q " + "(" * 50_000
    text = deep + ")" * 50_000 + ' . :a :text """' + "<<( " * 900 + '""" .'
    (tmp_path / "x.ttl").write_text(PREFIX + text)
    graph, _ = read_graph([tmp_path / "x.ttl"])
    assert graph.index.triples == 50_001 + 99_999


@pytest.mark.parametrize("end", ['" .', ""])
def test_a_term_that_is_too_long_is_not_called_a_lack_of_memory(tmp_path: Path, end: str) -> None:
    path = tmp_path / "x.nt"
    path.write_text(f'<http://e/a> <http://e/r> "{"x" * 2**24}{end}')
    with pytest.raises(DataError, match="a term of more than 16,777,216 bytes, or a string"):
        read_graph([path])


def test_a_context_that_is_not_in_the_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "x.jsonld").write_text('{"@context": "https://schema.org", "name": "x"}')
    with pytest.raises(DataError, match=r"JSON-LD context .* Put the context into the file"):
        read_graph([tmp_path / "x.jsonld"])
    (tmp_path / "x.jsonld").write_text('{"@context": 1}')
    with pytest.raises(DataError, match="is not JSON-LD: @context"):
        read_graph([tmp_path / "x.jsonld"])


def test_harmless_entities_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.rdf").write_text(bomb('<!ENTITY z "http://e/">', "&z;x"))
    assert answer_sparql('ASK { ?s ?p "http://e/x" }', read_graph([tmp_path / "x.rdf"])[0]).holds
