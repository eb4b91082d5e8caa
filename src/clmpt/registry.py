"""Models by name, path or entry point.

A class is imported on first use, so listing names costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from clmpt.errors import DataError, SettingError

if TYPE_CHECKING:
    from clmpt.predictors.predictor import EmbeddingPredictor
    from clmpt.reasoners.model import ReasonerModel

Kind = TypeVar("Kind")


class Registry(Generic[Kind]):
    """Classes of one kind. `group` is the entry-point group for other packages.

    `base` is the dotted path of the class that all of them extend.
    """

    def __init__(self, what: str, group: str, base: str, own: Mapping[str, str]) -> None:
        self.what, self.group, self.base, self.own = what, group, base, own
        self.registered: dict[str, type[Kind]] = {}

    def register(self, name: str, kind: type[Kind]) -> None:
        """Registers a class under a name, for this process only."""
        if name in self.names():
            raise SettingError(f"The {self.what} '{name}' already exists. Choose another name.")
        self.registered[name] = self._checked(name, kind)

    def names(self) -> list[str]:
        """All registered names."""
        return [*self.own, *self.registered, *(point.name for point in self._points())]

    def find(self, name: str) -> type[Kind]:
        """The class for a name or a dotted path such as `package.module:Class`.

        A dotted path imports its module: pass only what the user chose, never a path from an
        untrusted file.
        """
        if name in self.registered:
            return self.registered[name]
        if name in self.own:
            return self._checked(name, _imported(self.own[name]))
        point = next((point for point in self._points() if point.name == name), None)
        if point is None and ":" not in name:
            raise self._unknown(name)
        try:
            found = point.load() if point else _imported(name)
        except Exception as error:  # whatever a module of somebody else's does when imported
            raise SettingError(
                f"The {self.what} '{name}' cannot be imported: {error or type(error).__name__}. Is "
                "its module installed, or on PYTHONPATH?"
            ) from None
        return self._checked(name, found)

    def find_trusted(self, name: Any, trust: Collection[str], origin: object) -> type[Kind]:
        """The class that a file of unknown origin names.

        One that is not part of this installation is imported only if the user named it: importing
        runs code.
        """
        if not isinstance(name, str) or (not self.is_known(name) and ":" not in name):
            raise KeyError(f"there is no {self.what} {name!r}")
        if self.is_known(name) or name in trust:
            return self.find(name)
        for known in trust:
            with suppress(SettingError):  # of another kind: predictors are trusted alike
                kind = self.find(known)
                if self.name_of(kind) == name:
                    return kind
        raise DataError(
            f"'{origin}' was made with the class {name}, which is not part of this installation. "
            f"If you trust it: --trust {name}, or trust=['{name}'] in Python."
        )

    def name_of(self, kind: type[Any]) -> str:
        """The name that `find` resolves to this class: a registered name, or its dotted path."""
        path = f"{kind.__module__}:{kind.__qualname__}"
        known = {own: name for name, own in self.own.items()}
        if path in known:
            return known[path]
        for name in (*self.registered, *(point.name for point in self._points())):
            with suppress(SettingError):  # an installed package that is broken
                if self.find(name) is kind:
                    return str(name)
        return path

    def is_known(self, name: str) -> bool:
        """Whether a name belongs to a class of this installation."""
        return name in self.names()

    def _points(self) -> list[Any]:
        return [point for point in entry_points(group=self.group) if point.name not in self.own]

    def _checked(self, name: str, found: Any) -> type[Kind]:
        base = _imported(self.base)
        if not isinstance(found, type) or not issubclass(found, base):
            raise SettingError(
                f"'{name}' is not a {self.what}: it must be a class that extends {base.__name__}."
            )
        return found

    def _unknown(self, name: str) -> SettingError:
        near = get_close_matches(name, self.names(), 1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Available: {', '.join(self.names())}."
        return SettingError(
            f"There is no {self.what} '{name}'. {hint} A class of your own is named by its path, "
            "package.module:Class."
        )


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


PREDICTORS: Registry[EmbeddingPredictor] = Registry(
    "predictor",
    "clmpt.predictors",
    "clmpt.predictors.predictor:EmbeddingPredictor",
    {
        "complex": "clmpt.predictors.complex:ComplEx",
        "distmult": "clmpt.predictors.distmult:DistMult",
        "transe": "clmpt.predictors.transe:TransE",
        "rotate": "clmpt.predictors.rotate:RotatE",
        "rescal": "clmpt.predictors.rescal:RESCAL",
        "cp": "clmpt.predictors.cp:CP",
        "tucker": "clmpt.predictors.tucker:TuckER",
        "conve": "clmpt.predictors.conve:ConvE",
    },
)

REASONERS: Registry[ReasonerModel] = Registry(
    "reasoner",
    "clmpt.reasoners",
    "clmpt.reasoners.model:ReasonerModel",
    {
        "clmpt": "clmpt.reasoners.message_passing.clmpt:CLMPT",
        "lmpnn": "clmpt.reasoners.message_passing.lmpnn:LMPNN",
        "gqe": "clmpt.reasoners.operators.gqe:GQE",
        "query2box": "clmpt.reasoners.operators.query2box:Query2box",
        "betae": "clmpt.reasoners.operators.betae_model:BetaE",
        "cone": "clmpt.reasoners.operators.cone:ConE",
        "cyle": "clmpt.reasoners.operators.cyle:CylE",
        "gammae": "clmpt.reasoners.operators.gammae:GammaE",
        "mlp": "clmpt.reasoners.operators.mlp:MLP",
        "mlp-mixer": "clmpt.reasoners.operators.mlp:MLPMixer",
        "query2particles": "clmpt.reasoners.operators.query2particles:Query2Particles",
        "perm": "clmpt.reasoners.operators.perm:PERM",
        "gnn-qe": "clmpt.reasoners.fuzzy.gnn_qe:GNNQE",
        "enesy": "clmpt.reasoners.fuzzy.enesy:ENeSy",
        "cqd-beam": "clmpt.reasoners.decomposition.cqd_beam:CQDBeam",
        "cqd-co": "clmpt.reasoners.decomposition.cqd_continuous:CQDContinuous",
        "kgtransformer": "clmpt.reasoners.transformers.kgtransformer:KGTransformer",
        "biqe": "clmpt.reasoners.transformers.biqe:BIQE",
        "hybrid": "clmpt.reasoners.hybrid:Hybrid",
        "truth-values": "clmpt.reasoners.truth_values.truth_values:TruthValues",
    },
)
