"""What `leat index` promises of tar shards: the samples that WebDataset finds, with the bytes it finds, in chunks whose
sums are known; and every shard that cannot be read so, named before anything is published."""

import io
import json
import os
import random
import string
import subprocess
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loading import import_leat
from shards import import_webdataset, samples, write_tar


def index(run_leat, *args, form="tar", **more):
    args = ("--json", "--chunk-size", "16KiB", "--format", form, *args)
    return json.loads(run_leat("index", *args, status=0, **more).stdout)


def refused(run_leat, *args, dest, status=2, **more):
    """The error; nothing may have been published by then."""
    done = run_leat("index", *args, dest, status=status, **more)
    assert not (dest / "leat").exists(), "something was published"
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def picture(seed, side=24):
    import numpy
    from PIL import Image

    out = io.BytesIO()
    noise = numpy.random.default_rng(seed).integers(0, 256, size=(side, side + seed % 5, 3), dtype=numpy.uint8)
    Image.fromarray(noise).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def shards(tmp_path):
    """Three shards of forty samples, as WebDataset's own writer makes them."""
    wds = import_webdataset()
    folder = tmp_path / "shards"
    folder.mkdir()
    with wds.ShardWriter(f"{folder}/train-%06d.tar", maxcount=40, verbose=0) as sink:
        for i in range(120):
            sample = {"__key__": f"d/{i:05}", "png": picture(i), "cls": i % 7, "txt": f"caption {i}", "json": {"n": i}}
            if i % 3 == 0:
                sample["seg.png"] = picture(1000 + i)
            sink.write(sample)
    return folder


def as_webdataset_reads(*paths):
    wds = import_webdataset()
    found = {}
    for sample in wds.WebDataset([str(p) for p in paths], shardshuffle=False):
        found[sample["__key__"]] = {k: v for k, v in sample.items() if not k.startswith("__")}
    return found


def as_stored(sample):
    """Bytes as they lie in the shard, of what leat.open() has decoded."""
    return {k: v.encode() if isinstance(v, str) else v for k, v in sample.items()}


def raw_types(*fields):
    return [f"--type={name}=bytes" for name in fields]


# What comes out


def test_shards_of_webdataset_give_the_samples_that_webdataset_reads(tmp_path, shards, run_leat):
    made = index(run_leat, *raw_types("png", "cls", "txt", "json", "seg.png"), shards / "train-{000000..000002}.tar",
                 tmp_path / "ds", form="auto")  # fmt: skip
    assert (made["samples"], made["objects"], made["format"]) == (120, 3, "tar") and made["chunks"] > 6
    expected = as_webdataset_reads(*sorted(shards.iterdir()))
    found = samples(tmp_path / "ds")
    assert len(expected) == 120 and list(found) == list(expected)
    assert found == expected
    assert "all good" in run_leat("verify", tmp_path / "ds", status=0).stdout


def test_fields_have_the_types_that_their_endings_say(tmp_path, shards, run_leat):
    index(run_leat, "--type", "cls=int", shards, tmp_path / "ds")
    dataset = import_leat().open(str(tmp_path / "ds"))
    types = {name: (f.type, f.optional) for name, f in dataset.fields.items()}
    assert types == {
        "png": ("image", False), "cls": ("int", False), "txt": ("string", False), "json": ("json", False),
        "seg.png": ("image", True),
    }  # fmt: skip
    sample = dataset["d/00041"]
    assert (sample["cls"], sample["txt"], sample["json"]) == (41 % 7, "caption 41", {"n": 41})
    assert sample["png"].shape == (24, 24 + 41 % 5, 3) and sample["seg.png"] is None
    assert dataset["d/00042"]["seg.png"].shape == (24, 24 + 1042 % 5, 3)


def test_a_loader_delivers_every_sample_once_with_its_bytes(lt, tmp_path, shards, run_leat):
    index(run_leat, "--type", "cls=int", "--type", "png=bytes", shards, tmp_path / "ds")
    expected = as_webdataset_reads(*shards.iterdir())
    got = {}
    fields = {"key": lt.key(), "png": lt.bytes("png"), "cls": lt.int("cls"), "txt": lt.string("txt")}
    with lt.Loader(tmp_path / "ds", fields=fields, batch_size=16, last="short", as_dict=True) as loader:
        for batch in loader:
            for i, key in enumerate(batch["key"]):
                assert key not in got
                got[key] = {"png": bytes(batch["png"][i]), "cls": b"%d" % batch["cls"][i],
                            "txt": batch["txt"][i].encode()}  # fmt: skip
    assert got == {k: {f: v[f] for f in ("png", "cls", "txt")} for k, v in expected.items()}


def test_pictures_of_a_shard_are_those_of_the_packed_folder(lt, tmp_path, shards, run_leat):
    index(run_leat, "--type", "cls=int", shards, tmp_path / "ds")
    for path in sorted(shards.iterdir()):
        with tarfile.open(path) as tar:
            tar.extractall(tmp_path / "files", [m for m in tar if m.name.endswith("0.png") and "seg" not in m.name])
    run_leat("pack", "--labels", "none", tmp_path / "files", tmp_path / "packed", status=0)

    def pixels(url, ending=""):
        fields = {"k": lt.key(), "x": lt.image("png").resize((16, 16))}
        with lt.Loader(url, fields=fields, batch_size=7, last="short", as_dict=True, as_numpy=True) as loader:
            return {k + ending: x.tobytes() for batch in loader for k, x in zip(batch["k"], batch["x"])}

    packed, indexed = pixels(tmp_path / "packed"), pixels(tmp_path / "ds", ".png")
    assert len(packed) == 12 and packed.items() <= indexed.items()


def test_shards_in_a_bucket_are_indexed_by_prefix_and_read_by_range(tmp_path, shards, serve, bucket_dir, run_leat,
                                                                    monkeypatch):  # fmt: skip
    server = serve(bucket_dir)
    env = server.s3_env()
    for name, value in env.items():
        monkeypatch.setenv(name, str(value))
    (shards / "stats.json").write_text("{}")
    run_leat("cp", "-r", f"{shards}/", "s3://bucket/shards/", env=env, status=0)
    made = index(run_leat, *raw_types("png", "seg.png", "cls", "json"), "s3://bucket/shards/",
                 tmp_path / "ds", env=env)  # fmt: skip
    assert (made["samples"], made["other_objects"]) == (120, 1)
    found = {k: as_stored(v) for k, v in samples(tmp_path / "ds").items()}
    assert found == as_webdataset_reads(*shards.glob("*.tar"))
    there = index(run_leat, *raw_types("png", "seg.png", "cls", "json"), "s3://bucket/shards/train-{000000..000002}.tar",
                  "s3://bucket/index", env=env)  # fmt: skip
    assert there["id"] == made["id"]


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_every_format_of_gnu_tar_is_read(tmp_path, run_leat, form):
    folder = tmp_path / "files"
    stems = [f"{i:04}" for i in range(30)]
    if form in ("oldgnu", "gnu", "posix"):
        stems += ["deep/" * 60 + "x", "n" * 200, "grüße/ä"]
    elif form == "ustar":
        stems += ["d" * 90 + "/" + "e" * 90]
    expected = {}
    draw = random.Random(form)
    for stem in stems:
        path = folder / stem
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {"bin": draw.randbytes(draw.randrange(5000)), "txt": b"", "a.b.c": b"x" * 512}
        for ending, content in data.items():
            (folder / f"{stem}.{ending}").write_bytes(content)
        expected[f"./{stem}"] = data
    subprocess.run(["tar", f"--format={form}", "--sort=name", "-C", folder, "-cf", tmp_path / "x.tar", "."], check=True)
    index(run_leat, *raw_types("txt", "a.b.c"), tmp_path / "x.tar", tmp_path / "ds")
    assert samples(tmp_path / "ds") == expected


def test_the_same_shards_give_the_same_dataset_whatever_the_threads(tmp_path, shards, run_leat):
    ids = {index(run_leat, "--threads", str(n), shards / "train-{000000..000002}.tar", tmp_path / f"ds{n}")["id"]
           for n in (1, 2, 7)}  # fmt: skip
    assert len(ids) == 1


def test_sizes_of_images_are_known_without_reading_them(tmp_path, shards, run_leat):
    index(run_leat, shards, tmp_path / "ds")
    broken = tmp_path / "broken.tar"
    write_tar(broken, [("1.png", picture(1)), ("2.png", b"no picture")])
    index(run_leat, broken, tmp_path / "broken")
    assert samples_found(run_leat, tmp_path / "broken") == 2


def samples_found(run_leat, url):
    return json.loads(run_leat("info", "--json", url, status=0).stdout)["samples"]


def test_a_flipped_bit_is_found_by_its_sum_although_length_and_time_are_the_same(tmp_path, shards, run_leat):
    index(run_leat, shards, tmp_path / "ds")
    path = shards / "train-000001.tar"
    before = path.stat()
    with tarfile.open(path) as tar:
        at = tar.getmembers()[20].offset_data
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "checksum" in run_leat("verify", tmp_path / "ds", status=6).stderr


def test_a_shard_that_is_written_again_is_a_changed_dataset(tmp_path, shards, run_leat):
    leat = import_leat()
    index(run_leat, shards, tmp_path / "ds")
    path = shards / "train-000001.tar"
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))
    with pytest.raises(leat.DatasetChanged, match=r"train-000001\.tar"):
        dict(leat.open(str(tmp_path / "ds"))["d/00041"])


names = st.text(alphabet=string.ascii_letters + string.digits + "_-äß /", min_size=1, max_size=150).filter(
    lambda s: not s.endswith("/") and "//" not in s and not s.startswith(("/", "__")) and s.strip() == s
)
endings = st.lists(st.sampled_from(["bin", "a.bin", "x-1", "dat", "b"]), min_size=1, max_size=4, unique=True)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    found=st.dictionaries(names, endings, min_size=1, max_size=12),
    form=st.sampled_from(["pax", "gnu"]),
    sizes=st.randoms(use_true_random=False),
    chunk=st.sampled_from(["4KiB", "64KiB"]),
)
def test_whatever_is_in_a_shard_comes_out_of_cat(tmp_path_factory, run_leat, found, form, sizes, chunk):
    folder = tmp_path_factory.mktemp("tar")
    members, expected = [], {}
    for key, fields in found.items():
        for field in fields:
            data = sizes.randbytes(sizes.choice([0, 1, 511, 512, 513, sizes.randrange(9000)]))
            members.append((f"{key}.{field}", data))
            expected.setdefault(key, {})[field] = data
        if sizes.random() < 0.2:
            folder_entry = tarfile.TarInfo("somewhere")
            folder_entry.type = tarfile.DIRTYPE
            members.append((folder_entry, b""))
    write_tar(folder / "x.tar", members, form)
    run_leat("index", "--chunk-size", chunk, folder / "x.tar", folder / "ds", status=0)
    assert samples(folder / "ds") == expected
    key = sizes.choice(sorted(expected))
    field = sizes.choice(sorted(expected[key]))
    done = run_leat("cat", "--field", field, "--", folder / "ds", key, status=0, text=False)
    assert done.stdout == expected[key][field]


# What is refused


def test_packed_shards_are_refused_with_advice(tmp_path, shards, run_leat):
    subprocess.run(["gzip", "-k", shards / "train-000000.tar"], check=True)
    said = refused(run_leat, shards / "train-000000.tar.gz", dest=tmp_path / "ds", status=None)
    assert "train-000000.tar.gz" in said and "gunzip" in said
    os.rename(shards / "train-000000.tar.gz", shards / "packed.tar")
    said = refused(run_leat, shards / "packed.tar", dest=tmp_path / "ds", status=None)
    assert "packed.tar: it is compressed with gzip" in said


@pytest.mark.parametrize("keep", [0, 100, 512, 700, 5000, -10240, -9000])
def test_a_shard_that_is_cut_off_is_named_with_the_byte(tmp_path, shards, run_leat, keep):
    path = shards / "train-000001.tar"
    data = path.read_bytes()
    end = len(data.rstrip(b"\0"))
    cut = data[:keep] if keep >= 0 else data[: end + keep + 9000]
    path.write_bytes(cut)
    said = refused(run_leat, shards / "train-{000000..000002}.tar", dest=tmp_path / "ds", status=None)
    assert "train-000001.tar" in said
    assert f"byte {len(cut)}" in said or "empty" in said or f"has {len(cut)} bytes" in said


def test_members_of_a_sample_that_others_stand_between_are_refused(tmp_path, run_leat):
    write_tar(tmp_path / "x.tar", [("a.txt", b"1"), ("b.txt", b"2"), ("a.cls", b"3")])
    said = refused(run_leat, tmp_path / "x.tar", dest=tmp_path / "ds")
    assert "x.tar: sample 'a' occurs twice" in said and "--sort=name" in said


def test_links_and_sparse_files_are_refused(tmp_path, run_leat):
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "1.bin").write_bytes(b"x" * 100)
    os.link(folder / "1.bin", folder / "2.bin")
    subprocess.run(["tar", "-C", folder, "-cf", tmp_path / "links.tar", "1.bin", "2.bin"], check=True)
    said = refused(run_leat, tmp_path / "links.tar", dest=tmp_path / "ds", status=None)
    assert "'2.bin' at byte 1024 is a link" in said and "--hard-dereference" in said
    with open(folder / "3.bin", "wb") as f:
        f.truncate(1 << 20)
        f.seek(1 << 19)
        f.write(b"x")
    for form in ("gnu", "posix"):
        subprocess.run(
            ["tar", f"--format={form}", "--sparse", "-C", folder, "-cf", tmp_path / "holes.tar", "3.bin"], check=True
        )
        said = refused(run_leat, tmp_path / "holes.tar", dest=tmp_path / "ds", status=None)
        assert "sparse" in said


def test_options_that_mean_nothing_for_shards_are_refused(tmp_path, shards, run_leat):
    for args, words in (
        (("--group",), "--group is for raw objects"),
        (("--labels", "folder"), "--labels is for raw objects"),
        (("--dtype", "uint16"), "--dtype is for tokens"),
        (("--type", "txt=tokens"), "cannot be tokens"),
        (("--type", "clas=int"), "no sample has the field 'clas'"),
        (("--type", "txt=int"), "'d/00000.txt' at byte"),
    ):
        said = refused(run_leat, *args, shards / "train-000000.tar", dest=tmp_path / "ds", status=None)
        assert words in said


def test_a_dry_run_reads_no_shard(tmp_path, shards, serve, bucket_dir, run_leat):
    server = serve(bucket_dir)
    env = server.s3_env()
    run_leat("cp", "-r", f"{shards}/", "s3://bucket/shards/", env=env, status=0)
    before = server.stats()["calls"].get("GetObject", {})
    done = run_leat("index", "--dry-run", "--format", "tar", "s3://bucket/shards/", tmp_path / "ds", env=env, status=0)
    assert "3 shards" in done.stdout and "USD" in done.stdout
    done = run_leat("index", "--dry-run", "--json", "--format", "tar", "s3://bucket/shards/", tmp_path / "ds", env=env)
    said = json.loads(done.stdout)
    assert (said["objects"], said["samples"], said["chunks"]) == (3, None, None)
    assert server.stats()["calls"].get("GetObject", {}) == before
    assert not (tmp_path / "ds").exists()
