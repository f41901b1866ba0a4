"""Bad samples, chunks, buckets and settings: an error that says what to do, never a wrong byte or a hang."""

import os
import random
import re
import shutil
from pathlib import Path

import pytest
from loading import SLOW, make_blobs, make_images, pack, point_to, smallest_budget, stopped, values_of


@pytest.fixture(scope="module")
def damaged(leat_bin, tmp_path_factory):
    """40 images of which three cannot be decoded; one of those has a key that is no text."""
    folder = tmp_path_factory.mktemp("damaged")
    known = make_images(folder / "files", 40)
    bad = [folder / "files" / "c0" / "0003.png", folder / "files" / "c1" / "0010.png"]
    for path in bad:
        data = bytearray(path.read_bytes())
        data[60:] = bytes(len(data) - 60)
        path.write_bytes(data)
    odd = os.path.join(os.fsencode(folder / "files" / "c2"), b"new\nline \xff\xfe.png")
    with open(odd, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + bytes(100))
    it = pack(leat_bin, folder / "files", folder / "ds", "--chunk-size", "16KiB", known=known)
    it.bad = {"c0/0003.png", "c1/0010.png", os.fsdecode(b"c2/new\nline \xff\xfe.png")}
    return it


def take_all(loader, seen):
    """Keys and values of all batches up to an error or the end of the epoch."""
    for keys, values in loader:
        seen.update(zip(keys, values.tolist()))


def fields(lt):
    return {"x": lt.image("png").resize((16, 16)), "y": lt.int("cls"), "k": lt.key(), "v": lt.valid()}


def test_image_that_does_not_decode_is_an_error_that_names_it(lt, damaged):
    seen = set()
    with lt.Loader(damaged.url, batch_size=4, timeout=20 * SLOW, fields=fields(lt), as_numpy=True) as loader:
        for _ in range(2):  # and again: the loader stays where it is
            with pytest.raises(lt.Error) as caught:
                seen.update(key for _, _, keys, _ in loader for key in keys)
            named = re.search(r"sample \d+ \('(.*)'\)", str(caught.value)).group(1)
            printable = {key.replace("\n", " ").replace("\udcff", "?").replace("\udcfe", "?") for key in damaged.bad}
            assert named in printable
            assert type(caught.value).__name__ == "CorruptError"
            assert not seen & damaged.bad
        state = loader.state_dict()
    with lt.Loader(damaged.url, batch_size=4, on_error="skip", fields=fields(lt), as_numpy=True) as loader:
        loader.load_state_dict(state)
        rest = {key for _, _, keys, _ in loader for key in keys}
        assert not rest & seen
        assert len(rest | seen) == damaged.samples // 4 * 4


def test_skipped_images_are_filled_from_the_batch_masked_counted_and_named(lt, runtime, damaged):
    with lt.Loader(
        damaged.url, batch_size=10, last="short", on_error="skip", fields=fields(lt), as_numpy=True
    ) as loader:
        seen, masked = set(), set()
        for x, y, keys, valid in loader:
            assert x.shape[1:] == (16, 16, 3)
            good = [x[i].tobytes() for i in range(len(keys)) if valid[i]]
            labels = {x[i].tobytes(): y[i] for i in range(len(keys)) if valid[i]}
            for i, key in enumerate(keys):
                seen.add(key)
                if not valid[i]:
                    masked.add(key)
                    assert x[i].tobytes() in good, "filled from the same batch"
                    assert y[i] == labels[x[i].tobytes()], "with the label that belongs to it"
        assert seen == set(damaged.known) | damaged.bad
        assert masked == damaged.bad
        assert 3 <= loader.stats()["samples_skipped"] <= 6, "the next epoch has begun to be prepared"
    log = runtime.log()
    assert "c0/0003.png" in log
    assert "c1/0010.png" in log
    assert "line ??.png" in log


def test_batch_without_a_single_good_sample_is_an_error_even_when_skipping(lt, leat_bin, tmp_path):
    make_blobs(tmp_path / "files", 8, sizes=(50, 60), ending="png")
    bad = pack(leat_bin, tmp_path / "files", tmp_path / "ds", "--field", "png")
    x = {"x": lt.image("png").resize((8, 8))}
    with (
        lt.Loader(bad.url, batch_size=4, on_error="skip", fields=x, as_numpy=True) as loader,
        pytest.raises(lt.Error, match="none of the 4"),
    ):
        next(iter(loader))


def png_header(width, height):
    import struct
    import zlib

    def piece(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = piece(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + piece(b"IDAT", zlib.compress(bytes(1000))) + piece(b"IEND", b"")


def test_image_bomb_is_an_error_and_takes_no_memory(lt, runtime, leat_bin, tmp_path):
    make_images(tmp_path / "files", 20)
    (tmp_path / "files" / "c0" / "bomb.png").write_bytes(png_header(60000, 60000))
    it = pack(leat_bin, tmp_path / "files", tmp_path / "ds")
    with lt.Loader(it.url, batch_size=21, timeout=30 * SLOW, fields=fields(lt), as_numpy=True) as loader:
        with pytest.raises(lt.Error, match=r"bomb\.png"):
            next(iter(loader))
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{runtime.agent()}/status").read_text()).group(1)
        assert int(peak) < 300_000 * SLOW, "kilobytes"


def test_odd_keys_come_back_as_they_are(lt, leat_bin, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    names = [
        b"a\nb",
        b"\xff\xfe\x80",
        "ü€𝄞".encode(),
        b"'quoted\"",
        b"-dash",
        b"x" * 255,
        b"tab\there",
        b"x..",
        b"\\..\\",
    ]
    deep = b"/".join([b"d" * 200] * 4) + b"/end"
    names.append(deep)
    for i, name in enumerate(names):
        path = os.path.join(os.fsencode(files), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(bytes([i] * (i + 1)))
    it = pack(leat_bin, files, tmp_path / "ds", "--labels", "none", "--field", "data")
    with lt.Loader(it.url, batch_size=3, last="short", fields={"k": lt.key(), "d": lt.bytes("data")}) as loader:
        seen = {os.fsencode(k): d for keys, values in loader for k, d in zip(keys, values.tolist())}
    assert seen == {name: bytes([i] * (i + 1)) for i, name in enumerate(names)}


def chunks_of(path):
    return sorted(p for p in Path(path).rglob("*") if p.is_file() and "chunk" in str(p.relative_to(path)))


def test_flipped_byte_in_the_bucket_is_named_and_never_delivered(lt, runtime, blobs, tmp_path):
    shutil.copytree(blobs.path, tmp_path / "ds")
    victim = max(chunks_of(tmp_path / "ds"), key=lambda p: p.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 0x10
    victim.write_bytes(data)
    seen = {}
    with lt.Loader(
        tmp_path / "ds", batch_size=4, timeout=30 * SLOW, fields={"k": lt.key(), "b": lt.bytes("bin")}, as_numpy=True
    ) as loader:
        with pytest.raises(lt.Error) as caught:
            take_all(loader, seen)
        assert type(caught.value).__name__ == "CorruptError"
        assert victim.name in str(caught.value) or victim.stem in str(caught.value)
        assert all(blobs.known[key] == value for key, value in seen.items())
        data[len(data) // 2] ^= 0x10
        victim.write_bytes(data)  # repaired: the same loader goes on where it was
        rest = values_of(loader)
        assert not seen.keys() & rest.keys()
        seen |= rest
    assert seen == blobs.known
    assert "fetching it again" in runtime.log()


def test_damaged_snapshot_is_an_error_that_says_so(lt, runtime, blobs, tmp_path):
    """Root and pointer with bytes flipped, cut off, emptied or of another dataset: never a crash, never a batch."""
    draw = random.Random(4)
    shutil.copytree(blobs.path, tmp_path / "ds")
    victims = [p for p in (tmp_path / "ds").rglob("*") if p.is_file() and "chunks" not in p.parts]
    assert len(victims) >= 2

    def damage(data):
        kind = draw.randrange(4)
        if kind == 0:
            return data[: draw.randrange(len(data))]
        if kind == 1:
            return data + draw.randbytes(100)
        if kind == 2:
            return draw.randbytes(len(data))
        at = draw.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]

    with lt.Loader(blobs.url, batch_size=4, fields={"i": lt.index()}) as other:
        refused = 0
        for _ in range(60):
            victim = draw.choice(victims)
            whole = victim.read_bytes()
            victim.write_bytes(damage(whole))
            try:
                read_all(lt, tmp_path / "ds", blobs)  # what was damaged may not be needed for loading
            except lt.Error as error:
                refused += 1
                assert type(error).__name__ in ("CorruptError", "VersionError", "NotFoundError"), error
            victim.write_bytes(whole)
        assert refused > 5
        read_all(lt, tmp_path / "ds", blobs)
        assert next(iter(other))[0].shape == (4,)


def read_all(lt, url, blobs, **more):
    options = {"batch_size": 20, "timeout": 60 * SLOW, "as_numpy": True, **more}
    with lt.Loader(url, fields={"k": lt.key(), "b": lt.bytes("bin")}, **options) as loader:
        assert values_of(loader) == blobs.known
        return loader.stats()


def test_chunks_corrupted_on_the_way_are_fetched_again(lt, runtime, in_bucket, blobs):
    # once: more could hit the same chunk again, and one that is bad twice is bad in the bucket
    in_bucket(blobs, "--fault", "corrupt=1", "--fault-only", "chunks/", "--fault-count", "1")
    stats = read_all(lt, "s3://bucket/ds", blobs)
    assert stats["chunks_corrupt"] == 1


def test_every_fault_of_a_bucket_is_survived(lt, runtime, in_bucket, blobs):
    in_bucket(blobs, "--fault", "500=0.1,503=0.1,reset=0.1,truncate=0.1,error200=0.05", "--seed", "3")
    assert read_all(lt, "s3://bucket/ds", blobs)["retries"] > 0


def test_chunk_that_is_missing_is_named(lt, runtime, blobs, tmp_path):
    shutil.copytree(blobs.path, tmp_path / "ds")
    victim = chunks_of(tmp_path / "ds")[3]
    victim.rename(tmp_path / "away")
    with lt.Loader(tmp_path / "ds", batch_size=4, timeout=30 * SLOW, fields={"b": lt.bytes("bin")}) as loader:
        with pytest.raises(FileNotFoundError) as caught:
            for _ in loader:
                pass
        assert victim.name in str(caught.value)
        state = loader.state_dict()
        (tmp_path / "away").rename(victim)
        loader.load_state_dict(state)
        for _ in loader:
            pass
        assert loader.epoch == 1


def test_deadline_names_what_was_waited_for_and_the_loader_goes_on_afterwards(lt, runtime, in_bucket, blobs):
    server = in_bucket(blobs, "--latency", "200ms")
    seen = {}
    options = {"batch_size": 20, "window": 4, "ram": "700kb", "timeout": 2 * SLOW}  # not room for all
    with lt.Loader("s3://bucket/ds", fields={"k": lt.key(), "b": lt.bytes("bin")}, as_numpy=True, **options) as loader:
        with stopped(server.process.pid), pytest.raises(TimeoutError, match=r"chunk \d+ of s3://bucket/ds"):
            take_all(loader, seen)
        assert len(seen) < len(blobs.known)
        rest = values_of(loader)
        assert not seen.keys() & rest.keys()
        seen |= rest
        assert seen == blobs.known


def test_opening_has_the_deadline_as_well_and_names_the_dataset(lt, runtime, in_bucket, blobs):
    in_bucket(blobs, "--fault", "stall=1")
    with pytest.raises(TimeoutError, match=r"'s3://bucket/ds' could not be opened within 1 s: the agent"):
        lt.Loader("s3://bucket/ds", batch_size=20, timeout=1, fields={"b": lt.bytes("bin")}, as_numpy=True)


def test_folder_without_a_dataset_says_what_is_there_and_what_to_do(
    lt, images, tmp_path, bucket_dir, serve, monkeypatch
):
    files = images.path.parent / "files"
    for url in (files, f"file://{files}"):
        with pytest.raises(lt.Error, match="leat pack") as caught:
            lt.Loader(url, batch_size=8, fields={"i": lt.index()})
        assert re.search(r"c0|png", str(caught.value)), "what was found"
    shutil.copytree(files, bucket_dir / "bucket" / "files")
    point_to(serve(bucket_dir), monkeypatch)
    with pytest.raises(FileNotFoundError, match="leat pack"):
        lt.Loader("s3://bucket/files", batch_size=8, fields={"i": lt.index()})
    with pytest.raises(FileNotFoundError):
        lt.Loader("s3://bucket/nothing", batch_size=8, fields={"i": lt.index()})
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lt.Loader("/nowhere/at/all", batch_size=8, fields={"i": lt.index()})
    with pytest.raises(lt.Error):
        lt.Loader("s3://missing-bucket/x", batch_size=8, fields={"i": lt.index()})


def test_wrong_settings_are_all_named_at_once(lt, images):
    with pytest.raises(ValueError, match="batch") as caught:
        lt.Loader(
            images.url,
            batch_size=0,
            last="keep",
            on_error="ignore",
            rank=3,
            world_size=2,
            slots=1,
            seed=-1,
            window=-2,
            epoch=1.5,
            ram="much",
            threads="all",
            timeout=0,
            linger="soon",
            fields={"x": "jpg"},
        )
    text = str(caught.value)
    for word in (
        "batch_size", "last", "on_error", "rank", "slots", "seed", "window", "epoch", "ram", "threads", "timeout",
        "linger", "fields",
    ):  # fmt: skip
        assert word in text, (word, text)


def test_wrong_fields_are_all_named_at_once(lt, images):
    wrong = {
        "a": lt.image("jpg").resize((8, 8)),
        "b": lt.int("png"),
        "c": lt.image("png"),
        "d": lt.string("nothing"),
        "e": lt.image("png").resize((8, 8)).dtype("int3"),
        "ok": lt.index(),
    }
    with pytest.raises(ValueError, match="'jpg'") as caught:
        lt.Loader(images.url, batch_size=8, fields=wrong)
    for word in ("'a'", "'b'", "'c'", "'d'", "'e'", "int3", "nothing"):
        assert word in str(caught.value), (word, str(caught.value))
    assert "'ok'" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"rank": 0}, "both"),
        ({"global_batch_size": 9, "batch_size": None, "rank": 0, "world_size": 2}, "multiple"),
        ({"batch_size": None}, "exactly one"),
        ({"batch_size": 1000}, "203"),
        ({"fields": {}}, "field"),
        ({"scope": "x" * 300}, "scope"),
        ({"seed": 2**63}, "seed"),
        ({"ram": 1000}, "ram"),
        ({"batch_size": True}, "batch_size"),
    ],
)
def test_wrong_setting_is_refused(lt, images, options, match):
    with pytest.raises(lt.Error, match=match):
        lt.Loader(images.url, **{"batch_size": 8, "fields": {"i": lt.index()}, **options})


@pytest.mark.parametrize(
    ("batch", "window", "world"),
    [
        (60, 8, 1),
        (16, 0, 2),
        *(pytest.param(*case, marks=pytest.mark.long) for case in ((4, 8, 1), (200, 3, 1), (1, 30, 4))),
    ],
)
def test_too_small_budget_is_refused_with_the_smallest_that_works(
    lt, runtime, leat_bin, tmp_path, batch, window, world
):
    """Chunks of a megabyte with few and many samples in turn, so that an average says nothing."""
    files = tmp_path / "files"
    known = make_blobs(files, 240, sizes=(0, 60))
    for i in range(0, 240, 8):
        name = f"{i:04d}.bin"
        known[name] = bytes([i]) * 900_000
        (files / name).write_bytes(known[name])
    it = pack(leat_bin, files, tmp_path / "ds", "--chunk-size", "1MiB", "--keep-order")
    assert it.chunks >= 30
    options = {
        "global_batch_size": batch * world,
        "rank": 0,
        "world_size": world,
        "window": window,
        "last": "short",
        "fields": {"k": lt.key(), "b": lt.bytes("bin")},
        "as_numpy": True,
    }
    budget = smallest_budget(lt, it.url, **options)
    runtime.wait_gone()
    options["timeout"] = 20 * SLOW
    with lt.Loader(it.url, ram=budget, linger=0, **options) as loader:
        for _ in range(2):
            seen = {key: value for keys, values in loader for key, value in zip(keys, values.tolist())}
            assert all(known[key] == value for key, value in seen.items())
            assert len(seen) == 240 // world or world > 1
        stats = loader.stats()
        assert stats["cache_bytes"] <= stats["cache_budget"]


def test_smallest_budget_for_two_loaders_works_though_one_of_them_stands_still(lt, runtime, leat_bin, tmp_path):
    files = tmp_path / "files"
    make_blobs(files, 120, sizes=(80_000, 120_000))
    it = pack(leat_bin, files, tmp_path / "ds", "--chunk-size", "256KiB")
    options = {"batch_size": 6, "window": 8, "fields": {"b": lt.bytes("bin")}, "as_numpy": True}
    one = smallest_budget(lt, it.url, **options)
    runtime.wait_gone()
    both = 2 * one
    options["timeout"] = 20 * SLOW
    with (
        lt.Loader(it.url, ram=both, **options) as first,
        lt.Loader(it.url, seed=1, **options) as second,
    ):
        rest = iter(first)
        held = next(rest)
        for _ in range(3):
            assert sum(len(b) for (b,) in second) == 120
        assert len(held[0]) == 6
        assert sum(len(b) for (b,) in rest) == 114
        with pytest.raises(lt.Error, match="other loaders"):
            lt.Loader(it.url, **options)
