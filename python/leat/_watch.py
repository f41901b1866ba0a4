"""How long a loop waits for what it iterates over."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leat import _arguments
from leat.errors import WrongTypeError

if TYPE_CHECKING:
    from typing import TextIO

T = TypeVar("T")


def _is_followed(iterable: object) -> bool:
    """Whether `leat profile` follows it anyway, and knows more of it than its waits."""
    named = (("torch.utils.data", "DataLoader"), ("leat.loader", "Loader"))
    kinds = (getattr(sys.modules.get(module), name, None) for module, name in named)
    return any(isinstance(kind, type) and isinstance(iterable, kind) for kind in kinds)


class Watch(Generic[T]):
    """Iterates over what it was given, and says now and then how much of the time was waiting."""

    def __init__(self, iterable: Iterable[T], every: float, file: TextIO | None) -> None:
        self._iterable, self._every, self._file = iterable, every, file
        self.steps: int = 0
        self.wait_s: float = 0.0
        self.total_s: float = 0.0

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[T]:
        observer = sys.modules.get("_leat_observe")  # `leat profile` is there: it counts too, for all ranks, and speaks
        iterator = iter(self._iterable)
        if observer is not None and not _is_followed(self._iterable):
            iterator = observer.Watched(iterator, observer.number_of(self))
        said = (time.monotonic(), self.steps, self.wait_s)
        before = time.perf_counter()
        while True:
            began = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            now = time.perf_counter()
            self.wait_s += now - began
            self.total_s += now - before  # from batch to batch: the wait, and the work on the one before
            before = now
            self.steps += 1
            if observer is None and time.monotonic() - said[0] >= self._every:
                self._say(*said)
                said = (time.monotonic(), self.steps, self.wait_s)
            yield batch

    def _say(self, since: float, steps: int, wait_s: float) -> None:
        took = time.monotonic() - since
        count = self.steps - steps
        share = 100 * (self.wait_s - wait_s) / took
        out = self._file or sys.stderr
        # In one piece: print() writes the line's end by itself under `torchrun`, and ranks share a terminal.
        out.write(f"leat: {count} steps of {1e3 * took / count:.3g} ms: waiting for data {share:.1f} %\n")
        out.flush()


def watch(iterable: Iterable[T], *, every: float = 5.0, file: TextIO | None = None) -> Watch[T]:
    """Iterates over anything, and prints a line every few seconds: how much of the time the loop waited for it.

    for batch in leat.watch(loader):
        ...

    Under `leat profile` it prints nothing itself: the waits count in the report, together with those of the other ranks. Outside
    it is about this process. `steps`, `wait_s` and `total_s` of what it returns are the sums."""
    if not hasattr(iterable, "__iter__") and not hasattr(iterable, "__getitem__"):
        raise WrongTypeError(f"leat.watch() takes something to iterate over, and not {iterable!r}")
    seconds: Any = _arguments.real("every", every)
    return Watch(iterable, max(0.0, float(seconds)), file)
