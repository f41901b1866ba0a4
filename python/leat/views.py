"""Blocks of tokens: a view of a dataset, and where documents begin in a block.

leat.Loader(url, view=leat.blocks(2048), fields={"x": leat.tokens("tokens"), "cu": leat.cu_seqlens("tokens", eos=50256)}, …)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leat._arguments import dtype as _dtype
from leat._arguments import text as _text
from leat._arguments import whole as _whole
from leat.errors import InvalidError
from leat.fields import Field, RaggedField

if TYPE_CHECKING:
    from leat._types import DType, Whole


class Blocks:
    """A view: what str() says, which is also what `view=` takes. Made by leat.blocks."""

    def __init__(self, seq_len: Whole, shift: Whole = 1, documents: str = "cut", field: str | None = None) -> None:
        self.seq_len: int = _whole("seq_len", seq_len, 1)
        self.shift: int = _whole("shift", shift, 0)
        self.documents: str = documents
        words = [f"blocks={self.seq_len}", f"shift={self.shift}"]
        if documents not in ("cut", "fit"):
            raise InvalidError(f'documents={documents!r} is neither "cut" nor "fit"')
        if documents == "fit":
            words.append("documents=fit")
        if field is not None:
            words.append(f"field={_text('field', field)}")
        self._text = " ".join(words)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<leat view {self._text!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocks) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self._text)


def blocks(seq_len: Whole, shift: Whole = 1, documents: str = "cut", field: str | None = None) -> Blocks:
    """A view of a token dataset: blocks of seq_len tokens and `shift` more, so that x = b[:, :-1] and y = b[:, 1:] for 1.

    documents: "cut" takes a chunk's tokens one after the other and cuts them where a block is full; "fit" packs whole
    documents into blocks by best fit, cuts only those that are longer than a block, and pads. `field` is needed where several
    fields have tokens.
    """
    return Blocks(seq_len, shift, documents, field)


def _marks(eos: Whole | None, bos: Whole | None, words: list[str]) -> str:
    for name, value in (("eos", eos), ("bos", bos)):
        if value is not None:
            words.append(f"{name}={_whole(name, value, 0)}")
    return " ".join(words)


def cu_seqlens(
    field: str, eos: Whole | None = None, bos: Whole | None = None, most: Whole | None = None
) -> RaggedField:
    """Where documents begin in the first seq_len tokens of a block, as attention with variable lengths wants it: 0, …,
    seq_len, int32. Ragged; with `most` an array of most + 1, its end repeated: documents without tokens.

    A document ends after each token `eos`, or begins with each `bos`; without either the dataset's own documents count.
    """
    words = [] if most is None else [f"most={_whole('most', most, 1)}"]
    return RaggedField("cu_seqlens", field, _marks(eos, bos, words))


def positions(field: str, eos: Whole | None = None, bos: Whole | None = None, dtype: DType = "int64") -> Field:
    """Position ids of the first seq_len tokens of a block: each document of it counts from 0."""
    return Field("positions", field, _marks(eos, bos, [f"dtype={_dtype(dtype)}"]))


def documents(field: str, eos: Whole | None = None, bos: Whole | None = None, dtype: DType = "int32") -> Field:
    """Which document of the block each of its first seq_len tokens is in, from 0: for masks of attention."""
    return Field("documents", field, _marks(eos, bos, [f"dtype={_dtype(dtype)}"]))
