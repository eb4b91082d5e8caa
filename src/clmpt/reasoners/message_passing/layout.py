"""Queries of any shapes as one batch of index tensors: what to compute, from what, and when.

Layers are unrolled. Updates that cannot reach a free variable are skipped, and each message is
computed once, however many nodes receive it. With `share`, so are equal updates: those that depend
on relations alone are common. None of this changes any answer. The sets that go through the encoder
are concatenated, grouped by size, so nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clmpt.graph.edges import Bools, Ints
from clmpt.logic.query_graph import query_graphs
from clmpt.queries.store import QueryGroup
from clmpt.reasoners.message_passing.state_cache import StateCache
from clmpt.reasoners.message_passing.unrolling import (
    EXISTENTIAL,
    FIRST_CONSTANT,
    FREE,
    PassingOptions,
    UnrolledQueries,
    VariableItems,
)

# Shapes: Q queries, G graphs (a query's alternatives), I items, C constants, M messages,
# U updates, T tokens, B relations of a batch, n queries of a group, S rows of the relation table
#
# Items are the inputs of messages and updates, numbered in the order they are computed: the two
# initial embeddings of variables, the constants, then wave by wave messages and updated nodes.


@dataclass(frozen=True)
class Wave:
    """New messages, then updates; none depends on another one of the same wave.

    An update's set is its messages and, last, the node itself. `sizes` lists (size of a set, how
    many), in the order of `token_T`. States that the cache already has are not computed again:
    `cached_V` are their numbers there. `stored_K` are the updates to store in it, as `number_K`.
    `key_U` tells updates apart, whatever else is in the batch; 0 if they are shared.
    """

    source_M: Tensor
    relation_M: Tensor  # of the batch's relations
    to_head_M: Tensor
    negated_M: Tensor
    cached_V: Tensor
    token_T: Tensor
    sizes: tuple[tuple[int, int], ...]
    key_U: Tensor
    stored_K: Tensor
    number_K: Tensor


@dataclass(frozen=True)
class QueryBatch:
    """Queries, laid out for a message-passing model."""

    entity_C: Tensor
    relation_B: Tensor  # rows of the predictor's table
    waves: tuple[Wave, ...]
    answer_G: Tensor  # the item that answers each alternative
    query_G: Tensor
    queries: int
    variable_items: tuple[VariableItems, ...]

    @property
    def tokens(self) -> int:
        """The number of embeddings that go through the encoder."""
        return sum(len(wave.token_T) for wave in self.waves)

    def to(self, device: torch.device) -> QueryBatch:
        return replace(_moved(self, device), waves=tuple(_moved(w, device) for w in self.waves))


_Record = TypeVar("_Record", Wave, QueryBatch)


def _moved(record: _Record, device: torch.device) -> _Record:
    tensors = {name: value for name, value in vars(record).items() if isinstance(value, Tensor)}
    moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in tensors.items()}
    return replace(record, **moved)


def lay_out_queries(
    groups: Sequence[QueryGroup], options: PassingOptions, cache: StateCache | None = None
) -> QueryBatch:
    """A batch of the queries of all groups, in order.

    A batch laid out with a cache must be computed with it before the next one is laid out.

    >>> from clmpt.logic.shapes import shape
    >>> from clmpt.queries.store import AnswerSets
    >>> none = AnswerSets(np.zeros(3, np.int64), np.empty(0, np.int64))
    >>> two_hops = QueryGroup("2p", shape("2p"), np.array([[5], [9]]), np.array([[0, 1], [2, 1]]),
    ...                       none, none)
    >>> lay_out_queries([two_hops], PassingOptions(np.full(4, -1), share=False)).tokens
    14
    >>> lay_out_queries([two_hops], PassingOptions(np.full(4, -1))).tokens  # both end in relation 1
    12
    """
    parts = list(_parts(groups, options))
    constants = [values for part in parts for values in part.constants.values()]
    entity_C, place = _distinct(constants)
    places = iter(place)
    for part in parts:
        for node in part.constants:
            part.item[node, 0] = next(places) + FIRST_CONSTANT
    relation_B, place = _distinct([values for part in parts for values in part.rows.values()])
    places = iter(place)
    for part in parts:
        part.rows = {way: next(places) for way in part.rows}
    layout = _Layout(FIRST_CONSTANT + len(entity_C), relation_B, options.share, cache)
    depth = max((part.graph.depth for part in parts), default=0)
    waves = tuple(layout.wave(parts, layer) for layer in range(1, depth + 1))
    answers = [part.item[part.graph.free, part.graph.depth] for part in parts]
    return QueryBatch(
        _tensor(entity_C),
        _tensor(relation_B),
        waves,
        _tensor(_joined(answers)),
        _tensor(_joined([part.query_n for part in parts])),
        sum(map(len, groups)),
        tuple(found for part in parts for found in part.variable_items()),
    )


def _parts(groups: Sequence[QueryGroup], options: PassingOptions) -> Iterator[UnrolledQueries]:
    first = 0
    for number, group in enumerate(groups):
        query_n = np.arange(first, first + len(group))
        first += len(group)
        for alternative, graph in enumerate(query_graphs(group.template).alternatives):
            yield UnrolledQueries((number, alternative), graph, group, query_n, options)


# --- joining all shapes ---------------------------------------------------------------------------


_Messages = tuple[Tensor, Tensor, Tensor, Tensor]  # source, relation, to head, negated
_Sets = tuple[UnrolledQueries, int, Ints]  # a node of a part, and its set in each query


class _Layout:
    """Numbers items as waves are laid out."""

    def __init__(self, items: int, relation_B: Ints, share: bool, cache: StateCache | None) -> None:
        self.items, self.relation_B, self.share = items, relation_B, share
        self.relations = max(len(relation_B), 1)
        self.code_N = np.empty(0, np.int64)  # messages so far, sorted by code, and their items
        self.item_N = np.empty(0, np.int64)
        self.cache = cache if share else None
        self.state_number = {EXISTENTIAL: 0, FREE: 1}  # in the cache, by item
        self.message_key: dict[int, tuple[int, ...]] = {}

    def wave(self, parts: list[UnrolledQueries], layer: int) -> Wave:
        """The next layer's messages and updates, for all parts that have this layer."""
        messages, sets = self.sets(parts, layer)
        return self.updates(messages, sets, layer)

    def sets(
        self, parts: list[UnrolledQueries], layer: int
    ) -> tuple[_Messages, dict[int, list[_Sets]]]:
        """New messages, and the sets of the nodes to update, by size."""
        due = [
            (part, update)
            for part in parts
            if layer <= part.graph.depth
            for update in part.layers[layer - 1]
        ]
        codes = [
            self.code(part, source, edge, to_head, layer)
            for part, update in due
            for source, edge, to_head in update.messages
        ]
        messages, places = self.messages(codes)
        places_of = iter(places)
        sets: dict[int, list[_Sets]] = {}
        for part, update in due:
            columns = [next(places_of) for _ in update.messages]
            if self.share:  # so that equal sets are found; else the order is that of the atoms
                columns = [*np.sort(columns, axis=0)]
            columns.append(part.item_before(update.node, layer))
            sets.setdefault(len(columns), []).append((part, update.node, np.stack(columns, 1)))
        return messages, sets

    def updates(self, messages: _Messages, sets: dict[int, list[_Sets]], layer: int) -> Wave:
        """Numbers the updated nodes: first those in the cache, then those to compute."""
        found = {
            size: self.distinct_rows(np.concatenate([row for *_, row in sets[size]]))
            for size in sorted(sets)
        }
        numbers = {size: self.numbers(rows) for size, (rows, _) in found.items()}
        cached = [number_U[~new_U] for number_U, new_U in numbers.values()]
        cached_item, item = self.items, self.items + sum(map(len, cached))
        tokens, sizes, kept, keys, updates = [], [], [], [], 0
        for size, (rows, place) in found.items():
            number_U, new_U = numbers[size]
            item_U = np.where(
                new_U, np.cumsum(new_U) - 1 + item, np.cumsum(~new_U) - 1 + cached_item
            )
            self.state_number.update(
                (at, number)
                for at, number in zip(item_U.tolist(), number_U.tolist(), strict=True)
                if number >= 0
            )
            tokens.append(rows[new_U].ravel())
            keys.append(self.keys(sets[size], layer, int(new_U.sum())))
            sizes.append((size, int(new_U.sum())))
            fresh = number_U[new_U]
            kept.append(np.stack([np.flatnonzero(fresh >= 0) + updates, fresh[fresh >= 0]]))
            updates += len(fresh)
            item += len(fresh)
            cached_item += int((~new_U).sum())
            first = 0
            for part, node, row in sets[size]:
                part.item[node, layer] = item_U[place[first : first + len(row)]]
                first += len(row)
        self.items = item
        stored_K, number_K = np.concatenate([np.empty((2, 0), np.int64), *kept], 1)
        return Wave(
            *messages,
            _tensor(_joined(cached)),
            _tensor(_joined(tokens)),
            tuple((size, count) for size, count in sizes if count),
            _tensor(_joined(keys)),
            _tensor(stored_K),
            _tensor(number_K),
        )

    def keys(self, sets: list[_Sets], layer: int, count: int) -> Ints:
        if self.share:
            return np.zeros(count, np.int64)
        return _joined([part.keys(node, layer) for part, node, _ in sets])

    def numbers(self, rows: Ints) -> tuple[Ints, Bools]:
        """Cache numbers of updates that depend on relations alone, or -1; and which to compute."""
        number_U, new_U = np.full(len(rows), -1), np.ones(len(rows), np.bool_)
        if self.cache is None:
            return number_U, new_U
        nodes = np.array([item for item, number in self.state_number.items() if number >= 0])
        for row in np.flatnonzero(np.isin(rows[:, -1], nodes)).tolist():
            *received, node = rows[row].tolist()
            keys = [self.message_key.get(message) for message in received]
            if None not in keys:
                key = tuple(sorted(key for key in keys if key is not None))
                number_U[row], new_U[row] = self.cache.find((key, self.state_number[node]))
        return number_U, new_U

    def code(
        self, part: UnrolledQueries, source: int, edge: int, to_head: bool, layer: int
    ) -> Ints:
        """A message encoded as one number; equal messages have equal codes."""
        item_n = part.item_before(source, layer)
        row_n, to_head_n = part.rows[edge, to_head], part.backwards[edge, to_head]
        negated = part.graph.edges[edge].negated
        code: Ints = ((item_n * self.relations + row_n) * 2 + to_head_n) * 2 + negated
        return code

    def messages(self, codes: list[Ints]) -> tuple[_Messages, list[Ints]]:
        """The messages not computed before, and the items of all requested messages."""
        wanted, place = _distinct(codes)
        new = wanted[~np.isin(wanted, self.code_N, assume_unique=True)]
        code_N = np.concatenate([self.code_N, new])
        item_N = np.concatenate([self.item_N, np.arange(self.items, self.items + len(new))])
        order = np.argsort(code_N)
        self.code_N, self.item_N = code_N[order], item_N[order]
        self.items += len(new)
        item_of = self.item_N[np.searchsorted(self.code_N, wanted)]
        pair, signs = new // 4, new % 4
        if self.cache is not None:
            self.note_keys(new)
        message = (
            _tensor(pair // self.relations),
            _tensor(pair % self.relations),
            _tensor(signs >= 2),
            _tensor(signs % 2 == 1),
        )
        return message, [item_of[at] for at in place]

    def note_keys(self, code_M: Ints) -> None:
        """Records the cache keys of the new messages (the last items) whose source has one."""
        first = self.items - len(code_M)
        for at, code in enumerate(code_M.tolist()):
            source, relation = divmod(code // 4, self.relations)
            number = self.state_number.get(source, -1)
            if number >= 0:
                row = int(self.relation_B[relation])
                self.message_key[first + at] = (number, row, code % 4)

    def distinct_rows(self, rows: Ints) -> tuple[Ints, Ints]:
        """Distinct sets if they are shared, and the position of each original set."""
        if not self.share:
            return rows, np.arange(len(rows))
        code = np.zeros(len(rows), np.int64)
        for column in rows.T:
            _, code = np.unique(code * self.items + column, return_inverse=True)
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
        return rows[first], place


def _distinct(arrays: list[Ints]) -> tuple[Ints, list[Ints]]:
    """The sorted distinct values of several arrays, and the positions of each array's values."""
    found, place = np.unique(_joined(arrays), return_inverse=True)
    return found, np.split(place, np.cumsum([len(array) for array in arrays])[:-1])


def _joined(arrays: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def _tensor(array: npt.NDArray[np.integer | np.bool_]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
