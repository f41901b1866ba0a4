"""What a transform may ask about the sample that it works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

current: SampleInfo | None = None  # inside a transform


class SampleInfo:
    """Which sample of which epoch a transform works on, and its seed: a number of 64 bits that is the same the one that works on it."""

    def __init__(self, epoch: int, index: int, key: str, seed: int) -> None:
        self.epoch: int = epoch
        self.index: int = index
        self.key: str = key
        self.seed: int = seed

    @property
    def rng(self) -> numpy.random.Generator:
        """A new generator of numpy's, seeded for this sample."""
        import numpy

        return numpy.random.default_rng(self.seed)

    def __repr__(self) -> str:
        return f"SampleInfo(epoch={self.epoch}, index={self.index}, key={self.key!r}, seed={self.seed})"


def sample_info() -> SampleInfo | None:
    """Inside a transform: epoch, index, key and seed of its sample; of the first sample in a transform of batches and in collate.
    None elsewhere."""
    return current
