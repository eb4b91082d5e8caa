"""The outputs of the authors' released model for fixed weights and queries."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clmpt.evaluation.ranks import filtered_ranks
from clmpt.logic.formula import placeholders
from clmpt.logic.shapes import EPFO, NEGATION, shape
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import AnswerSets, QueryGroup
from clmpt.reasoners.alternatives import best_alternative
from clmpt.reasoners.message_passing.clmpt import CLMPT, cosine, nce_loss
from clmpt.reasoners.message_passing.layout import lay_out_queries
from golden.golden_weights import WIDTH, golden_weights
from models import fresh_reasoner, reasoning

FIGURES = Path(__file__).parent / "figures"
TRAINED = ("1p", "2p", "3p", "2i", "3i", "2in", "3in", "inp", "pin", "pni")
TEMPERATURE = 0.05


@lru_cache(maxsize=1)
def weights() -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in golden_weights().items()}


def model(norm: str) -> CLMPT:
    given = weights()
    inverse_R = torch.arange(len(given["relations"])) ^ 1
    predictor = ComplEx(given["entities"].clone(), given["relations"].clone(), inverse_R)
    made = fresh_reasoner(
        predictor, reasoning(encoder_layers=1, feed_forward=1024, norm=norm, dropout=0.0)
    )
    assert isinstance(made, CLMPT)
    own = {
        "existential_D": given["existential"],
        "free_D": given["free"],
        "blocks.0.query_key_value.weight": torch.cat(
            [given[name] for name in ("query", "key", "value")]
        ),
        "blocks.0.output.weight": given["output"],
        "final_norm.weight": given["final_norm.weight"],
        "final_norm.bias": given["final_norm.bias"],
    }
    for part in ("expand", "contract", "attention_norm", "feed_forward_norm"):
        for kind in ("weight", "bias"):
            own[f"blocks.0.{part}.{kind}"] = given[f"{part}.{kind}"]
    if norm == "post":  # only this norm order has attention biases; here they are 0
        own["blocks.0.query_key_value.bias"] = torch.zeros(3 * WIDTH)
        own["blocks.0.output.bias"] = torch.zeros(WIDTH)
    tables = {f"predictor.{name}": value for name, value in predictor.state_dict().items()}
    made.load_state_dict({**tables, **own})
    return made


@lru_cache(maxsize=1)
def queries() -> dict[str, dict[str, list[dict[str, Any]]]]:
    found: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(
        (FIGURES / "queries.json").read_text()
    )
    return found


def group(kind: str, name: str) -> QueryGroup:
    found, template = queries()[kind][name], shape(name)
    columns = [
        [[query[slot] for slot in slots] for query in found] for slots in placeholders(template)
    ]

    def answers(which: str) -> AnswerSets:
        sets = [sorted(query.get(which, [])) for query in found]
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in sets])])
        return AnswerSets(offsets, np.array([e for one in sets for e in one], np.int64))

    entities, relations = (np.array(column, np.int32) for column in columns)
    return QueryGroup(name, template, entities, relations, answers("easy"), answers("hard"))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_answers_ranks_and_mrr_of_all_shapes_in_one_batch(norm: str) -> None:
    golden, made = np.load(FIGURES / f"{norm}_norm.npz"), model(norm)
    groups = [group("evaluation", name) for name in (*EPFO, *NEGATION)]
    batch = lay_out_queries(groups, made.passing())
    with torch.inference_mode():
        answers_GD = made(batch)
        scores_GE = cosine(answers_GD, made.predictor.entities_ED)
    scores_QE = best_alternative(scores_GE, batch.query_G, batch.queries)
    graphs, first, unequal = 0, 0, 0
    for one in groups:
        alternatives = golden[f"{one.name}_answer_embedding"].shape[1]
        own_GD = answers_GD[graphs : graphs + alternatives * len(one)]
        graphs += len(own_GD)
        own = own_GD.reshape(alternatives, len(one), -1).transpose(0, 1)
        np.testing.assert_allclose(own, golden[f"{one.name}_answer_embedding"], atol=1e-4)
        known = [np.union1d(easy, hard) for easy, hard in zip(one.easy, one.hard, strict=True)]
        offsets = np.concatenate([[0], np.cumsum([len(each) for each in known])])
        all_answers = AnswerSets(offsets, np.concatenate(known))
        rank_T = filtered_ranks(scores_QE[first : first + len(one)].clone(), one.hard, all_answers)
        first += len(one)
        in_file = [query["hard"] for query in queries()["evaluation"][one.name]]
        order = np.concatenate(
            [
                np.argsort(np.argsort(hard)) + at
                for hard, at in zip(in_file, one.hard.offsets[:-1], strict=True)
            ]
        )
        off = np.abs(rank_T[order] - 1 - golden[f"{one.name}_rank"])
        assert off.max() <= 1  # ties within float32 precision
        unequal += int((off > 0).sum())
        weight_T = np.repeat(1 / one.hard.counts, one.hard.counts) / len(one)
        assert (weight_T / rank_T).sum() == pytest.approx(golden[f"{one.name}_mrr"], rel=1e-4)
    assert unequal <= 2


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_loss_and_gradients_of_a_training_step(norm: str) -> None:
    golden, made = np.load(FIGURES / f"{norm}_norm.npz"), model(norm)
    groups = [group("training", name) for name in TRAINED]
    batch = lay_out_queries(groups, made.passing())
    scores_QE = cosine(made(batch), made.predictor.entities_ED)
    losses, first = [], 0
    for one in groups:
        own_QE = scores_QE[first : first + len(one)]
        first += len(one)
        positive = [query["easy"][0] for query in queries()["training"][one.name]]
        negative_QK = torch.from_numpy(golden[f"negatives_{one.name}"].T.astype(np.int64))
        loss = nce_loss(
            own_QE.gather(1, torch.tensor(positive)[:, None]),
            own_QE.gather(1, negative_QK),
            TEMPERATURE,
        )
        assert loss.item() == pytest.approx(golden[f"train_loss_{one.name}"].item(), rel=1e-4)
        losses.append(loss)
    mean = torch.stack(losses).mean()
    assert mean.item() == pytest.approx(golden["train_loss"].item(), rel=1e-4)
    mean.backward()  # type: ignore[no-untyped-call]
    for name, parameter in (("existential", made.existential_D), ("free", made.free_D)):
        expected = golden[f"grad_{name}"].ravel()
        assert parameter.grad is not None
        error = np.linalg.norm(parameter.grad.numpy() - expected) / np.linalg.norm(expected)
        assert error < 1e-4
    encoder = [*made.blocks.parameters(), *made.final_norm.parameters()]
    for name, parameters in (
        ("entities", [made.predictor.entities_ED]),
        ("relations", [made.predictor.relations_SW]),
        ("encoder", encoder),
    ):
        (key,) = [key for key in golden.files if key.startswith("grad") and name in key]
        norms = [p.grad.norm() for p in parameters if p.grad is not None]
        assert torch.stack(norms).norm().item() == pytest.approx(golden[key].item(), rel=1e-4)
