"""The weights behind the golden numbers: drawn from one seed, in this order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

ENTITIES, RELATIONS, WIDTH, FEED_FORWARD = 14505, 474, 400, 1024


def golden_weights() -> dict[str, Floats]:
    """Linear maps are [out, in]; there is one encoder layer."""
    random = np.random.default_rng(0)

    def normal(*shape: int, scale: float) -> Floats:
        return random.standard_normal(shape, np.float32) * np.float32(scale)

    def norm(name: str) -> dict[str, Floats]:
        return {
            f"{name}.weight": 1 + normal(WIDTH, scale=0.05),
            f"{name}.bias": normal(WIDTH, scale=0.05),
        }

    found = {
        "entities": normal(ENTITIES, WIDTH, scale=0.1),
        "relations": normal(RELATIONS, WIDTH, scale=0.3),
        "existential": random.random(WIDTH, np.float32),
        "free": random.random(WIDTH, np.float32),
    }
    for name in ("query", "key", "value", "output"):
        found[name] = normal(WIDTH, WIDTH, scale=WIDTH**-0.5)
    found["expand.weight"] = normal(FEED_FORWARD, WIDTH, scale=WIDTH**-0.5)
    found["expand.bias"] = normal(FEED_FORWARD, scale=0.02)
    found["contract.weight"] = normal(WIDTH, FEED_FORWARD, scale=FEED_FORWARD**-0.5)
    found["contract.bias"] = normal(WIDTH, scale=0.02)
    return found | norm("attention_norm") | norm("feed_forward_norm") | norm("final_norm")
