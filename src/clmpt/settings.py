"""Settings: frozen, typed, closed.

They come from TOML and the command line, and are kept in run folders.
An unknown key or a value of the wrong kind is refused with what would be right.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from clmpt.errors import DataError, SettingError

_LARGEST_FILE = 2**20
_MOST = 10**12
LONGEST_NAME = 100

_Value = TypeVar("_Value")

Model = Literal["complex", "distmult", "transe", "rotate"]


def _check_kinds(settings: object) -> None:
    for name, kind in get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        if choices := get_args(kind):
            if value not in choices:
                listed = ", ".join(map(str, choices))
                raise SettingError(f"'{name}' must be one of {listed}, not {value!r}.")
        elif kind is float and type(value) is int and abs(value) <= _MOST:
            object.__setattr__(settings, name, float(value))
        elif type(value) is not kind:
            raise SettingError(f"'{name}' must be of type {kind.__name__}, not {value!r}.")


def _at_least(name: str, value: float, least: int) -> None:
    if not value >= least:
        raise SettingError(f"'{name}' must be {least} or more, not {value}.")
    if value > _MOST:
        raise SettingError(f"'{name}' must be {_MOST:,} at most.")


def setting(default: _Value, summary: str) -> _Value:
    """A field with a default and a line for the help."""
    made: _Value = field(default=default, metadata={"help": summary})
    return made


@dataclass(frozen=True)
class Pretraining:
    """How a link predictor is made. What each model starts from is in `DEFAULTS`."""

    model: Model = setting("complex", "what a link is scored by")  # noqa: RUF009
    rank: int = setting(200, "numbers per entity, complex ones for complex and rotate")
    epochs: int = setting(30, "passes over the facts at most")
    batch: int = setting(1000, "questions (distinct entity and relation) per step")
    learning_rate: float = setting(0.1, "of Adagrad (complex, distmult) or Adam")
    decay: Literal["none", "linear"] = setting("none", "of the learning rate, over all epochs")
    initial_scale: float = setting(1e-3, "how large the numbers are that training starts from")
    regularisation: float = setting(0.05, "weight of N3 (complex, distmult)")
    negatives: int = setting(256, "entities drawn per step (transe, rotate)")
    margin: float = setting(9.0, "of the distance (transe, rotate)")
    temperature: float = setting(1.0, "how much hard negatives count for more (transe, rotate)")
    averaging: float = setting(0.99, "share of the tables' running mean a step keeps; 0: none")
    validate_every: int = setting(1, "epochs between validations")
    patience: int = setting(5, "validations without a better one before training stops")
    seed: int = setting(0, "same seed, same numbers")
    device: str = setting("auto", "cpu, cuda, …; auto takes what is there")
    precision: Literal["float32", "bfloat16"] = setting("float32", "of matrix products")
    compile: bool = setting(False, "use torch.compile")

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name in ("rank", "epochs", "batch", "negatives", "validate_every", "patience"):
            _at_least(name, getattr(self, name), 1)
        for name in ("regularisation", "margin", "temperature", "seed"):
            _at_least(name, getattr(self, name), 0)
        for name in ("learning_rate", "initial_scale"):
            if not 0 < getattr(self, name) < float("inf"):
                raise SettingError(f"'{name}' must be above 0, not {getattr(self, name)}.")
        if not 0 <= self.averaging < 1:
            raise SettingError(f"'averaging' must be from 0 on and below 1, not {self.averaging}.")

    @property
    def width(self) -> int:
        """How many real numbers an embedding has."""
        return self.rank * (2 if self.model in ("complex", "rotate") else 1)


@dataclass(frozen=True)
class Reasoning:
    """What a reasoner is like. Its width is that of the predictor it stands on."""

    reasoner: Literal["clmpt", "lmpnn"] = setting(
        "clmpt", "which update a node gets: a transformer's (clmpt) or an MLP's (lmpnn)"
    )
    conditional: bool = setting(True, "no messages to constants, which keep their embeddings")
    encoder_layers: int = setting(2, "blocks of the transformer encoder (clmpt)")
    heads: int = setting(8, "of its self-attention (clmpt)")
    feed_forward: int = setting(1024, "width of its hidden layers, or of the MLP's")
    pooling: Literal["mean", "sum", "max"] = setting("mean", "of a set's members (clmpt)")
    norm: Literal["pre", "post"] = setting(
        "pre", "before or after attention and feed-forward (clmpt)"
    )
    dropout: float = setting(0.1, "share of numbers zeroed in training")
    epsilon: float = setting(0.1, "weight of the node itself (lmpnn)")
    penalty: float = setting(0.0, "λ of the one-hop inference; 0 leaves its denominator out")
    frozen: bool = setting(False, "the predictor's tables are not trained further")
    variable_scale: float = setting(1.0, "variables' first embeddings are drawn from 0 to this")
    branch_scale: float = setting(
        1.0, "of what attention and feed-forward add at the start; 0: nothing yet (clmpt)"
    )

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name in ("encoder_layers", "heads", "feed_forward"):
            _at_least(name, getattr(self, name), 1)
        for name in ("epsilon", "penalty", "dropout", "variable_scale", "branch_scale"):
            _at_least(name, getattr(self, name), 0)
        if self.dropout >= 1:
            raise SettingError(f"'dropout' must be below 1, not {self.dropout}.")


@dataclass(frozen=True)
class Training:
    """How a reasoner is trained."""

    epochs: int = setting(10, "passes over the queries at most")
    steps: int = setting(0, "stop after so many; 0: the epochs decide")
    batch: int = setting(512, "queries per step")
    mixing: Literal["all", "shape"] = setting(
        "all", "what a batch is drawn from: all shapes or one"
    )
    learning_rate: float = setting(1e-4, "of AdamW")
    warm_up: int = setting(0, "steps over which the learning rate rises from 0")
    decay: Literal["none", "step", "cosine"] = setting("none", "of the learning rate")
    decay_epoch: int = setting(50, "after which it is a tenth (step)")
    weight_decay: float = setting(1e-4, "of AdamW")
    clip: float = setting(0.0, "the longest a gradient may be; 0: any length")
    temperature: float = setting(0.05, "T of the loss")
    negatives: Literal["query", "batch", "all"] = setting(
        "query", "drawn for each, or once; or everything"
    )
    negative_count: int = setting(128, "K")
    validate_every: int = setting(0, "steps; 0: every epoch")
    validation_queries: int = setting(100, "of each shape")
    patience: int = setting(5, "validations without a better one before training stops")
    seed: int = setting(0, "same seed, same numbers")
    device: str = setting("auto", "cpu, cuda, …; auto takes what is there")
    precision: Literal["float32", "bfloat16"] = setting("float32", "of matrix products")

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name in (
            *("epochs", "batch", "decay_epoch", "negative_count"),
            *("validation_queries", "patience"),
        ):
            _at_least(name, getattr(self, name), 1)
        for name in ("steps", "warm_up", "weight_decay", "clip", "validate_every", "seed"):
            _at_least(name, getattr(self, name), 0)
        for name in ("learning_rate", "temperature"):
            if not 0 < getattr(self, name) < float("inf"):
                raise SettingError(f"'{name}' must be above 0, not {getattr(self, name)}.")


@dataclass(frozen=True)
class Fitting:
    """What `clmpt fit` does around training."""

    hide: float = setting(0.1, "share of the facts kept from training, to choose and measure by")
    queries: int = setting(0, "training queries of each shape at most; 0: by the graph's size")
    test_queries: int = setting(200, "of each shape at most, to measure by")
    seed: int = setting(0, "same seed, same numbers; of every stage that has none of its own")

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name in ("queries", "seed"):
            _at_least(name, getattr(self, name), 0)
        _at_least("test_queries", self.test_queries, 1)
        if not 0 <= self.hide < 1:
            raise SettingError(f"'hide' must be from 0 on and below 1, not {self.hide}.")


@dataclass(frozen=True)
class Experiment:
    """What is reproduced, and what it stands beside."""

    name: str = setting("", "what reports call it; empty: by the reasoner and what is special")
    benchmark: str = setting("", "whose published figures to show: fb15k, fb15k-237 or nell995")
    published: str = setting("", "the published row that it repeats")
    seed: int = setting(0, "same seed, same numbers; of every stage that has none of its own")

    def __post_init__(self) -> None:
        _check_kinds(self)
        _at_least("seed", self.seed, 0)
        for name in ("name", "benchmark", "published"):
            text = getattr(self, name)
            if not text.isprintable() or len(text) > LONGEST_NAME:
                raise SettingError(
                    f"'{name}' must be up to {LONGEST_NAME} characters that can be printed, not "
                    f"{text[:LONGEST_NAME]!a}."
                )


@dataclass(frozen=True)
class Queries:
    """Which queries an experiment needs, where its folder does not have them."""

    trained: str = setting("1p 2p 3p 2i 3i 2in 3in inp pin pni", "shapes to train on")
    measured: str = setting("1p 2p 3p 2i 3i ip pi 2u up 2in 3in inp pin pni", "shapes to test")
    train: int = setting(10_000, "of each trained shape")
    train_negated: int = setting(1_000, "of each trained shape with a negation")
    test: int = setting(1_000, "of each measured shape")
    test_links: int = setting(1_000, "of a measured shape with a single atom")
    seed: int = setting(0, "same seed, same queries")

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name in ("train", "train_negated", "test", "test_links"):
            _at_least(name, getattr(self, name), 1)
        _at_least("seed", self.seed, 0)
        for name in ("trained", "measured"):
            if not getattr(self, name).split():
                raise SettingError(f"'{name}' must name a shape at least.")


_DISTANCE = {"learning_rate": 1e-3, "initial_scale": 0.05, "epochs": 100, "batch": 512}
DEFAULTS: dict[str, Pretraining] = {
    "complex": Pretraining(),
    "distmult": Pretraining(model="distmult"),
    "transe": Pretraining(model="transe", **_DISTANCE),  # type: ignore[arg-type]
    "rotate": Pretraining(model="rotate", **_DISTANCE),  # type: ignore[arg-type]
}


def pretraining(given: Mapping[str, Any]) -> Pretraining:
    """The settings of the model that `given` names, with what else is given in place of defaults.

    >>> pretraining({"model": "transe", "rank": 50}).learning_rate
    0.001
    >>> pretraining({"rnak": 50})
    Traceback (most recent call last):
    clmpt.errors.SettingError: There is no setting 'rnak'. Did you mean 'rank'?
    """
    model = given.get("model", "complex")
    if not isinstance(model, str) or model not in DEFAULTS:
        raise SettingError(f"There is no model '{model}'. There are: {', '.join(DEFAULTS)}.")
    _check_names(Pretraining, given)
    return replace(DEFAULTS[model], **given)


def reasoning(given: Mapping[str, Any]) -> Reasoning:
    """A reasoner's settings; LMPNN passes messages to constants unless told otherwise.

    >>> reasoning({"reasoner": "lmpnn"}).conditional
    False
    """
    _check_names(Reasoning, given)
    start = {"conditional": False} if given.get("reasoner") == "lmpnn" else {}
    return Reasoning(**{**start, **given})


def check_heads(before: Pretraining, model: Reasoning) -> None:
    """Refuses heads that do not divide what the predictor makes."""
    if model.reasoner == "clmpt" and before.width % model.heads:
        raise SettingError(
            f"{model.heads} heads do not divide the predictor's width of {before.width}."
        )


def without_device(settings: Pretraining | Training) -> dict[str, Any]:
    """The settings that a result depends on: what was begun on one device may go on on another."""
    found = asdict(settings)
    found.pop("device")
    return found


def training(given: Mapping[str, Any]) -> Training:
    _check_names(Training, given)
    return Training(**given)


def fitting(given: Mapping[str, Any]) -> Fitting:
    _check_names(Fitting, given)
    return Fitting(**given)


def experiment(given: Mapping[str, Any]) -> Experiment:
    _check_names(Experiment, given)
    return Experiment(**given)


def queries(given: Mapping[str, Any]) -> Queries:
    _check_names(Queries, given)
    return Queries(**given)


def _check_names(kind: type[Any], given: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(known)}."
            raise SettingError(f"There is no setting '{name}'. {hint}")


# --- recipes --------------------------------------------------------------------------------------

KINDS: dict[str, type[Any]] = {
    "experiment": Experiment,
    "queries": Queries,
    "fitting": Fitting,
    "pretraining": Pretraining,
    "reasoning": Reasoning,
    "training": Training,
}
_OF_EXPERIMENTS = {name: kind for name, kind in KINDS.items() if name != "fitting"}
_MOST_BASES = 4
_SHIPPED = (Path(__file__).parent, Path(__file__).parents[2])  # in a wheel, in a checkout
Tables = dict[str, dict[str, Any]]


def read_recipe(path: str | Path) -> Tables:
    """A recipe's tables, each of which is for some command.

    A recipe may name another one of its folder as its `base`, and then says only what differs.
    Those of `recipes/` that come with us are found wherever one stands.
    """
    path = _shipped(Path(path))
    tables = read_toml(path)
    merged: Tables = {}
    for _ in range(_MOST_BASES):
        base = tables.pop("base", None)
        for name, content in tables.items():
            if name not in KINDS or not isinstance(content, dict):
                known = ", ".join(f"[{name}]" for name in KINDS)
                raise SettingError(f"'{path}' has '{name}'; it may have the tables {known}.")
            merged[name] = {**content, **merged.get(name, {})}
        if base is None:
            return merged
        if not isinstance(base, str) or Path(base).name != base:
            raise SettingError(f"The base of '{path}' must be a file of the same folder.")
        path = path.parent / base
        tables = read_toml(path)
    raise SettingError(f"'{path}' stands on more than {_MOST_BASES} recipes, or on itself.")


def _shipped(path: Path) -> Path:
    if path.exists() or path.parts[:1] != ("recipes",) or ".." in path.parts:
        return path
    return next((root / path for root in _SHIPPED if (root / path).is_file()), path)


def changed(tables: Tables, assignments: Sequence[str]) -> Tables:
    """An experiment's tables with settings given as `table.name=value`.

    The table may be left out where only one has such a setting.

    >>> changed({"training": {"batch": 512}}, ["training.batch=64", "rank=8", "decay=cosine"])
    Traceback (most recent call last):
    clmpt.errors.SettingError: Say which 'decay' is meant: pretraining.decay or training.decay.
    >>> changed({"training": {"batch": 512}}, ["training.batch=64", "rank=8"])
    {'training': {'batch': 64}, 'pretraining': {'rank': 8}}
    """
    found = {name: dict(table) for name, table in tables.items()}
    for table, name, value in map(assigned, assignments):
        found.setdefault(table, {})[name] = value
    return found


def assigned(assignment: str) -> tuple[str, str, Any]:
    """The table, name and value that `table.name=value` or `name=value` speaks of.

    >>> assigned("rank=8")
    ('pretraining', 'rank', 8)
    """
    key, equals, text = assignment.partition("=")
    if not equals:
        raise SettingError(f"'{assignment}' should be NAME=VALUE, such as training.batch=64.")
    table, dot, name = key.strip().rpartition(".")
    if dot and table not in _OF_EXPERIMENTS:
        known = ", ".join(_OF_EXPERIMENTS)
        raise SettingError(f"There is no table '{table}'. There are: {known}.")
    if not dot:
        table = _only_table(name)
    _check_names(KINDS[table], {name: None})
    return table, name, _value(text)


def _only_table(name: str) -> str:
    having = [
        table
        for table, kind in _OF_EXPERIMENTS.items()
        if name in (field.name for field in fields(kind))
    ]
    if len(having) > 1:
        listed = " or ".join(f"{table}.{name}" for table in having)
        raise SettingError(f"Say which '{name}' is meant: {listed}.")
    if not having:
        known = [field.name for kind in _OF_EXPERIMENTS.values() for field in fields(kind)]
        near = get_close_matches(name, known, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise SettingError(f"There is no setting '{name}'.{hint}")
    return having[0]


def _value(text: str) -> Any:
    """A value as TOML has it; anything else is taken as plain text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a settings file."""
    path = Path(path)
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise DataError(f"'{path}' is larger than a settings file can be.")
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"'{path}' is not TOML: {error}.") from None
    return tables
