"""LMPNN (Wang et al., ICLR 2023), the model that CLMPT builds on: updates by a sum and an MLP."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clmpt.reasoners.dropout import SetDropout
from clmpt.reasoners.message_passing.clmpt import MessagePassing
from clmpt.reasoners.message_passing.clmpt_settings import MessagePassingSettings
from clmpt.reasoners.model import Basis
from clmpt.reasoners.token_sets import Sizes, linear, sets_of
from clmpt.settings import setting

# Shapes: T tokens, U updates, D width, F hidden width, s size of a set

_MESSAGES = 4  # summed before they pass through the MLP, on average


@dataclass(frozen=True)
class LMPNNSettings(MessagePassingSettings):
    """As published: messages to all nodes, a frozen predictor."""

    conditional: bool = setting(False, "no messages to constants, which keep their embeddings")
    frozen: bool = setting(True, "do not train the predictor's embeddings further")
    epsilon: float = setting(0.1, "weight of the node itself", least=0)


class LMPNN(MessagePassing):
    """Updates a node with an MLP on the sum of its messages and ε times itself, as in GIN."""

    title = "LMPNN"
    Settings = LMPNNSettings
    settings: LMPNNSettings

    def __init__(self, basis: Basis, settings: LMPNNSettings, generator: torch.Generator) -> None:
        super().__init__(basis, settings, generator)
        width = self.predictor.entities_ED.shape[1]
        self.expand = linear(width, settings.feed_forward, generator)
        self.contract = linear(settings.feed_forward, width, generator)

    @classmethod
    def summary(cls, settings: LMPNNSettings) -> str:
        return f"feed-forward {settings.feed_forward}"

    @classmethod
    def products_per_token(cls, settings: LMPNNSettings, width: int) -> float:
        return 4.0 * width * settings.feed_forward / _MESSAGES

    def update(
        self,
        token_TD: Tensor,
        sizes: Sizes,
        dropout: SetDropout,
        weights: list[Tensor] | None = None,  # noqa: ARG002
    ) -> Tensor:
        sums = [
            set_UsD[:, :-1].sum(1) + self.settings.epsilon * set_UsD[:, -1]
            for set_UsD in sets_of(token_TD, sizes)
        ]
        hidden_UF = dropout.relu_of_sets(self.expand(torch.cat(sums)))
        updated_UD: Tensor = self.contract(hidden_UF)
        return updated_UD
