"""Evaluation of link prediction: heads and tails of every fact, known answers filtered out."""

from __future__ import annotations

import numpy as np
import torch

from clmpt.compute import distributed
from clmpt.compute.chunks import SCORES_AT_ONCE, rows_at_once
from clmpt.errors import DataError
from clmpt.evaluation.ranks import Figures, Floats, figures, filtered_ranks
from clmpt.graph.knowledge_graph import KnowledgeGraph
from clmpt.predictors.predictor import LinkPredictor
from clmpt.progress import Progress, ReportProgress, silent
from clmpt.queries.links import Links, known_answers, links_of
from clmpt.queries.store import AnswerSets

# Shapes: B questions of a chunk, E entities


def link_ranks(
    predictor: LinkPredictor,
    wanted: Links,
    known: AnswerSets,
    progress: ReportProgress = silent,
    scores_at_once: int = SCORES_AT_ONCE,
) -> Floats:
    """The filtered rank of every answer to every one-hop question, in order."""
    device, shard = predictor.entities_ED.device, predictor.shard
    step = rows_at_once(shard.most, scores_at_once)
    ranks = [np.empty(0)]
    with torch.inference_mode():
        for start in range(0, len(wanted), step):
            rows = np.arange(start, min(start + step, len(wanted)))
            part = wanted.take(rows)
            scores_BE = predictor.score_answers(
                torch.from_numpy(part.entity_P).to(device),
                torch.from_numpy(part.directed_P).to(device),
            )
            ranks.append(filtered_ranks(scores_BE, part.answers, known.take(rows), shard=shard))
            progress(Progress("links", int(rows[-1]) + 1, len(wanted)))
    return np.concatenate(ranks)


def evaluate_links(
    predictor: LinkPredictor,
    graph: KnowledgeGraph,
    split: str,
    progress: ReportProgress = silent,
    scores_at_once: int = SCORES_AT_ONCE,
    limit: int = 0,
    seed: int = 0,
) -> Figures:
    """Figures over heads and tails of a split's facts; known answers of all splits are filtered.

    With a limit, over so many of the one-hop questions, drawn at random: always the same for a
    seed.
    """
    links = links_of(graph, split).drawn(limit, seed)
    if not len(links):
        raise DataError(f"The split '{split}' has no facts to evaluate on.")
    if predictor.shard.parts > 1:  # every process ranks all answers among its own entities
        known = known_answers(graph, links)
        return figures(link_ranks(predictor, links, known, progress, scores_at_once))
    step = rows_at_once(predictor.shard.most, scores_at_once)  # the same chunks in any case:
    starts = range(0, len(links), step)  # a product's rounding depends on its rows
    own: dict[int, Floats] = {}
    for number in distributed.own_turns(len(starts)):
        rows = np.arange(starts[number], min(starts[number] + step, len(links)))
        part = links.take(rows)
        own[number] = link_ranks(
            predictor, part, known_answers(graph, part), silent, scores_at_once
        )
        progress(Progress("links", int(rows[-1]) + 1, len(links)))
    ranks = distributed.entries_of_all(own)
    return figures(np.concatenate([ranks[number] for number in range(len(starts))]))
