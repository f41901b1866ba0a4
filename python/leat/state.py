"""States of batches, for code that reads ahead."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from leat import _core
from leat.errors import InvalidError
from leat.stages import remembered


def _place(column: Any) -> Any:
    """What tells where a column lies: itself, the address of its memory, or None for things that lie in no batch."""
    if isinstance(column, _core.Ragged):
        return column
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(column, torch.Tensor):
        return column.untyped_storage().data_ptr() if column.device.type == "cpu" else None
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(column, numpy.ndarray):
        return column.__array_interface__["data"][0]
    return None


def state_of(batch: Any) -> dict[str, Any]:
    """The state after a batch: what the loader's state_dict() was when the batch was the last one handed out.

    Takes the tuple or dict that the loader gave, a list or a tuple made of its columns, or a column. Asks where the
    columns lie, so at least one must be the loader's own; copies (on a GPU, pinned) do not know it. Ask before copying.
    """
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    columns = batch if isinstance(batch, (list, tuple)) else [batch]
    places = [place for place in map(_place, columns) if place is not None]
    states = {state for state in map(_core.state_of, places) if state is not None}
    states |= {state for state in map(remembered, columns) if state is not None}
    if not states:
        raise InvalidError(f"{type(batch).__name__}: no column of it lies in a batch of a loader, or all were copied")
    if len(states) > 1:
        raise InvalidError("the columns are of different batches, so that there is no one state after them")
    state: dict[str, Any] = json.loads(states.pop())
    return state
