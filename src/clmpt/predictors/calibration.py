"""From a predictor's scores to the probability that a link is true.

The starting point is the softmax over all entities, which says which tail is the likeliest, not
whether there is one. Calibration adds how many tails are known already and a bias per relation,
fitted on held-out links. Of the facts that the graph lacks only some are held out for this, so a
candidate without a label may still be true: the likelihood accounts for it (Elkan and Noto 2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clmpt.compute.chunks import rows_at_once
from clmpt.graph.edges import AnyInts, Ints
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.graph.splits import train_split
from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.queries.links import Links, answers_in, asked
from clmpt.queries.store import AnswerSets

# Shapes: B questions, E entities, X entries, S rows of the relation table, C coefficients: slope,
# slope of the log of known answers, none known, bias

MOST = 0.9999  # of what is not a known fact
_QUESTIONS, _LEAST_QUESTIONS = 6_000, 1_000
_SCORES = 2 * 10**9  # of all questions: fewer are asked of many entities
_LEAST_HIDDEN, _MORE_HIDDEN = 100, 1_000  # questions with a held-out answer; so many more if fewer
_BEST, _RANDOM = 100, 50  # candidates of a question: the best ones, and some of all others
_PRIOR = 0.01  # how strongly all are pulled towards softmax × known answers: matters without data
_SHRINKAGE = 100.0  # how strongly relations are pulled towards each other


@dataclass(frozen=True)
class Sharpening:
    """How a softmax becomes a truth value: `calibrated`, or `count` as in QTO (Bai et al. 2023):
    times the number of known answers."""

    kind: Literal["calibrated", "count"]

    def terms(
        self, predictor: EmbeddingPredictor, directed_B: Tensor, known_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The slope and the offset of each row, which act on its log-softmax."""
        known_B = known_B.to(predictor.entities_ED.dtype)
        if self.kind == "count":
            return torch.ones_like(known_B), known_B.clamp_min(1).log()
        return calibrated_terms(predictor.calibration_SC[predictor.rows(directed_B)], known_B)

    def values(self, log_X: Tensor, slope_X: Tensor, offset_X: Tensor) -> Tensor:
        """The truth values of log-softmax entries."""
        strength_X = slope_X * log_X + offset_X
        found_X = strength_X.exp() if self.kind == "count" else strength_X.sigmoid()
        return found_X.clamp_max(MOST)

    def least(self, threshold: float, slope_B: Tensor, offset_B: Tensor) -> Tensor:
        """The log-softmax from which on values reach the threshold."""
        wanted = torch.tensor(threshold, dtype=slope_B.dtype, device=slope_B.device)
        strength = wanted.log() if self.kind == "count" else wanted.logit()
        return (strength - offset_B) / slope_B


def calibrated_terms(coefficients_BC: Tensor, known_B: Tensor) -> tuple[Tensor, Tensor]:
    slope_B, count_B, none_B, bias_B = coefficients_BC.unbind(1)
    offset_B = bias_B + count_B * known_B.clamp_min(1).log() + none_B * (known_B == 0)
    return slope_B, offset_B


def is_calibrated(predictor: EmbeddingPredictor) -> bool:
    found_SC = predictor.calibration_SC
    return len(found_SC) > 0 and bool((found_SC[:, 0] > 0).all() and found_SC.isfinite().all())


def calibrate(predictor: EmbeddingPredictor, graph: KnowledgeGraph, seed: int = 0) -> None:
    """Fits the predictor's calibration to the links of the split 'valid'.

    The predictor must have been trained on the training split alone. Without held-out links the
    predictor stays as it is.
    """
    if "valid" not in graph.splits or not graph.view("valid").index.triples:
        return
    sample = _sample(predictor, graph, seed)
    share = hidden_share(graph)
    predictor.calibration_SC.copy_(_fitted(sample, len(predictor.relations_SW), share))


def hidden_share(graph: KnowledgeGraph) -> float:
    """The share of the split 'valid' in all facts that the model was not trained on; 1 without
    any. Only their number is used, not what they say."""
    hidden = graph.view().index.triples - graph.view(train_split(graph)).index.triples
    valid = graph.view("valid").index.triples if "valid" in graph.splits else 0
    return valid / hidden if valid and hidden else 1.0


@dataclass(frozen=True)
class _Sample:
    """Candidates of some questions. `weight_X` is how many candidates each stands for."""

    row_X: Tensor
    log_X: Tensor
    known_X: Tensor
    true_X: Tensor
    weight_X: Tensor


@torch.no_grad()
def _sample(predictor: EmbeddingPredictor, graph: KnowledgeGraph, seed: int) -> _Sample:
    """The best candidates of some questions and a random sample of all others; known answers are
    left out."""
    train = train_split(graph)
    random = np.random.default_rng([seed, graph.index.triples])
    links, stands_for = _questions(graph, random)
    entities, device = len(graph.entities), predictor.entities_ED.device
    known, hidden = (answers_in(graph.view(split).index, links) for split in (train, "valid"))
    parts: list[list[Tensor]] = []
    shard = predictor.shard
    step = rows_at_once(shard.most, 2**24)
    for start in range(0, len(links), step):
        rows = np.arange(start, min(start + step, len(links)))
        directed_B = torch.from_numpy(links.directed_P[rows]).to(device)
        scores_BE = predictor.score_answers(
            torch.from_numpy(links.entity_P[rows]).to(device), directed_B
        )
        log_BE = scores_BE - shard.logsumexp(scores_BE)[:, None]
        owner_T, known_T = _places(known, rows, device)
        here_T = shard.has(known_T)
        log_BE[owner_T[here_T], known_T[here_T] - shard.start] = -torch.inf
        best_BC, best_row_BC = shard.best(log_BE, _BEST)
        drawn = torch.from_numpy(random.integers(entities, size=(len(rows), _RANDOM))).to(device)
        drawn_log = shard.gathered(log_BE, drawn)
        candidate_BC = torch.cat([best_row_BC, drawn], 1)
        owner_T, hidden_T = _places(hidden, rows, device)
        code_BC = torch.arange(len(rows), device=device)[:, None] * entities + candidate_BC
        true_BC = torch.isin(code_BC, owner_T * entities + hidden_T)
        new = drawn_log < best_BC[:, -1:]  # not among the best
        log_BC = torch.cat([best_BC, drawn_log], 1)
        others = max(entities - best_BC.shape[1], 0) / _RANDOM
        weight_BC = torch.cat([torch.ones_like(best_BC), new * others], 1)
        plain_B = torch.from_numpy(hidden.counts[rows] == 0).to(device)
        weight_BC *= torch.where(plain_B, stands_for, 1.0)[:, None]
        use = log_BC.isfinite() & (weight_BC > 0)
        known_B = torch.from_numpy(known.counts[rows]).to(device)
        parts.append(
            [
                predictor.rows(directed_B)[:, None].expand_as(log_BC)[use],
                log_BC[use],
                known_B[:, None].expand_as(log_BC)[use],
                true_BC[use],
                weight_BC[use],
            ]
        )
    row_X, log_X, known_X, true_X, weight_X = (
        torch.cat(column).cpu() for column in zip(*parts, strict=True)
    )
    return _Sample(row_X, log_X.double(), known_X.double(), true_X.double(), weight_X.double())


def _questions(graph: KnowledgeGraph, random: np.random.Generator) -> tuple[Links, float]:
    """Questions like those of a query, half of them with an answer, half perhaps without one.

    The first half are drawn from those that facts of 'train' or 'valid' answer. The others ask the
    same relations of entities of the same kind: such as have another relation in common with the
    entity that was drawn. Without them every question would have an answer, and a probability
    would be too high wherever nothing is known.

    In a graph of millions of facts next to none of these has a held-out answer. Then more that do
    are drawn, and the number returned is how many questions each of the others stands for.
    """
    index = graph.view(train_split(graph), "valid").index
    key_K = np.asarray(index.keys_K1[:-1])
    directed_K, entity_K = np.divmod(key_K, index.entities)
    known_K = np.flatnonzero(asked(graph)[directed_K])
    questions = max(_LEAST_QUESTIONS, min(_QUESTIONS, _SCORES // index.entities))
    drawn = random.choice(known_K, questions // 2)
    order_K, starts = index.by_entity
    low, high = starts[entity_K[drawn]], starts[entity_K[drawn] + 1]
    shared = directed_K[order_K[random.integers(low, high)]]
    first, last = (np.searchsorted(directed_K, shared, side) for side in ("left", "right"))
    entity = np.concatenate([entity_K[drawn], entity_K[random.integers(first, last)]])
    directed = np.concatenate([directed_K[drawn], directed_K[drawn]])
    code = directed * np.int64(index.entities) + entity
    stands_for, hidden = 1.0, _with_hidden_answers(graph)
    often = len(drawn) / len(known_K)  # how often a question is drawn
    if often < 1 and 0 < len(hidden) * often < _LEAST_HIDDEN:
        more = random.choice(hidden, min(_MORE_HIDDEN, len(hidden)), replace=False)
        code, stands_for = np.concatenate([code, more]), 1 + len(more) / len(hidden) / often
    code = np.unique(code)
    none = AnswerSets(np.zeros(len(code) + 1, np.int64), np.empty(0, np.int64))
    return Links(code % index.entities, code // index.entities, none), stands_for


def _with_hidden_answers(graph: KnowledgeGraph) -> Ints:
    """The questions that facts of 'valid' answer, each as one number."""
    index = graph.view("valid").index
    key_K = np.asarray(index.keys_K1[:-1])
    return key_K[asked(graph)[key_K // max(index.entities, 1)]]


def _places(sets: AnswerSets, rows: Ints, device: torch.device) -> tuple[Tensor, Tensor]:
    part = sets.take(rows)
    entity: AnyInts = np.asarray(part.entities, np.int64)
    return torch.from_numpy(part.owners).to(device), torch.from_numpy(entity).to(device)


def log_likelihood(odds_X: Tensor, labelled_X: Tensor, share: float) -> Tensor:
    """Of labels that only `share` of what is true has, given log-odds of being true.

    >>> log_likelihood(torch.zeros(2), torch.tensor([True, False]), 0.5).exp()
    tensor([0.2500, 0.7500])
    """
    false_X = functional.logsigmoid(-odds_X)
    if share < 1:
        unlabelled = odds_X + math.log(1 - share)
        false_X = false_X + functional.softplus(unlabelled)
    return torch.where(labelled_X, functional.logsigmoid(odds_X) + math.log(share), false_X)


def _fitted(sample: _Sample, relations: int, share: float) -> Tensor:
    """Coefficients that maximise the likelihood of the held-out links; those of a relation are
    drawn towards the common ones, so rare relations get the average."""
    start_C = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    common_C = start_C.clone().requires_grad_()
    own_SC = torch.zeros(relations, len(common_C), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([common_C, own_SC], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        terms = calibrated_terms((common_C + own_SC)[sample.row_X], sample.known_X)
        odds_X = terms[0] * sample.log_X + terms[1]
        likelihood_X = log_likelihood(odds_X, sample.true_X > 0, share)
        total: Tensor = -(sample.weight_X * likelihood_X).sum() + _SHRINKAGE * (own_SC**2).sum()
        total = total + _PRIOR * ((common_C - start_C) ** 2).sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        found_SC = common_C + own_SC
        if not bool(found_SC.isfinite().all()):
            return torch.zeros_like(found_SC).float()
        found_SC[:, 0].clamp_(min=0.05)  # a likelier tail is never less true
        return found_SC.float()
