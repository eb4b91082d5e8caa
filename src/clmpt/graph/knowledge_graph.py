"""KnowledgeGraph: names, labels and triples in named splits; immutable and memory-mapped."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clmpt.display.text import counted
from clmpt.errors import DataError, UnknownSplit
from clmpt.graph.edges import EdgeIndex, Ints, index_fits, open_index, save_index
from clmpt.graph.names import Aliases, open_names, save_names
from clmpt.graph.rdf_statements import RdfStatements
from clmpt.graph.vocabulary import Vocabulary
from clmpt.logic.formula import Id, Name, Query, Symbol
from clmpt.storage.arrays import IMPORT_AGAIN, open_array, save_array
from clmpt.storage.checksums import LARGE, LISTED, verify_file
from clmpt.storage.files import open_json, save_json
from clmpt.storage.sealing import sealed_folder

if TYPE_CHECKING:
    from clmpt.sparql.answering import SparqlResult
    from clmpt.symbolic.exact_answers import ExactAnswers, ExactRows

_FORMAT = "clmpt graph 1"
_ABOUT = "graph.json"


@dataclass(frozen=True)
class KnowledgeGraph:
    """Triples between named entities. Ids are dense; all arrays are read-only.

    `index` covers all splits; `view("train")` is the same graph with only some of them.

    >>> graph = KnowledgeGraph.from_triples([("Mizoguchi", "directed", "Ugetsu")])
    >>> [graph.entities.names[i] for i in graph.neighbours(0, 0)]
    ['Ugetsu']
    """

    entities: Vocabulary
    relations: Vocabulary
    index: EdgeIndex
    splits: tuple[str, ...] = ("facts",)
    observed: tuple[str, ...] = ("facts",)
    rdf: RdfStatements | None = None  # of all splits; None if the triples are all there is

    @classmethod
    def from_triples(
        cls,
        triples: Any,
        entity_labels: dict[str, str] | None = None,
        relation: str | None = None,
    ) -> KnowledgeGraph:
        """A graph with one split from (head, relation, tail) names; ids follow first appearance.

        Also from a pandas DataFrame or an Arrow table (columns by their usual names, or the first
        three), a directed NetworkX graph (`relation` is the edge attribute that names the relation)
        and an rdflib graph, which is read as an RDF file is.
        """
        from clmpt.graph.triple_sources import graph_of_triples

        return graph_of_triples(triples, entity_labels or {}, relation)

    @classmethod
    def open(cls, folder: str | Path) -> KnowledgeGraph:
        """A stored graph. Arrays are mapped, not copied; those of a small graph are checked."""
        folder = Path(folder)
        if not folder.is_dir():
            raise DataError(f"There is no graph folder '{folder}'. Make one with 'clmpt import'.")
        if not is_stored_graph(folder):
            raise DataError(
                f"'{folder}' is not a stored graph. Import it first: "
                f"clmpt import {folder} --out NEW_FOLDER"
            )
        about = open_json(folder / _ABOUT)
        try:
            return _opened(folder, about)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"'{folder / _ABOUT}' is damaged: {error!r}.") from None

    def save(self, folder: str | Path) -> None:
        """Writes the folder that `open` reads; never overwrites an existing one."""
        with sealed_folder(Path(folder)) as scratch:
            save_index(scratch, "", self.index)
            save_array(scratch, "inverse", self.inverse_ids)
            for vocabulary, stem in ((self.entities, "entity"), (self.relations, "relation")):
                save_names(scratch, f"{stem}_names", vocabulary.names)
                if vocabulary.labels:
                    save_names(scratch, f"{stem}_labels", vocabulary.labels)
                if vocabulary.aliases:
                    save_names(scratch, f"{stem}_aliases", vocabulary.aliases.texts)
                    save_array(scratch, f"{stem}_alias_owners", vocabulary.aliases.owners)
            if self.rdf:
                self.rdf.save(scratch)
            save_json(scratch / _ABOUT, self.about | LISTED)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the names and their ids: equal for graphs whose ids mean the same."""
        digest = hashlib.sha256()
        for vocabulary in (self.entities, self.relations):
            digest.update(vocabulary.names.offsets.tobytes())
            digest.update(vocabulary.names.bytes_.tobytes())
        return digest.hexdigest()[:16]

    @cached_property
    def checksum(self) -> int:
        """A checksum of all facts and their splits: equal for graphs with the same content.

        It reads them all, so this is where the large files of a stored graph are verified, before
        anything is made from them that takes longer.
        """
        for path in self._stored:
            verify_file(path, IMPORT_AGAIN)
        found = zlib.crc32("\n".join(self.splits).encode())
        whole = self._whole
        for array in (whole.keys_K1, whole.offsets_K2, whole.neighbours_X, whole.splits_X):
            found = zlib.crc32(np.ascontiguousarray(array).data, found)
        return found

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes this graph from others: a run belongs to one graph."""
        return {"fingerprint": self.fingerprint, "edges": self.checksum}

    def equals(self, other: KnowledgeGraph) -> bool:
        """Whether another graph has the same names, ids, labels and facts."""
        labels = [
            [list(v.labels or ()) for v in (graph.entities, graph.relations)]
            for graph in (self, other)
        ]
        same = self.identity == other.identity and labels[0] == labels[1]
        if self.rdf is None or other.rdf is None:
            return same and self.rdf is other.rdf
        return same and self.rdf.equals(other.rdf)

    @property
    def about(self) -> dict[str, Any]:
        rdf = {"rdf": self.rdf.about} if self.rdf else {}
        return rdf | {
            "format": _FORMAT,
            "entities": len(self.entities),
            "relations": len(self.relations),
            "triples": self.index.triples,
            "splits": list(self.splits),
            "labels": {
                "entity": self.entities.labels is not None,
                "relation": self.relations.labels is not None,
            },
            "aliases": {
                "entity": self.entities.aliases is not None,
                "relation": self.relations.aliases is not None,
            },
        }

    def __repr__(self) -> str:
        return f"<KnowledgeGraph: {self.size} in {' + '.join(self.observed)}>"

    @property
    def size(self) -> str:
        """The numbers of entities, relations and facts, in words."""
        counts = (
            (len(self.entities), "entity"),
            (len(self.relations), "relation"),
            (self.index.triples, "fact"),
        )
        return ", ".join(counted(number, noun) for number, noun in counts)

    def _repr_html_(self) -> str:
        from clmpt.graph.graph_html import graph_html

        return graph_html(self)

    # --- splits ---------------------------------------------------------------------------------

    def view(self, *splits: str) -> KnowledgeGraph:
        """The graph with only the edges of these splits; by default, of all splits."""
        wanted = tuple(dict.fromkeys(splits)) or self.splits
        for name in wanted:
            if name not in self.splits:
                raise UnknownSplit(
                    f"There is no split '{name}'. This graph has: {', '.join(self.splits)}."
                )
        if wanted == self.observed:
            return self
        cache = self._views
        if wanted not in cache:
            index = self._whole.restricted(sum(1 << self.splits.index(name) for name in wanted))
            view = replace(self, index=index, observed=wanted)
            view.__dict__.update(_whole=self._whole, _views=cache, inverse_ids=self.inverse_ids)
            view.__dict__.update(_stored=self._stored)
            cache[wanted] = view
        return cache[wanted]

    @cached_property
    def _stored(self) -> tuple[Path, ...]:
        """Files that were too large to be verified when they were opened."""
        return ()

    @cached_property
    def _whole(self) -> EdgeIndex:
        return self.index

    @cached_property
    def _views(self) -> dict[tuple[str, ...], KnowledgeGraph]:
        return {}

    # --- relations and their inverses -----------------------------------------------------------

    @cached_property
    def inverse_ids(self) -> Ints:
        """For each relation, the one with exactly its triples reversed, or -1.

        BetaE's graphs contain both directions of every relation; others usually do not.
        """
        return find_inverses(self.index)

    @property
    def has_both_directions(self) -> bool:
        """Whether every relation's inverse is a relation of the graph itself."""
        return bool((self.inverse_ids >= 0).all())

    # --- reading --------------------------------------------------------------------------------

    def neighbours(self, entity: int, relation: int, *, inverse: bool = False) -> list[int]:
        """Tails of (entity, relation, ·), or with `inverse` heads of (·, relation, entity)."""
        directed = relation + inverse * len(self.relations)
        start, stop = self.index.ranges(np.array([entity]), np.array([directed]))
        found: list[int] = self.index.neighbours_X[start[0] : stop[0]].tolist()
        return found

    def triples(self, *splits: str) -> npt.NDArray[np.int32]:
        """(head, relation, tail) rows of these splits, by default all, sorted by relation."""
        return self.view(*(splits or self.observed)).index.forward_triples()

    def bind(self, query: Query) -> Query:
        """The query with every name replaced by its id; errors say where and suggest names."""
        return query.replace(
            lambda symbol: Id(self.entities.resolve(symbol)),
            lambda symbol: Id(self.relations.resolve(symbol)),
        )

    def named(self, query: Query) -> Query:
        """The query with ids replaced by names."""

        def name(vocabulary: Vocabulary, symbol: Symbol) -> Symbol:
            if not isinstance(symbol, Id):
                return symbol
            return Name(vocabulary.names[vocabulary.resolve(symbol)])

        return query.replace(
            lambda symbol: name(self.entities, symbol), lambda symbol: name(self.relations, symbol)
        )

    def solve(self, question: str | Query) -> ExactAnswers | ExactRows:
        """The exact answers to a question, by name: what follows from these facts.

        A question about several variables has rows of names as answers.

        >>> graph = KnowledgeGraph.from_triples([("Orwell", "wrote", "1984")])
        >>> graph.solve("?x : wrote(Orwell, ?x)")
        <1 answer: '1984'>
        """
        from clmpt.symbolic.exact_answers import exact_answers  # an import upwards

        return exact_answers(question, self)

    def sparql(self, query: str) -> SparqlResult:
        """The result of a SPARQL query of any form, as the standard defines it.

        >>> graph = KnowledgeGraph.from_triples([("Orwell", "wrote", "1984")])
        >>> graph.sparql("SELECT ?who ?what { ?who :wrote ?what }")
        <1 row of who, what>
        """
        from clmpt.sparql.answering import answer_sparql  # as above

        return answer_sparql(query, self)

    def labels(self, entities: Iterable[int]) -> list[str]:
        """What to show a user for each entity: its label, or its name if it has none."""
        return [self.entities.label(entity) for entity in entities]


def is_stored_graph(folder: Path) -> bool:
    return (folder / _ABOUT).exists()


def find_inverses(index: EdgeIndex) -> Ints:
    """For each relation, the one with exactly its triples reversed, or -1.

    Where several qualify, BetaE's partner (r ^ 1) comes first, then the relation itself.
    """
    rows = index.forward_triples()
    relation_T = rows[:, 1]
    bounds = np.searchsorted(relation_T, np.arange(index.relations + 1))
    head_T, tail_T = rows[:, 0].astype(np.int64), rows[:, 2].astype(np.int64)
    forward_T = head_T * index.entities + tail_T
    backward_T = tail_T * index.entities + head_T
    # A sum of hashed pairs finds the few candidates; only those are compared triple by triple.
    signatures: dict[tuple[int, int], list[int]] = {}
    parts = [slice(start, stop) for start, stop in pairwise(bounds.tolist())]
    for relation, part in enumerate(parts):
        signatures.setdefault(_signature(forward_T[part]), []).append(relation)
    inverse = np.full(index.relations, -1, np.int64)
    for relation, part in enumerate(parts):
        candidates = signatures.get(_signature(backward_T[part]), [])
        reversed_pairs = np.sort(backward_T[part])
        for other in sorted(candidates, key=lambda c: (c != relation ^ 1, c != relation, c)):
            if np.array_equal(reversed_pairs, np.sort(forward_T[parts[other]])):
                inverse[relation] = other
                break
    return inverse


def _signature(pairs: Ints) -> tuple[int, int]:
    mixed = pairs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return len(pairs), int((mixed ^ (mixed >> np.uint64(29))).sum(dtype=np.uint64))


def _all_below(numbers: npt.NDArray[np.int32], limit: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < limit)


def _opened(folder: Path, about: dict[str, Any]) -> KnowledgeGraph:
    if about["format"] != _FORMAT:
        raise DataError(
            f"'{folder}' is in the format '{about['format']}', not '{_FORMAT}'. Import the graph "
            "again."
        )
    vocabularies = []
    for kind in ("entity", "relation"):
        names = open_names(folder, f"{kind}_names")
        labels = open_names(folder, f"{kind}_labels") if about["labels"][kind] else None
        aliases = None
        if about.get("aliases", {}).get(kind):
            owners = open_array(folder, f"{kind}_alias_owners", "i")
            aliases = Aliases(open_names(folder, f"{kind}_aliases"), owners)
            if len(owners) != len(aliases.texts) or not _all_below(owners, len(names)):
                raise DataError(f"The names in '{folder}' do not fit together. {IMPORT_AGAIN}")
        vocabularies.append(Vocabulary(kind, names, labels, aliases))
    entities, relations = vocabularies
    index = open_index(folder, "", len(entities), len(relations))
    splits = tuple(str(name) for name in about["splits"])
    inverse = open_array(folder, "inverse", "i")
    fits = (
        index_fits(index)
        and index.triples == about["triples"]
        and all(len(v.labels or v.names) == len(v.names) for v in vocabularies)
        and 1 <= len(splits) <= 8
        and len(inverse) == len(relations)
    )
    if not fits:
        raise DataError(f"The arrays in '{folder}' do not fit together. Import the graph again.")
    rdf = None
    if "rdf" in about:
        rdf = RdfStatements.open(folder, len(entities), len(relations), about["rdf"])
    graph = KnowledgeGraph(entities, relations, index, splits, splits, rdf)
    large = sorted(path for path in folder.glob("*.npy") if path.stat().st_size > LARGE)
    graph.__dict__.update(inverse_ids=inverse, _stored=tuple(large))
    return graph
