"""All statements of an RDF source: literals, labels and named graphs, which no model learns from.

Ids of entities and relations are those of the graph; further terms and predicates follow them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clmpt.errors import DataError
from clmpt.graph.edges import EdgeIndex, build_index, index_fits, open_index, save_index
from clmpt.graph.names import NameTable, open_names, save_names
from clmpt.storage.arrays import IMPORT_AGAIN, open_array, save_array

# Shapes: E entities, T all terms, entities first, M statements in named graphs

NAME, BLANK, LITERAL, IRI = 0, 1, 2, 3  # what an entity's name stands for


@dataclass(frozen=True)
class RdfStatements:
    """`index` has the default graph; a row of `named_M5` is graph, subject, predicate, object and
    the bits of its splits. Further terms are in N-Triples notation. `predicates` are the IRIs of
    all predicates, those that are relations first. `same_T` is the term that stands for each one,
    if some are the same thing."""

    kinds_E: npt.NDArray[np.uint8]
    terms: NameTable
    predicates: NameTable
    index: EdgeIndex
    named_M5: npt.NDArray[np.int32]
    base: str = ""
    same_T: npt.NDArray[np.int32] | None = None

    def save(self, folder: Path) -> None:
        save_array(folder, "rdf_kinds", self.kinds_E)
        save_array(folder, "rdf_named", self.named_M5.reshape(-1))
        save_names(folder, "rdf_terms", self.terms)
        save_names(folder, "rdf_predicates", self.predicates)
        save_index(folder, "rdf_", self.index)
        if self.same_T is not None:
            save_array(folder, "rdf_same", self.same_T)

    @property
    def about(self) -> dict[str, Any]:
        return {"base": self.base} | ({} if self.same_T is None else {"same": True})

    @cached_property
    def merged(self) -> RdfStatements:
        """The statements with one term for everything that is the same thing."""
        if self.same_T is None:
            return self
        splits = int(np.bitwise_or.reduce(self.index.splits_X, initial=0)).bit_length()
        parts = [self.index.restricted(1 << n).forward_triples() for n in range(splits)]
        parts = [self._with_one_term(part, [0, 2]) for part in parts]
        index = build_index(self.index.entities, self.index.relations, parts)
        named_M5 = distinct_named(self._with_one_term(self.named_M5, [0, 1, 3]))
        return replace(self, index=index, named_M5=named_M5)

    def _with_one_term(
        self, rows: npt.NDArray[np.int32], columns: list[int]
    ) -> npt.NDArray[np.int32]:
        if self.same_T is None:
            return rows
        found: npt.NDArray[np.int32] = rows.copy()
        found[:, columns] = self.same_T[rows[:, columns]]
        return found

    def divided(self, index: EdgeIndex, splits: int) -> RdfStatements:
        """The same statements with facts in the splits of another index of the graph; whatever no
        model learns from is in the first one."""
        rows = self.index.forward_triples()
        bits = _bits_in(index, self._with_one_term(rows, [0, 2]))
        parts = [rows[(bits & (1 << number)) != 0] for number in range(splits)]
        named_M5 = self.named_M5.copy()
        named_M5[:, 4] = _bits_in(index, self._with_one_term(named_M5[:, 1:4], [0, 2]))
        made = build_index(self.index.entities, self.index.relations, parts)
        return replace(self, index=made, named_M5=named_M5)

    def equals(self, other: RdfStatements) -> bool:
        if self.base != other.base or (self.same_T is None) != (other.same_T is None):
            return False
        pairs = zip(self._arrays, other._arrays, strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    @property
    def _arrays(self) -> list[npt.NDArray[Any]]:
        found: list[npt.NDArray[Any]] = [self.kinds_E, self.named_M5]
        found += [] if self.same_T is None else [self.same_T]
        index = self.index
        found += [index.keys_K1, index.offsets_K2, index.neighbours_X, index.splits_X]
        return [*found, self.terms.bytes_, self.terms.offsets, self.predicates.bytes_]

    @classmethod
    def open(
        cls, folder: Path, entities: int, relations: int, about: dict[str, Any]
    ) -> RdfStatements:
        kinds_E = open_array(folder, "rdf_kinds", "u")
        named = open_array(folder, "rdf_named", "i")
        terms = open_names(folder, "rdf_terms")
        predicates = open_names(folder, "rdf_predicates")
        sizes = entities + len(terms), len(predicates)
        index = open_index(folder, "rdf_", *sizes)
        same_T = open_array(folder, "rdf_same", "i") if about.get("same") else None
        named_M5 = named.reshape(-1, 5) if len(named) % 5 == 0 else np.full((1, 5), -1, np.int32)
        limits = np.array([sizes[0], sizes[0], sizes[1], sizes[0], 256])
        fits = (
            len(kinds_E) == entities
            and len(predicates) >= relations
            and index_fits(index)
            and bool((named_M5 >= 0).all())
            and bool((named_M5 < limits).all())
            and (same_T is None or _is_choice(same_T, sizes[0]))
        )
        if not fits:
            raise DataError(f"The arrays in '{folder}' do not fit together. {IMPORT_AGAIN}")
        return cls(kinds_E, terms, predicates, index, named_M5, str(about["base"]), same_T)


def _is_choice(same_T: npt.NDArray[np.int32], terms: int) -> bool:
    """Whether each term has one that stands for it, and that one itself."""
    return (
        len(same_T) == terms
        and bool(((same_T >= 0) & (same_T < terms)).all())
        and np.array_equal(same_T[same_T], same_T)
    )


def distinct_named(rows_M5: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Sorted by graph; a statement in two splits is one with the bits of both."""
    if not len(rows_M5):
        return rows_M5
    distinct, group_M = np.unique(rows_M5[:, :4], axis=0, return_inverse=True)
    bits = np.zeros(len(distinct), np.int32)
    np.bitwise_or.at(bits, group_M.reshape(-1), rows_M5[:, 4])
    return np.concatenate([distinct, bits[:, None]], axis=1).astype(np.int32)


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
