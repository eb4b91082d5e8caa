"""LMPNN (Wang et al., ICLR 2023), CLMPT's nearest relative: updates by a sum and an MLP."""

from __future__ import annotations

import torch
from torch import Tensor

from clmpt.predictors.predictor import EmbeddingPredictor
from clmpt.reasoners.message_passing.clmpt import MessagePassing, Sizes, linear, sets_of
from clmpt.reasoners.message_passing.dropout import Dropout
from clmpt.settings import Reasoning

# Shapes: T tokens, U updates, D width, s size of a set


class LMPNN(MessagePassing):
    """Updates a node by an MLP of the sum of its messages and ε times itself, as in GIN."""

    def __init__(
        self, predictor: EmbeddingPredictor, settings: Reasoning, generator: torch.Generator
    ) -> None:
        super().__init__(predictor, settings, generator)
        width = predictor.entities_ED.shape[1]
        self.expand = linear(width, settings.feed_forward, generator)
        self.contract = linear(settings.feed_forward, width, generator)

    def update(
        self,
        token_TD: Tensor,
        sizes: Sizes,
        dropout: Dropout,
        seen: list[Tensor] | None = None,  # noqa: ARG002
    ) -> Tensor:
        sums = [
            set_UsD[:, :-1].sum(1) + self.settings.epsilon * set_UsD[:, -1]
            for set_UsD in sets_of(token_TD, sizes)
        ]
        hidden_UF = dropout.relu(self.expand(torch.cat(sums)))
        updated_UD: Tensor = self.contract(hidden_UF)
        return updated_UD
