"""The settings of CLMPT and LMPNN, and suggestions by graph size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from clmpt.settings import Settings, setting


@dataclass(frozen=True)
class MessagePassingSettings(Settings):
    """What CLMPT shares with LMPNN. The width is that of the predictor."""

    conditional: bool = setting(True, "no messages to constants, which keep their embeddings")
    feed_forward: int = setting(1024, "width of the hidden layer", least=1)
    dropout: float = setting(0.1, "dropout probability", least=0, below=1)
    penalty: float = setting(0.0, "λ of the one-hop inference; 0 omits its denominator", least=0)
    frozen: bool = setting(False, "do not train the predictor's embeddings further")
    variable_scale: float = setting(
        1.0, "initial embeddings of variables are uniform from 0 to this", least=0
    )
    temperature: float = setting(0.05, "temperature T of the loss", above=0)


@dataclass(frozen=True)
class CLMPTSettings(MessagePassingSettings):
    """CLMPT's own settings."""

    encoder_layers: int = setting(2, "blocks of the transformer encoder", least=1, most=1000)
    heads: int = setting(8, "attention heads", least=1)
    pooling: Literal["mean", "sum", "max"] = setting("mean", "of the encoder's output")
    norm: Literal["pre", "post"] = setting("pre", "layer norm before or after each sublayer")
    branch_scale: float = setting(
        1.0, "initial scale of the residual branches; 0: the identity", least=0
    )


_SMALL = {"temperature": 0.1, "frozen": False}


def suggested_settings(entities: int) -> dict[str, Any]:
    """Defaults of `fit` for both models, by graph size."""
    if entities <= 200:
        return {**_SMALL, "feed_forward": 128}
    if entities <= 5_000:
        return {**_SMALL, "feed_forward": 512}
    if entities <= 50_000:
        return {"feed_forward": 1024}
    return {"feed_forward": 512, "frozen": True}


def suggested_encoder(entities: int) -> dict[str, Any]:
    """Defaults of `fit` for CLMPT's transformer, by graph size."""
    small = {"heads": 4, "norm": "post"} if entities <= 5_000 else {}
    return {"encoder_layers": 1, **small}
