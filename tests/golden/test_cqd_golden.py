"""CQD-Beam and CQD-CO compute what the released code computes.

Where that code answers another query than the one asked, the other query is asked here. Decision 28
lists what is left out.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from clmpt.logic.formula import Variable, atoms
from clmpt.predictors.complex import ComplEx
from clmpt.queries.store import QueryGroup
from clmpt.queries.templates import filled
from clmpt.reasoners.decomposition.cqd_beam import CQDBeamReasoner
from clmpt.reasoners.decomposition.cqd_continuous import CQDContinuousReasoner
from clmpt.reasoners.model import Basis, build_model, read_reasoning
from golden.rivals import assert_close, golden_graph, golden_group, numbers, weights

REPOSITORY, FORK, LMPNN = numbers("cqd"), numbers("cqd_kgreasoning"), numbers("lmpnn")
NORMS = {"prod": "product", "min": "godel", "godel": "godel", "product": "product"}
TRUTHS = {"raw": "raw", "sigmoid": "sigmoid", "normalized": "min-max"}


def predictor(tables: str = "cqd") -> ComplEx:
    found = weights(tables)
    return ComplEx(found["entities"], found["relations"], torch.arange(len(found["relations"])) ^ 1)


def reasoner(name: str, tables: str = "cqd", **settings: Any) -> Any:
    chosen = read_reasoning({"reasoner": name, **settings})
    return build_model(Basis(golden_graph(), predictor(tables)), chosen, seed=0).reasoner()


def beam_of_four(t_norm: str, truth: str) -> CQDBeamReasoner:
    found = reasoner("cqd-beam", beam=4, t_norm=NORMS[t_norm], truth=TRUTHS[truth])
    assert isinstance(found, CQDBeamReasoner)
    return found


def optimised(t_norm: str, tables: str = "cqd", **settings: Any) -> CQDContinuousReasoner:
    """The released code runs the queries of a batch as one problem."""
    found = reasoner("cqd-co", tables, t_norm=NORMS[t_norm], loss="batch", **settings)
    assert isinstance(found, CQDContinuousReasoner)
    return found


def cases(figures: dict[str, Any], way: str) -> list[tuple[str, ...]]:
    return [tuple(key.split("_")) for key in figures if f"_{way}_" in key and "initial" not in key]


# --- beam search ----------------------------------------------------------------------------------

# Two beams for the two branches of ip, whose picks need not be equal; one branch of up alone, with
# truth values, as for all unions.
ANSWERED_IN_REPOSITORY = {
    "ip": "?y : $r1($s1, ?x1) & $r2($s2, ?x2) & $r3(?x2, ?y)",
    "up": "?y : $r1($s1, ?x1) & $r3(?x1, ?y)",
}
# The best ?x1 is chosen before the other branch of pi is looked at; this matters to raw products.
ANSWERED_IN_FORK = {"pi": "?y : exists ?x1 ($r1($s1, ?x1) & $r2(?x1, ?y)) & $r3($s2, ?y)"}


@pytest.mark.parametrize(("shape", "way", "t_norm", "truth", "_"), cases(REPOSITORY, "beam"))
def test_beam_search_of_the_repository(
    shape: str, way: str, t_norm: str, truth: str, _: str
) -> None:
    made = beam_of_four(t_norm, "sigmoid" if shape == "up" else truth)
    found = made.score([golden_group(shape, ANSWERED_IN_REPOSITORY.get(shape))])
    assert_close(found, REPOSITORY[f"{shape}_{way}_{t_norm}_{truth}_scores"])


def test_one_hop_is_the_predictor() -> None:
    for name in ("cqd-beam", "cqd-co"):
        truth = reasoner(name, t_norm="product").score([golden_group("1p")])
        assert_close(truth, torch.from_numpy(REPOSITORY["1p_scores"]).sigmoid())


FORK_CASES = [
    case
    for case in cases(FORK, "beam")
    # 3p takes the first atom's score of another branch; raw scores are united as if from 0 to 1.
    if case[0] != "3p" and (case[0] not in ("2u", "up") or case[3] != "raw")
]


@pytest.mark.parametrize(("shape", "way", "t_norm", "truth", "_"), FORK_CASES)
def test_beam_search_of_the_fork(shape: str, way: str, t_norm: str, truth: str, _: str) -> None:
    made = beam_of_four(t_norm, truth)
    found = made.score([golden_group(shape, ANSWERED_IN_FORK.get(shape))])
    assert_close(found, FORK[f"{shape}_{way}_{t_norm}_{truth}_scores"])


# --- continuous optimisation ----------------------------------------------------------------------

# Where these end after 1,000 steps depends on rounding: in double precision it is elsewhere.
UNSETTLED = [("3p", "prod", "1000"), ("3p", "min", "1000"), ("up", "prod", "1000")]
CONTINUOUS = [
    case
    for case in cases(REPOSITORY, "continuous")
    if (case[0], *case[2:4]) not in UNSETTLED and case[0] not in ("2i", "3i")  # for these see below
]


@pytest.mark.parametrize(("shape", "way", "t_norm", "steps", "_"), CONTINUOUS)
def test_continuous_optimisation_of_the_repository(
    shape: str, way: str, t_norm: str, steps: str, _: str
) -> None:
    start_VQD = torch.from_numpy(REPOSITORY[f"{shape}_{way}_initial"])
    made = optimised(t_norm, iterations=int(steps))
    found = made.scores_from(golden_group(shape), start_VQD.transpose(0, 1))
    accuracy = 1e-4 if steps == "20" else 5e-3
    assert_close(found, REPOSITORY[f"{shape}_{way}_{t_norm}_{steps}_scores"], accuracy)


@pytest.mark.parametrize("steps", [20, 1000])
@pytest.mark.parametrize("t_norm", ["prod", "min"])
@pytest.mark.parametrize("shape", ["2i", "3i"])
def test_without_other_variables_the_repository_scores_as_its_beam_search_does(
    shape: str, t_norm: str, steps: int
) -> None:
    found = beam_of_four(t_norm, "raw").score([golden_group(shape)])
    assert_close(found, REPOSITORY[f"{shape}_continuous_{t_norm}_{steps}_scores"])


@pytest.mark.parametrize(("shape", "way", "t_norm", "steps", "_"), cases(FORK, "continuous"))
def test_continuous_optimisation_of_the_fork(
    shape: str, way: str, t_norm: str, steps: str, _: str
) -> None:
    """It scores with the variables before the last step."""
    start = FORK.get(f"{shape}_{way}_initial")
    made = optimised(t_norm, iterations=int(steps) - 1, regularised="atoms", scored="answer")
    found = made.scores_from(
        golden_group(shape), None if start is None else torch.from_numpy(start)
    )
    assert_close(found, FORK[f"{shape}_{way}_{t_norm}_{steps}_scores"])


def inferred(group: QueryGroup, tables: ComplEx) -> Tensor:
    """Where LMPNN's repository starts: each variable at what its first atom infers."""
    embedding: dict[Variable, Tensor] = {}
    for atom in atoms(group.template.body):
        if isinstance(atom.tail, Variable) and atom.tail not in embedding:
            head = (
                embedding[atom.head]
                if isinstance(atom.head, Variable)
                else tables.entities_ED[torch.from_numpy(filled(atom.head, group, "entities"))]
            )
            relation = torch.from_numpy(filled(atom.relation, group, "relations"))
            embedding[atom.tail] = tables.project(head, tables.relations_SW[relation])
    return torch.stack(list(embedding.values()), 1).detach()


@pytest.mark.parametrize(("shape", "way", "t_norm", "steps"), cases(LMPNN, "gradient"))
def test_continuous_optimisation_of_lmpnn_s_repository(
    shape: str, way: str, t_norm: str, steps: str
) -> None:
    group = golden_group(shape)
    start_QVD = inferred(group, predictor("lmpnn"))
    mean = 0.05 / start_QVD.shape[1]  # the regulariser is a mean over variables
    course = {"iterations": int(steps), "shrinkage": 0.01, "regularisation": mean}
    found = optimised(t_norm, "lmpnn", **course).scores_from(group, start_QVD)
    assert_close(found, LMPNN[f"{shape}_{way}_{t_norm}_{steps}"])
