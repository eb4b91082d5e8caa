"""Opens the models that a service asks; apart, because this needs torch."""

from __future__ import annotations

from clmpt.answering.answerer import Answerer


def open_answerer(path: str, device: str, trust: tuple[str, ...], reasoner: str | None) -> Answerer:
    return Answerer.open(path, device=device, trust=trust, reasoner=reasoner)
