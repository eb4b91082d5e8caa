"""Models by name, path or entry point.

A class is imported on first use, so listing names costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from clmpt.errors import SettingError

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
        for point in self._points():
            if point.name == name:
                return self._checked(name, point.load())
        if ":" not in name:
            raise self._unknown(name)
        try:
            return self._checked(name, _imported(name))
        except (ImportError, AttributeError, ValueError) as error:
            raise SettingError(
                f"The {self.what} '{name}' cannot be imported: {error}. Is its module installed, "
                "or on PYTHONPATH?"
            ) from None

    def name_of(self, kind: type[Any]) -> str:
        """The name that `find` resolves to this class: a registered name, or its dotted path."""
        path = f"{kind.__module__}:{kind.__qualname__}"
        known = {own: name for name, own in self.own.items()}
        known |= {point.value: point.name for point in self._points()}
        return next((n for n, k in self.registered.items() if k is kind), known.get(path, path))

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
    },
)

REASONERS: Registry[ReasonerModel] = Registry(
    "reasoner",
    "clmpt.reasoners",
    "clmpt.reasoners.model:ReasonerModel",
    {
        "clmpt": "clmpt.reasoners.message_passing.clmpt:CLMPT",
        "lmpnn": "clmpt.reasoners.message_passing.lmpnn:LMPNN",
    },
)
