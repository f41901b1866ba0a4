"""`leat pack` of more than folders: groups, manifests, several places, images that change, samples that cannot be read."""

import io
import json
import os
import random
import shutil
import signal
import subprocess
import tarfile
import time

import numpy
import pytest
from command_tools import wait_until
from format_reader import Dataset
from PIL import Image


def pack(run_leat, *args, status=0, **more):
    done = run_leat("pack", "--json", *args, status=status, **more)
    return json.loads(done.stdout) if status == 0 else done.stderr


def picture(seed, form="JPEG", size=(60, 40), mode="RGB", **save):
    rng = numpy.random.default_rng(seed)
    channels = {"RGB": 3, "L": 1, "RGBA": 4}[mode]
    small = rng.integers(0, 255, (size[1] // 4, size[0] // 4, channels), dtype=numpy.uint8).squeeze()
    out = io.BytesIO()
    Image.fromarray(small, mode).resize(size).save(out, form, **save)
    return out.getvalue()


def write(folder, files):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_files_with_one_stem_are_one_sample(leat, tmp_path, run_leat):
    files = {}
    for i in range(30):
        files[f"{i:03}.png"] = picture(i, "PNG")
        files[f"{i:03}.txt"] = f"number {i}".encode()
        files[f"{i:03}.json"] = json.dumps({"i": i}).encode()
    write(tmp_path / "files", files)
    made = pack(run_leat, "--group", "--chunk-size", "16KiB", tmp_path / "files", tmp_path / "ds")
    assert made["samples"] == 30
    ds = leat.open(tmp_path / "ds")
    assert {n: f.type for n, f in ds.fields.items()} == {"png": "image", "txt": "string", "json": "json"}
    for sample in ds:
        i = int(sample.key)
        assert sample["png"].bytes == files[f"{i:03}.png"]
        assert sample["txt"] == f"number {i}" and sample["json"] == {"i": i}


@pytest.mark.parametrize("compress", [[], ["--compress", "all"], ["--compress", "txt", "--compress", "bin"]])
def test_all_files_of_groups_come_back_whether_they_were_compressed_or_not(leat, tmp_path, run_leat, compress):
    files = {}
    for i in range(20):
        files[f"a/{i:03}.txt"] = b"the same words again and again " * i
        files[f"a/{i:03}.bin"] = random.Random(i).randbytes(500)
        if i % 3:
            files[f"a/{i:03}.json"] = json.dumps([i] * 200).encode()
    write(tmp_path / "files", files)
    options = ["--group", "--missing", "optional", "--chunk-size", "8KiB"]
    made = pack(run_leat, *options, *compress, tmp_path / "files", tmp_path / "ds")
    total = sum(map(len, files.values()))
    assert made["bytes"] < total - 1000 if compress else made["bytes"] > total
    assert "all good" in run_leat("verify", tmp_path / "ds", status=0).stdout
    assert f"{len(files)} files" in run_leat("unpack", tmp_path / "ds", tmp_path / "back", status=0).stdout
    back = {str(p.relative_to(tmp_path / "back")): p.read_bytes() for p in (tmp_path / "back").rglob("*.*")}
    assert back == files
    run_leat("unpack", "--field", "txt", tmp_path / "ds", tmp_path / "texts", status=0)
    assert (tmp_path / "texts/a/003").read_bytes() == files["a/003.txt"]


def test_what_cannot_be_compressed_is_said(tmp_path, run_leat):
    write(tmp_path / "files", {"a.jpg": picture(1)})
    for name, words in (
        ("jpg", "cannot be compressed: it is of type image"),
        ("all", "no such field"),
        ("x", "no such"),
    ):
        assert words in pack(run_leat, "--compress", name, tmp_path / "files", tmp_path / "ds", status=2)


def test_arrays_among_other_fields_are_unpacked_for_numpy(leat, tmp_path, run_leat):
    fields = {"a": leat.Array("float32", [None, 2]), "t": leat.Tokens("uint16"), "s": "string", "n": "int"}
    with leat.Writer(tmp_path / "ds", fields=fields) as w:
        w.write({"a": [[1, 2], [3, 4]], "t": [7, 8], "s": "x", "n": 5}, key="k")
    done = run_leat("unpack", tmp_path / "ds", tmp_path / "back", status=0).stdout
    assert "3 files" in done and "not in the files: n (" in done
    assert numpy.load(tmp_path / "back/k.a.npy").tolist() == [[1, 2], [3, 4]]
    assert numpy.load(tmp_path / "back/k.t.npy").tolist() == [7, 8]
    assert (tmp_path / "back/k.s").read_text() == "x"


def test_a_manifest_says_what_the_samples_are(leat, tmp_path, run_leat):
    write(tmp_path / "files", {f"{i}.bin": bytes([i]) * 50 for i in range(20)})
    rows = ["path,weight,name,n"] + [f"{i}.bin,{i / 4},name {i},{-i}" for i in range(0, 20, 2)]
    (tmp_path / "list.csv").write_text("\n".join(rows) + "\n")
    pack(run_leat, "--manifest", tmp_path / "list.csv", tmp_path / "files", tmp_path / "ds")
    samples = {s.key: dict(s) for s in leat.open(tmp_path / "ds")}
    assert samples == {
        f"{i}.bin": {"bin": bytes([i]) * 50, "weight": i / 4, "name": f"name {i}", "n": -i} for i in range(0, 20, 2)
    }
    first = leat.open(tmp_path / "ds").version
    rows[1] = rows[1].replace("name 0", "other")  # a value that lies in no file
    (tmp_path / "list.csv").write_text("\n".join(rows) + "\n")
    pack(run_leat, "--manifest", tmp_path / "list.csv", "--replace", tmp_path / "files", tmp_path / "ds")
    assert leat.open(tmp_path / "ds").version != first
    packs = {p.read_bytes()[48:64] for p in (tmp_path / "ds/leat/chunks").rglob("*/*")}
    assert len(packs) == 2  # chunks of the two are never taken for one packing


def test_tar_shards_come_to_the_samples_that_indexing_finds(leat, tmp_path, run_leat):
    (tmp_path / "shards").mkdir()
    wanted = {}
    for s in range(3):
        with tarfile.open(tmp_path / f"shards/{s:06}.tar", "w") as tar:
            for i in range(40):
                members = {
                    "jpg": picture(100 * s + i),
                    "txt": f"text {i}".encode(),
                    "json": json.dumps([s, i]).encode(),
                }
                wanted[f"d/{s}_{i:04}"] = members
                for ending, data in members.items():
                    member = tarfile.TarInfo(f"d/{s}_{i:04}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    shards = sorted((tmp_path / "shards").iterdir())
    made = pack(run_leat, "--chunk-size", "16KiB", *shards, tmp_path / "ds")
    assert made["samples"] == 120 and made["unreadable_images"] == 0
    for memory in ("1", "1GiB"):
        again = pack(run_leat, "--chunk-size", "16KiB", "--memory", memory, *shards, tmp_path / f"again-{memory}")
        assert again["id"] == made["id"]
    ds = leat.open(tmp_path / "ds")
    read = {s.key: {"jpg": s["jpg"].bytes, "txt": s["txt"].encode(), "json": s["json"]} for s in ds}
    assert read == {k: {**m, "json": json.loads(m["json"])} for k, m in wanted.items()}
    assert ds[0]["jpg"].width == 60
    run_leat("index", "--chunk-size", "16KiB", *shards, tmp_path / "indexed", status=0)
    indexed = leat.open(tmp_path / "indexed")
    assert [dict(s) for s in indexed] == [dict(s) for s in ds] and [s.key for s in indexed] == [s.key for s in ds]


def test_token_files_come_to_the_tokens_that_indexing_finds(leat, tmp_path, run_leat):
    tokens = numpy.random.default_rng(1).integers(0, 65536, 100_001).astype("uint16")
    tokens.tofile(tmp_path / "a.bin")
    numpy.save(tmp_path / "b.npy", tokens[:5000])
    options = ["--format", "tokens", "--chunk-size", "64KiB"]
    pack(run_leat, *options, "--dtype", "uint16", tmp_path / "a.bin", tmp_path / "ds")
    run_leat("index", *options, "--dtype", "uint16", tmp_path / "a.bin", tmp_path / "indexed", status=0)
    ds, indexed = leat.open(tmp_path / "ds"), leat.open(tmp_path / "indexed")
    assert [s["tokens"].tolist() for s in ds] == [s["tokens"].tolist() for s in indexed]
    stretch = ds.fields["tokens"].about["stretch"]
    whole = numpy.concatenate([s["tokens"][:stretch] for s in ds])  # the last token of each is the next one's first
    assert numpy.array_equal(whole, tokens)
    pack(run_leat, *options, tmp_path / "b.npy", tmp_path / "npy")
    assert numpy.array_equal(numpy.concatenate([s["tokens"] for s in leat.open(tmp_path / "npy")]), tokens[:5000])


def test_several_places_one_of_them_a_bucket(leat, tmp_path, serve, bucket_dir, run_leat, monkeypatch):
    server = serve(bucket_dir)
    a = {f"a/{i}.bin": os.urandom(300) for i in range(10)}
    b = {f"b/{i}.bin": os.urandom(300) for i in range(10)}
    write(tmp_path / "disk", a)
    write(bucket_dir / "bucket/far", b)
    made = pack(run_leat, tmp_path / "disk", "s3://bucket/far", tmp_path / "ds", env=server.s3_env())
    assert made["samples"] == 20
    read = {s.key.decode(): s.values["bin"] for s in Dataset(tmp_path / "ds")}  # keys say which place they are of
    assert {"/".join(key.split("/")[-2:]): data for key, data in read.items()} == {**a, **b}


@pytest.mark.parametrize("memory", ["1", "1GiB"])
def test_how_much_memory_there_is_changes_nothing_but_what_is_read_twice(tmp_path, run_leat, memory):
    write(tmp_path / "files", {f"{i:03}.bin": bytes([i % 256]) * (i * 7) for i in range(300)})
    usual = pack(run_leat, "--chunk-size", "4KiB", tmp_path / "files", tmp_path / "a")
    made = pack(run_leat, "--chunk-size", "4KiB", "--memory", memory, "-j", "3", tmp_path / "files", tmp_path / "b")
    assert made["id"] == usual["id"]


def opens(tmp_path, leat_bin, memory):
    """How often each file is opened, as the kernel sees it."""
    trace = tmp_path / "trace"
    command = [
        "strace",
        "-f",
        "-e",
        "trace=open,openat",
        "-o",
        str(trace),
        str(leat_bin),
        "pack",
        "-q",
        "--memory",
        memory,
    ]
    ds = tmp_path / f"ds-{memory}"
    subprocess.run([*command, str(tmp_path / "files"), str(ds)], check=True, timeout=120)
    return sum("files/0" in line for line in trace.read_text(errors="replace").splitlines())


@pytest.mark.skipif(subprocess.call("command -v strace >/dev/null", shell=True) != 0, reason="needs strace")
@pytest.mark.skipif(bool(os.environ.get("LEAT_SANITIZE")), reason="a sanitizer and strace do not mix")
def test_files_are_read_once_when_memory_holds_them(tmp_path, leat_bin):
    write(tmp_path / "files", {f"{i:03}.bin": bytes(1000) for i in range(50)})
    assert opens(tmp_path, leat_bin, "1GiB") == 50
    assert opens(tmp_path, leat_bin, "1") == 100


def bad_files(folder):
    return write(
        folder,
        {
            **{f"good/{i}.jpg": picture(i) for i in range(12)},
            "bad/cut.jpg": picture(99)[:100],
            "bad/none.jpg": b"",
            "bad/text.jpg": b"this is no image",
        },
    )


def test_what_cannot_be_read_is_left_out_and_listed(leat, tmp_path, run_leat):
    files = bad_files(tmp_path / "files")
    usual = pack(run_leat, files, tmp_path / "all")
    assert usual["samples"] == 15 and usual["unreadable_images"] >= 2 and usual["skipped"] == 0
    made = pack(run_leat, "--on-error", "skip", "--errors", tmp_path / "errors", files, tmp_path / "ds")
    listed = dict(line.split("\t") for line in (tmp_path / "errors").read_text().splitlines())
    assert made["skipped"] == len(listed) == usual["unreadable_images"] and made["samples"] == 15 - len(listed)
    assert {"bad/none.jpg", "bad/text.jpg"} <= set(listed) and "JPEG" in listed["bad/text.jpg"]
    assert {s.key for s in leat.open(tmp_path / "ds")}.isdisjoint(listed)
    again = pack(run_leat, "--on-error", "skip", "--memory", "1", files, tmp_path / "again")
    assert again["id"] == made["id"]
    said = run_leat("pack", "--on-error", "skip", files, tmp_path / "third", status=0).stdout
    assert f"left out: {len(listed)} samples" in said and "--errors" in said


def test_chunks_of_nothing_but_bad_samples_vanish(leat, tmp_path, run_leat):
    write(tmp_path / "files", {f"{i:02}.jpg": b"x" * 5000 if 5 <= i < 25 else picture(i) for i in range(30)})
    made = pack(
        run_leat, "--on-error", "skip", "--keep-order", "--chunk-size", "4KiB", tmp_path / "files", tmp_path / "ds"
    )
    assert made["samples"] == 10 and made["skipped"] == 20
    assert [s.key for s in leat.open(tmp_path / "ds")] == [f"{i:02}.jpg" for i in range(30) if not 5 <= i < 25]
    run_leat("verify", tmp_path / "ds", status=0)
    for path in (tmp_path / "files").iterdir():
        path.write_bytes(b"nothing")
    assert "none of the 30" in pack(run_leat, "--on-error", "skip", tmp_path / "files", tmp_path / "no", status=2)
    assert not (tmp_path / "no/leat/current").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read_are_skipped_or_an_error(tmp_path, run_leat):
    write(tmp_path / "files", {f"{i}.bin": b"1" for i in range(3)})
    (tmp_path / "files/1.bin").chmod(0)
    assert "1.bin" in pack(run_leat, tmp_path / "files", tmp_path / "ds", status=4)
    assert pack(run_leat, "--on-error", "skip", tmp_path / "files", tmp_path / "ds")["skipped"] == 1


def test_texts_that_are_not_json_are_an_error_that_names_them_or_are_skipped(leat, tmp_path, run_leat):
    write(tmp_path / "files", {"a.json": b"[1]", "b.json": b"[1", "c.json": b"{}"})
    said = pack(run_leat, "--type", "json=json", tmp_path / "files", tmp_path / "ds", status=2)
    assert "'b.json'" in said and "JSON" in said
    made = pack(run_leat, "--type", "json=json", "--on-error", "skip", tmp_path / "files", tmp_path / "ds")
    assert made["skipped"] == 1
    assert {s.key: s["json"] for s in leat.open(tmp_path / "ds")} == {"a.json": [1], "c.json": {}}


def pixels(data):
    return numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_progressive_jpegs_become_baseline_without_loss(leat, tmp_path, run_leat):
    exif = Image.Exif()
    exif[0x0112] = 6
    files = {
        "plain.jpg": picture(1),
        "progressive.jpg": picture(2, progressive=True),
        "turned.jpg": picture(3, progressive=True, exif=exif),
        "grey.jpg": picture(4, mode="L", progressive=True),
    }
    write(tmp_path / "files", files)
    made = pack(run_leat, "--jpeg", "baseline", tmp_path / "files", tmp_path / "ds")
    assert made["changed_images"] == 3
    for sample in leat.open(tmp_path / "ds"):
        stored = sample["jpg"].bytes
        assert numpy.array_equal(pixels(stored), pixels(files[sample.key]))
        assert not Image.open(io.BytesIO(stored)).info.get("progressive")
        assert (stored == files[sample.key]) == (sample.key == "plain.jpg")
        if sample.key == "turned.jpg":
            assert Image.open(io.BytesIO(stored)).getexif()[0x0112] == 6
    usual = pack(run_leat, tmp_path / "files", tmp_path / "usual")
    assert usual["id"] != made["id"] and usual["changed_images"] == 0


def test_large_images_are_stored_smaller(leat, tmp_path, run_leat):
    exif = Image.Exif()
    exif[0x0112] = 6
    files = {
        "small.jpg": picture(1, size=(60, 40)),
        "wide.jpg": picture(2, size=(400, 200), quality=95),
        "tall.png": picture(3, "PNG", size=(200, 400)),
        "glass.png": picture(4, "PNG", size=(400, 100), mode="RGBA"),
        "turned.jpg": picture(5, size=(400, 200), exif=exif),
        "grey.jpg": picture(6, size=(400, 400), mode="L"),
    }
    write(tmp_path / "files", files)
    made = pack(
        run_leat, "--max-side", "100", "--quality", "80", "--field", "image", tmp_path / "files", tmp_path / "ds"
    )
    assert made["changed_images"] == 5
    stored = {s.key: s["image"] for s in leat.open(tmp_path / "ds")}
    assert stored["small.jpg"].bytes == files["small.jpg"]
    opened = {k: Image.open(io.BytesIO(v.bytes)) for k, v in stored.items()}
    assert {k: v.size for k, v in opened.items()} == {
        **{"small.jpg": (60, 40), "wide.jpg": (100, 50), "tall.png": (50, 100), "glass.png": (100, 25)},
        **{"turned.jpg": (50, 100), "grey.jpg": (100, 100)},
    }
    assert opened["glass.png"].mode == "RGBA" and opened["grey.jpg"].mode == "L"
    assert opened["wide.jpg"].format == "JPEG" and opened["tall.png"].format == "PNG"
    right = Image.open(io.BytesIO(files["tall.png"])).resize((50, 100), Image.Resampling.BILINEAR)
    assert numpy.array_equal(numpy.asarray(opened["tall.png"]), numpy.asarray(right))
    near = io.BytesIO()
    Image.open(io.BytesIO(files["wide.jpg"])).resize((100, 50), Image.Resampling.BILINEAR).save(
        near, "JPEG", quality=80
    )
    assert numpy.abs(pixels(stored["wide.jpg"].bytes).astype(int) - pixels(near.getvalue())).mean() < 1
    said = run_leat("pack", "--max-side", "100", "--field", "i", tmp_path / "files", tmp_path / "x", status=0).stdout
    assert "quality 90" in said and "5 images" in said
    write(tmp_path / "files", {"bad.jpg": files["wide.jpg"][:3000]})
    assert "bad.jpg" in pack(run_leat, "--max-side", "100", tmp_path / "files", tmp_path / "y", status=6)


def test_settings_that_cannot_work_are_refused(tmp_path, run_leat):
    write(tmp_path / "files", {"1.bin": b"1"})
    for wrong, words in [
        (("--on-error", "ignore"), "error or skip"),
        (("--errors", tmp_path / "e"), "--on-error skip"),
        (("--jpeg", "progressive"), "keep or baseline"),
        (("--max-side", "70000"), "--max-side"),
        (("--quality", "0"), "--quality"),
        (("--no-current",), "--name"),
        (("--on-error", "skip", "--errors", tmp_path / "no/where"), "no/where"),
    ]:
        done = run_leat("pack", *wrong, tmp_path / "files", tmp_path / "ds")
        assert done.returncode and words in done.stderr, wrong
    assert not (tmp_path / "ds").exists()


def test_settings_about_nothing_that_is_there_are_refused(tmp_path, run_leat):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.txt").write_text("x")
    for options, words in (
        (["--quality", "50"], "give --max-side"),
        (["--max-side", "10"], "--max-side is for images, and no field holds any"),
        (["--jpeg", "baseline"], "--jpeg baseline is for images"),
        (["--keep-order", "--seed", "2"], "--keep-order"),
    ):
        assert words in run_leat("pack", *options, tmp_path / "files", tmp_path / "ds", status=2).stderr
        assert not (tmp_path / "ds/leat/current").exists()


def test_after_kill_9_only_the_rest_is_stored(tmp_path, leat_bin, clean_env, run_leat):
    rng = random.Random(5)
    write(tmp_path / "files", {f"{i % 10}/{i:04}.bin": rng.randbytes(4000) for i in range(2000)})
    options = ["--chunk-size", "32KiB"]
    whole = pack(run_leat, *options, tmp_path / "files", tmp_path / "whole")
    assert whole["reused_chunks"] == 0
    command = [str(leat_bin), "pack", "-q", *options, str(tmp_path / "files"), str(tmp_path / "ds")]
    chunks, killed = tmp_path / "ds/leat/chunks", 0
    for _ in range(20):
        process = subprocess.Popen(command, env=clean_env)
        before = sum(1 for _ in chunks.rglob("*/*"))
        while process.poll() is None and sum(1 for _ in chunks.rglob("*/*")) <= before:
            time.sleep(0.002)  # until it stores
        time.sleep(rng.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:  # it was through sooner than it was killed
            shutil.rmtree(tmp_path / "ds")
            continue
        killed += 1
        if (tmp_path / "ds/leat/current").exists():  # killed after it had published, and before it ended
            break
        if sum(1 for _ in chunks.rglob("*/*")) > whole["chunks"] // 2:
            break
    assert killed
    stored = {p.name for p in chunks.rglob("*/*")}
    replace = ["--replace"] if (tmp_path / "ds/leat/current").exists() else []
    made = pack(run_leat, *options, *replace, tmp_path / "files", tmp_path / "ds")
    assert made["id"] == whole["id"]
    assert made["reused_chunks"] > 0 and made["reused_chunks"] >= len(stored) - 8  # temporary names are not chunks
    run_leat("verify", tmp_path / "ds", status=0)


def test_after_kill_9_a_bucket_gets_only_the_rest(tmp_path, serve, bucket_dir, leat_bin, clean_env, run_leat):
    server = serve(bucket_dir)
    write(tmp_path / "files", {f"{i:04}.bin": random.Random(i).randbytes(4000) for i in range(1000)})
    whole = pack(run_leat, "--chunk-size", "32KiB", tmp_path / "files", tmp_path / "whole")
    command = [str(leat_bin), "pack", "-q", "--chunk-size", "32KiB", str(tmp_path / "files"), "s3://bucket/ds"]
    process = subprocess.Popen(command, env={**clean_env, **server.s3_env()})
    chunks = bucket_dir / "bucket/ds/leat/chunks"
    while process.poll() is None and sum(1 for _ in chunks.rglob("*/*")) < 10:
        time.sleep(0.005)
    process.kill()
    process.wait()
    wait_until(lambda: server.stats()["connections"]["open"] == 1, "the end of what was under way")  # this one is left
    before = len(server.log())
    made = pack(
        run_leat, "--chunk-size", "32KiB", "--replace", tmp_path / "files", "s3://bucket/ds", env=server.s3_env()
    )
    puts = [row for row in server.log()[before:] if row["method"] == "PUT" and "/chunks/" in json.dumps(row)]
    assert made["id"] == whole["id"] and made["reused_chunks"] >= 9
    assert len(puts) == whole["chunks"] - made["reused_chunks"]
