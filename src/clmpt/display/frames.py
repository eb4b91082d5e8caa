"""Tables for pandas, which is not needed for anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clmpt.errors import MissingLibrary

if TYPE_CHECKING:
    import pandas


def data_frame(columns: Mapping[str, Sequence[object]]) -> pandas.DataFrame:
    """A DataFrame of these columns, in this order."""
    try:
        import pandas
    except ImportError:
        raise MissingLibrary("pandas", "a DataFrame") from None
    return pandas.DataFrame(dict(columns))
