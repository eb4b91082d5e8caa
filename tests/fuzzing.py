"""Random and mutated query texts: each quickly gives a query, a result or one of our errors.

python tests/fuzzing.py formula 100000
python tests/fuzzing.py sparql 100000
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator

from clmpt.budget import Budget
from clmpt.errors import ClmptError
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.logic.formula import Query
from clmpt.logic.parser import parse, parse_formula
from clmpt.logic.shapes import SHAPES
from clmpt.logic.sparql import parse_sparql
from clmpt.sparql.answering import SparqlResult, answer_sparql
from clmpt.sparql.results import write_result

FORMULAS = [
    *SHAPES.values(),
    '?who : directed(Mizoguchi, ?film) & !won(?film, "Venice Award") & starred(?who, ?film)',
    "?y : exists ?x ?z . r(a, ?x) and (s(?x, ?z) or not t(?z, ?x)) and ^u(?y, ?z)",
    "?y : !exists ?x (r(<http://a/b>, ?x) & !exists ?z . (s(?x, ?z))) & #3(#4, ?y)",
    "?y : ∃ ?x . r('it''s', ?x) ∧ ¬s(?x, ?y) ∨ t(\"\\u00e9\", ?y)",
]
SPARQLS = [
    "SELECT ?x WHERE { :a :r ?x }",
    "PREFIX e: <http://e/> SELECT DISTINCT ?x { e:a e:r/^e:s ?x . ?x e:t|e:u [] } LIMIT 3",
    "SELECT ?x { { :a :r ?x } UNION { :b (:s/:t) ?x } MINUS { ?x :q ?z . ?z :w :c } }",
    "SELECT ?x { :a :r ?x FILTER NOT EXISTS { ?x :s ?z FILTER NOT EXISTS { ?z :t ?x } } }",
    "SELECT * { ?x a :C ; :r :d , :e FILTER(NOT EXISTS { ?x :s :b } && !EXISTS { ?x :t :c }) }",
    "SELECT ?x { :a :r ?x OPTIONAL { ?x :s ?y } } ORDER BY ?x OFFSET 3",
    "SELECT (COUNT(?x) AS ?n) { { SELECT ?x { ?x :r+ ?y } } } GROUP BY ?x HAVING (?n > 1)",
    'SELECT ?x { GRAPH ?g { ?x :r "a"@en } VALUES ?x { :a } BIND(1 AS ?z) FILTER(?x > 3) }',
    "ASK { :a :r/:s? ?x . ?x !(:t|^:u) (1 2.5 -3e4) FILTER(REGEX(STR(?x), '^a', 'i')) }",
    "CONSTRUCT { ?x :r [ :s ?y ] } { ?x ?p ?y FILTER(IF(ISIRI(?y), ?x = ?y, LANG(?y) != '')) }",
    "DESCRIBE ?x :b FROM NAMED <http://g> { { ?x :r ?y } UNION { SELECT * { ?x :s ?z } LIMIT 2 } }",
    "SELECT (SUM(?y) AS ?n) (GROUP_CONCAT(DISTINCT ?x ; SEPARATOR=', ') AS ?t) { ?x :r ?y "
    "BIND(REPLACE(STR(?y), '(a+)+$', '$1') AS ?q) } GROUP BY (STRLEN(?q) AS ?l) ORDER BY DESC(?n)",
    "SELECT * { VALUES (?x ?y) { (:a UNDEF) (1 'b'^^xsd:date) } SERVICE wikibase:label { } }",
]
PIECES = [
    *"?:&|!^(){}[].,;#$<>\"'\\/*+-_ \t\n\0\x7f",
    *"aezXYZ019éß漢🙂\u2028\ud7ff",
    *re.split(" ", r"?x ?y ?z exists not and or $r1 #1 ~ == ((( ))) !! && || // \u1234 \ud800"),
    *re.split(" ", "SELECT WHERE UNION MINUS FILTER NOT EXISTS OPTIONAL PREFIX BASE LIMIT ASK"),
    *re.split(" ", "<http://e/a> :a :r a [] {} () _:b 1 1.5 'x'@en true BIND( AS IN VALUES ??"),
]
SLOWEST = 20.0  # seconds; more is a hang, even on a busy machine


def mutated(seeds: list[str], rng: random.Random) -> str:
    """A seed changed word by word or character by character; sometimes pure noise."""
    if rng.random() < 0.1:
        return "".join(rng.choice(PIECES) for _ in range(rng.randrange(40)))
    by_words = rng.random() < 0.7
    pieces = re.findall(r"[?$#:]?\w+|\s+|." if by_words else r"(?s).", rng.choice(seeds))
    others = re.findall(r"[?$#:]?\w+|\s+|.", rng.choice(seeds)) if by_words else PIECES
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at = rng.randrange(len(pieces) + 1)
        to = at + rng.choice((0, 1, 1, 2, 6, 12))
        change = rng.randrange(5)
        if change == 0:
            pieces[at:to] = []
        elif change == 1:
            pieces[at:at] = [rng.choice(PIECES)]
        elif change == 2:
            pieces[at:to] = pieces[at:to] * rng.randrange(2, 5)
        elif change == 3:
            cut = rng.randrange(len(others))
            pieces[at:at] = others[cut : cut + rng.randrange(20)]
        else:
            pieces[at:to] = [rng.choice(others)]
    return "".join(pieces)[:4000]


def inputs(seeds: list[str], count: int, seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    return (mutated(seeds, rng) for _ in range(count))


def fuzz(parser: Callable[[str], object], texts: Iterator[str]) -> Counter[str]:
    """How often each outcome occurred; fails on other exceptions, hangs and bad round trips."""
    outcomes: Counter[str] = Counter()
    for text in texts:
        start = time.perf_counter()
        try:
            query = parser(text)
        except ClmptError as error:
            if not str(error).strip():
                raise AssertionError(f"an empty error message for {text!r}") from error
            outcomes[type(error).__name__] += 1
        except BaseException as error:
            raise AssertionError(f"{type(error).__name__} for {text!r}: {error}") from error
        else:
            if isinstance(query, Query):
                back = parse_formula(str(query), query.limits)
                assert back == query, f"no round trip for {text!r}"
            outcomes[type(query).__name__] += 1
        assert time.perf_counter() - start < SLOWEST, f"too slow: {text!r}"
    return outcomes


GRAPH = KnowledgeGraph.from_triples(
    [(head, relation, tail) for relation in "rst" for head, tail in ("ab", "ba", "bc", "cc")]
)


def answered(text: str) -> SparqlResult:
    """The result of a SPARQL text on a small graph, written in a format of W3C's."""
    with Budget(seconds=SLOWEST / 2, bytes=2**30):
        found = answer_sparql(text, GRAPH)
        triples = found.form in ("CONSTRUCT", "DESCRIBE")
        deque(write_result(found, "ntriples" if triples else "xml"), maxlen=0)
    return found


SUBJECTS: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "formula": (parse_formula, FORMULAS),
    "sparql": (answered, SPARQLS),
    "sparql-formula": (parse_sparql, SPARQLS),
    "any": (parse, FORMULAS + SPARQLS + ["((1, (2,)), (3, (4, -2)))", "(1, (2, 3))"]),
}

if __name__ == "__main__":
    subject, number = sys.argv[1], int(sys.argv[2])
    chosen, examples = SUBJECTS[subject]
    found = fuzz(chosen, inputs(examples, number, int(sys.argv[3]) if sys.argv[3:] else 0))
    sys.stdout.write(f"{subject}: {number:,} inputs, {dict(found.most_common())}\n")
