"""The figures of `clmpt bench` are consistent; their size is not tested."""

from __future__ import annotations

import json

import pytest

from clmpt.cli.commands import bench as benching
from clmpt.cli.main import main
from clmpt.experiments.speed import SIZES, Size, measure_speed
from clmpt.reasoners.message_passing.clmpt import CLMPT
from clmpt.reasoners.message_passing.clmpt_settings import CLMPTSettings

SETTINGS = {"clmpt": {"encoder_layers": 1, "feed_forward": 16}, "lmpnn": {"feed_forward": 16}}
TINY = Size(rank=8, reasoning=SETTINGS, entities=300)


def test_encoder_flops_of_a_token_by_hand() -> None:
    # Four 16 × 16 maps for attention, two for the feed-forward network, two operations per weight.
    one, two = (CLMPTSettings(encoder_layers=layers, feed_forward=16) for layers in (1, 2))
    assert CLMPT.products_per_token(one, 16) == 2 * (4 * 256 + 2 * 256)
    assert CLMPT.products_per_token(two, 16) == 2 * CLMPT.products_per_token(one, 16)


@pytest.mark.parametrize("reasoner", ["clmpt", "lmpnn"])
@pytest.mark.parametrize("negatives", ["query", "batch"])
def test_phases_add_up(reasoner: str, negatives: str) -> None:
    found = measure_speed(TINY, reasoner, negatives, steps=2, peak=lambda: 1e9)
    trained = found["training"]
    assert sum(trained["phases"].values()) == pytest.approx(trained["seconds"])
    assert all(seconds > 0 for seconds in trained["phases"].values())
    if reasoner == "clmpt":
        # Weighted by FB15k-237's proportions, the shapes have 6.2 tokens on average.
        assert 5.5 < trained["tokens_per_query"] < 7
    answered = found["inference"]
    assert sum(answered["phases"].values()) == pytest.approx(answered["seconds"], rel=0.2)
    assert 0 < answered["encoder_flops_spent"] <= answered["encoder_flops_needed"]


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(SIZES, "S", TINY)
    assert main(["bench", "--sizes", "S", "--steps", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("size\ts\tprocessor s\tmessages s")
    assert lines[1].startswith("S\t")
    assert main(["bench", "--sizes", "S", "--steps", "1", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert run["entities"] == 300
    assert benching.SIZES is SIZES


def test_a_reasoner_without_training_has_inference_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SIZES, "S", TINY)
    assert main(["bench", "--sizes", "S", "--steps", "1", "--reasoner", "truth-values"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("size\ts\tscoring s\tranking s\tqueries/s")
    assert measure_speed(TINY, "truth-values", steps=1)["training"] is None


def test_a_model_without_negation_is_measured_on_what_it_can_express() -> None:
    found = measure_speed(TINY, "gqe", "batch", steps=1, peak=lambda: 1e9, changes={"rank": 8})
    assert found["training"]["seconds"] > 0
