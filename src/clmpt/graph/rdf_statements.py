"""All statements of an RDF source: literals, labels and named graphs, which no model learns from.

Ids of entities and relations are those of the graph; further terms and predicates follow them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.graph.edges import EdgeIndex, build_index, index_fits, open_index, save_index
from clmpt.graph.names import NameTable, open_names, save_names
from clmpt.storage.arrays import IMPORT_AGAIN, open_array, save_array

# Shapes: E entities, M statements in named graphs

NAME, BLANK, LITERAL, IRI = 0, 1, 2, 3  # what an entity's name stands for


@dataclass(frozen=True)
class RdfStatements:
    """`index` has the default graph; a row of `named_M5` is graph, subject, predicate, object and
    the bits of its splits. Further terms are in N-Triples notation. `predicates` are the IRIs of
    all predicates, those that are relations first."""

    kinds_E: npt.NDArray[np.uint8]
    terms: NameTable
    predicates: NameTable
    index: EdgeIndex
    named_M5: npt.NDArray[np.int32]
    base: str = ""

    def save(self, folder: Path) -> None:
        save_array(folder, "rdf_kinds", self.kinds_E)
        save_array(folder, "rdf_named", self.named_M5.reshape(-1))
        save_names(folder, "rdf_terms", self.terms)
        save_names(folder, "rdf_predicates", self.predicates)
        save_index(folder, "rdf_", self.index)

    def divided(self, index: EdgeIndex, splits: int) -> RdfStatements:
        """The same statements with facts in the splits of another index of the graph; whatever no
        model learns from is in the first one."""
        rows = self.index.forward_triples()
        bits = _bits_in(index, rows)
        parts = [rows[(bits & (1 << number)) != 0] for number in range(splits)]
        named_M5 = self.named_M5.copy()
        named_M5[:, 4] = _bits_in(index, named_M5[:, 1:4])
        made = build_index(self.index.entities, self.index.relations, parts)
        return replace(self, index=made, named_M5=named_M5)

    def equals(self, other: RdfStatements) -> bool:
        pairs = zip(self._arrays, other._arrays, strict=True)
        return self.base == other.base and all(np.array_equal(a, b) for a, b in pairs)

    @property
    def _arrays(self) -> list[npt.NDArray[Any]]:
        found: list[npt.NDArray[Any]] = [self.kinds_E, self.named_M5]
        index = self.index
        found += [index.keys_K1, index.offsets_K2, index.neighbours_X, index.splits_X]
        return [*found, self.terms.bytes_, self.terms.offsets, self.predicates.bytes_]

    @classmethod
    def open(cls, folder: Path, entities: int, relations: int, base: str) -> RdfStatements:
        kinds_E = open_array(folder, "rdf_kinds", "u")
        named = open_array(folder, "rdf_named", "i")
        terms = open_names(folder, "rdf_terms")
        predicates = open_names(folder, "rdf_predicates")
        sizes = entities + len(terms), len(predicates)
        index = open_index(folder, "rdf_", *sizes)
        named_M5 = named.reshape(-1, 5) if len(named) % 5 == 0 else np.full((1, 5), -1, np.int32)
        limits = np.array([sizes[0], sizes[0], sizes[1], sizes[0], 256])
        fits = (
            len(kinds_E) == entities
            and len(predicates) >= relations
            and index_fits(index)
            and bool((named_M5 >= 0).all())
            and bool((named_M5 < limits).all())
        )
        if not fits:
            raise DataError(f"The arrays in '{folder}' do not fit together. {IMPORT_AGAIN}")
        return cls(kinds_E, terms, predicates, index, named_M5, base)


def _bits_in(index: EdgeIndex, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The splits of some triples in an index, as bits; the first one if it lacks them."""
    head, relation, tail = (rows[:, column].astype(np.int64) for column in range(3))
    inside = (head < index.entities) & (relation < index.relations) & (tail < index.entities)
    bits = np.ones(len(rows), np.int32)
    if inside.any():
        start, stop = index.ranges(head[inside], relation[inside])
        edge, found = index.find(start, stop, tail[inside])
        bits[inside] = np.where(found, index.splits_X[edge], 1)
    return bits
