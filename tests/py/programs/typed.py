"""A training program as people write it, for type checkers; tests/py/test_types.py runs them over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import leat
import numpy
import numpy.typing


def write(place: Path) -> str:
    fields: dict[str, Any] = {
        "jpg": "image",
        "cls": leat.Label(["cat", "dog"]),
        "emb": leat.Array("float32", [None, 4]),
    }
    with leat.Writer(place, fields, chunk_size="4MiB", compress=["emb"]) as writer:
        writer.write({"jpg": b"", "cls": "cat", "emb": [[1.0, 2.0, 3.0, 4.0]]}, key="a")
    assert writer.version is not None
    return writer.version


def look(place: Path) -> list[str]:
    with leat.open(place, fields=["cls"], timeout="30s") as ds:
        info = ds.fields["cls"]
        names: list[str] = info.about["names"] if info.type == "int" else []
        number: int = ds.find("a")
        print(len(ds), ds.version, ds[number]["cls"], ds["a"], ds.classes)
        return names


def train(url: str, sizes: numpy.typing.NDArray[numpy.int64]) -> dict[str, Any]:
    image = leat.image("jpg").random_resized_crop(224, scale=(0.2, 1)).flip().dtype(numpy.float16)
    fields = {
        "x": image.normalize(mean=(0.5, 0.5, 0.5), std=0.25),
        "mask": leat.image("mask").filter("nearest").index().center_crop((224, 224)),
        "y": leat.int("cls", dtype=numpy.dtype("int32"), default=-1),
        "emb": leat.array("emb").pad((16, 4), value=0.0, cut=True),
        "key": leat.key(),
    }
    with leat.Loader(
        url,
        fields=fields,
        batch_size=sizes[0],
        ram="2gb",
        cache_dir=Path("/scratch"),
        cache=10_000_000,
        last="pad",
        on_error="skip",
        timeout=30,
        as_dict=True,
    ) as loader:
        for epoch in range(3):
            loader.set_epoch(epoch)
            for batch in loader:
                print(batch["x"].shape, leat.state_of(batch)["streams"])
        steps: int = len(loader)
        print(steps, loader.epoch, loader.stats()["wait_s"])
        return loader.state_dict()


def tokens(web: str, code: str) -> None:
    mix = leat.Mix({"web": 0.7, "code": 0.3}, {"web": web, "code": (code, leat.blocks(2048))}, view=leat.blocks(2048))
    fields = {"x": leat.tokens("tokens", dtype="int64"), "cu": leat.cu_seqlens("tokens", eos=0).ragged()}
    try:
        for x, _ in leat.Loader(mix, fields=fields, global_batch_size=64, epoch_size=1_000_000):
            print(x)
    except leat.errors.TimeoutError as error:
        print(error)
    except (leat.DatasetChanged, leat.Error):
        raise
