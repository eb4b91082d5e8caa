"""Settings: frozen, typed, closed tables.

They come from TOML, Python and the command line, and are kept in run folders. An unknown key or a
value of the wrong type is rejected with a hint. A model declares its own table by extending
`Settings`; the tables here are shared by all models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from clmpt.errors import SettingError

_LARGEST = 10**12
_Value = TypeVar("_Value")
_Table = TypeVar("_Table")


def setting(
    default: _Value,
    summary: str,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> _Value:
    """A field with a default, a help line and the allowed range."""
    limits = {"least": least, "above": above, "below": below, "most": most}
    made: _Value = field(default=default, metadata={"help": summary, **limits})
    return made


@dataclass(frozen=True)
class Settings:
    """A table of settings; types and ranges are checked on construction."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for each in fields(self):
            _check_type(self, each.name, hints[each.name])
            value = getattr(self, each.name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                _check_range(each.name, value, each.metadata)


def _check_type(settings: Settings, name: str, kind: Any) -> None:
    value = getattr(settings, name)
    if choices := get_args(kind):
        if value not in choices:
            listed = ", ".join(map(str, choices))
            raise SettingError(f"'{name}' must be one of {listed}, not {value!r}.")
    elif kind is float and type(value) is int and abs(value) <= _LARGEST:
        object.__setattr__(settings, name, float(value))
    elif type(value) is not kind:
        raise SettingError(f"'{name}' must be of type {kind.__name__}, not {value!r}.")


def _check_range(name: str, value: float, limits: Mapping[str, Any]) -> None:
    least, above, below, most = (limits.get(n) for n in ("least", "above", "below", "most"))
    if least is not None and not value >= least:
        raise SettingError(f"'{name}' must be at least {least}, not {value}.")
    if above is not None and not value > above:
        raise SettingError(f"'{name}' must be above {above}, not {value}.")
    if below is not None and not value < below:
        raise SettingError(f"'{name}' must be below {below}, not {value}.")
    if most is not None and not value <= most:
        raise SettingError(f"'{name}' must be at most {most:,}, not {value}.")
    if not math.isfinite(value) or (least is not None and value > _LARGEST):
        raise SettingError(f"'{name}' must be at most {_LARGEST:,}.")


def read_table(kind: type[_Table], given: Mapping[str, Any]) -> _Table:
    """A table with the given values in place of its defaults; rejects unknown names.

    >>> read_table(Training, {"batch": 64}).batch
    64
    >>> read_table(Training, {"bacth": 64})
    Traceback (most recent call last):
    clmpt.errors.SettingError: There is no setting 'bacth'. Did you mean 'batch'?
    """
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    for name in given:
        check_known(name, known)
    return kind(**given)


def check_known(name: str, known: Sequence[str]) -> None:
    """Rejects the name of an unknown setting and suggests a similar one."""
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Available: {', '.join(known)}."
        raise SettingError(f"There is no setting '{name}'. {hint}")


@dataclass(frozen=True)
class Pretraining(Settings):
    """How a link predictor is trained. A predictor's class may override the defaults."""

    model: str = setting(
        "complex",
        "scoring function: complex, distmult, transe, rotate, rescal, cp, tucker, conve",
    )
    rank: int = setting(
        200, "numbers per entity; complex ones (complex, rotate), or pairs (cp)", least=1
    )
    epochs: int = setting(30, "maximum passes over the facts", least=1)
    batch: int = setting(1000, "distinct (entity, relation) pairs per step", least=1)
    learning_rate: float = setting(0.1, "of Adam (transe, rotate) or Adagrad", above=0)
    decay: Literal["none", "linear"] = setting("none", "of the learning rate, over all epochs")
    initial_scale: float = setting(1e-3, "scale of the initial embeddings", above=0)
    regularisation: float = setting(
        0.05, "weight of N3 (complex, distmult, cp) or DURA (rescal, tucker, conve)", least=0
    )
    relation_weight: float = setting(
        0.0,
        "weight of predicting a fact's relation from its ends (not transe, rotate, conve)",
        least=0,
    )
    candidates: int = setting(
        0, "entities drawn per step instead of scoring all; 0: all (not transe, rotate)", least=0
    )
    group: int = setting(
        0, "questions of a step that share candidates; 0: all (with candidates)", least=0
    )
    divided: Literal["entities", "tables"] = setting(
        "entities", "what several processes divide: the entities' table, or that of relations too"
    )
    negatives: int = setting(256, "negative samples per step (transe, rotate)", least=1)
    margin: float = setting(9.0, "margin γ (transe, rotate)", least=0)
    temperature: float = setting(1.0, "of self-adversarial sampling (transe, rotate)", least=0)
    averaging: float = setting(
        0.99,
        "decay of the moving average of the tables; 0, or with candidates: none",
        least=0,
        below=1,
    )
    validate_every: int = setting(1, "epochs between validations", least=1)
    validation_links: int = setting(
        0, "validation questions, drawn once at random; 0: all of them", least=0
    )
    patience: int = setting(5, "validations without improvement before stopping", least=1)
    seed: int = setting(0, "same seed, same numbers", least=0)
    device: str = setting("auto", "cpu, cuda, …; auto takes an accelerator if there is one")
    precision: Literal["float32", "bfloat16"] = setting("float32", "of matrix products")
    compile: bool = setting(False, "use torch.compile")


@dataclass(frozen=True)
class Training(Settings):
    """How a reasoner is trained. Its architecture and loss have a table of their own."""

    epochs: int = setting(10, "maximum passes over the queries", least=0)
    steps: int = setting(0, "stop after this many steps; 0: no limit but the epochs", least=0)
    minutes: float = setting(
        0.0,
        "stop after about this much processor time, without validation; 0: no limit but the others",
        least=0,
    )
    batch: int = setting(512, "queries per step", least=1)
    mixing: Literal["all", "shape"] = setting("all", "batches of all shapes, or of one shape each")
    learning_rate: float = setting(1e-4, "of AdamW", above=0)
    warm_up: int = setting(0, "steps of linear learning-rate warm-up", least=0)
    decay: Literal["none", "step", "fifths", "cosine"] = setting("none", "of the learning rate")
    decay_epoch: int = setting(50, "divide the rate by ten after this epoch (step)", least=1)
    weight_decay: float = setting(1e-4, "of AdamW", least=0)
    clip: float = setting(0.0, "maximum gradient norm; 0: no clipping", least=0)
    negatives: Literal["query", "batch", "all"] = setting(
        "query", "sampled per query or per batch, or all entities"
    )
    negative_count: int = setting(128, "number of negatives, K", least=1)
    entity_rows: Literal["all", "step"] = setting(
        "all", "rows of a trained entity table that a step updates: all, or those it uses"
    )
    divided: Literal["nothing", "weights"] = setting(
        "nothing", "what several processes divide: nothing, or the weights and optimizer state"
    )
    validate_every: int = setting(
        0, "steps between validations; 0: one epoch, or a fifth of 'minutes'", least=0
    )
    validation_queries: int = setting(
        100, "validation queries per shape; 0: none, and the last weights are kept", least=0
    )
    patience: int = setting(5, "validations without improvement before stopping", least=1)
    seed: int = setting(0, "same seed, same numbers", least=0)
    device: str = setting("auto", "cpu, cuda, …; auto takes an accelerator if there is one")
    precision: Literal["float32", "bfloat16"] = setting("float32", "of matrix products")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.minutes and self.steps:
            raise SettingError("'steps' and 'minutes' cannot be combined. Set one of them to 0.")
        if self.minutes and self.divided == "weights":
            raise SettingError(
                "'minutes' is measured on a copy of the model, which divided weights do not have. "
                "Set 'steps' instead."
            )


@dataclass(frozen=True)
class Reasoning:
    """A reasoner, by name or dotted path, and its table of settings."""

    reasoner: str
    settings: Settings

    def as_plain(self) -> dict[str, Any]:
        """
        >>> Reasoning("mine", Settings()).as_plain()
        {'reasoner': 'mine'}
        """
        return {"reasoner": self.reasoner, **asdict(self.settings)}


def without_device(settings: Pretraining | Training) -> dict[str, Any]:
    """The settings that the result depends on. A run may resume on other devices."""
    apart = "device", "divided"
    return {name: value for name, value in asdict(settings).items() if name not in apart}
