"""Publishing: of two packers into one place one gets an error, whatever the moment; named versions; stores that know no
conditions."""

import hashlib
import json
import re
import subprocess
import threading

import pytest
from command_tools import wait_until
from flipping_proxy import FlippingProxy
from format_reader import Dataset

ROUNDS = 2


def make_folder(folder, text, first=0):
    folder.mkdir(parents=True)
    for i in range(first, first + 12):
        (folder / f"{i}.bin").write_bytes(f"{text} {i}".encode() * 50)


def contents(dataset):
    return {sample.key.decode(): sample.values["bin"] for sample in dataset}


def of_folder(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class BothBegun(FlippingProxy):
    """Gives no file of the sources before both packers have asked for one: each has looked at the destination by then."""

    def __init__(self, upstream):
        self.asked, self.changed = set(), threading.Condition()
        super().__init__(upstream)

    def before(self, head):
        found = re.match(rb"GET /bucket/source/([ab])/", head)
        if found:
            with self.changed:
                self.asked.add(found[1])
                self.changed.notify_all()
                assert self.changed.wait_for(lambda: len(self.asked) == 2, timeout=60)


class Racers:
    """Two packers, of which each has seen what is at the destination before either publishes."""

    def __init__(self, leat_bin, env, bucket, server, proxy):
        self.leat_bin, self.bucket, self.proxy = leat_bin, bucket, proxy
        self.env = {**env, **server.s3_env(), "AWS_ENDPOINT_URL": proxy.url}

    def run(self, destination, *options):
        self.proxy.asked.clear()
        command = [self.leat_bin, "pack", "--json", "--chunk-size", "4KiB", *options]
        processes = [
            subprocess.Popen(
                [*command, f"s3://bucket/source/{name}", destination],
                env=self.env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in "ab"
        ]
        results = []
        for name, process in zip("ab", processes, strict=True):
            stdout, stderr = process.communicate(timeout=60)
            results.append((process.returncode, name, stdout, stderr))
        return sorted(results)


@pytest.fixture
def racers(leat_bin, clean_env, serve, bucket_dir):
    for name in "ab":
        make_folder(bucket_dir / "bucket/source" / name, name)
    server = serve(bucket_dir)
    with BothBegun(f"127.0.0.1:{server.port}") as proxy:
        yield Racers(leat_bin, clean_env, bucket_dir / "bucket", server, proxy)


@pytest.mark.parametrize("store", ["file", "s3"])
@pytest.mark.parametrize("replace", [False, True])
def test_of_two_packers_into_one_place_one_gets_an_error(tmp_path, racers, run_leat, store, replace):
    late = 0
    make_folder(tmp_path / "before", "before")
    for i in range(ROUNDS):
        place = tmp_path / f"ds{i}" if store == "file" else racers.bucket / f"ds{i}"
        url = place if store == "file" else f"s3://bucket/ds{i}"
        if replace:
            run_leat("pack", tmp_path / "before", place, status=0)
        (status, winner, stdout, _), (failed, loser, _, stderr) = racers.run(url, *["--replace"] * replace)
        assert status == 0 and failed == (6 if replace else 1), stderr
        assert Dataset(place).id == json.loads(stdout)["id"]
        assert json.loads(stdout)["guarded"] is True
        assert contents(Dataset(place)) == of_folder(racers.bucket / "source" / winner)
        if "meanwhile" in stderr:
            late += 1
            loser_id = re.search(r"\?id=([0-9a-f]{64})", stderr).group(1)  # nothing is lost
            assert contents(Dataset(place, id=loser_id)) == of_folder(racers.bucket / "source" / loser)
        else:
            assert "already" in stderr
    assert late == ROUNDS, "both had begun before one of them was done"


def test_a_packer_that_was_overtaken_does_not_replace(tmp_path, server, clean_env, run_leat, leat_bin):
    """One round that needs no luck: the other packer publishes while this one waits for its files."""
    ds, quick, go = tmp_path / "ds", tmp_path / "quick", threading.Event()
    make_folder(quick, "quick")
    server.objects.update({f"source/slow/{i}.bin": bytes([i]) * 3000 for i in range(30)})
    server.fault(
        lambda exchange: go.wait(120) and server.proper(exchange),
        after=8,
        match=lambda r: r.method == "GET" and r.key.startswith("source/slow/"),
    )
    run_leat("pack", quick, ds, status=0)
    chunks = set((ds / "leat/chunks").rglob("*"))
    command = [leat_bin, "pack", "--replace", "--chunk-size", "4KiB", "-j", "1", "s3://source/slow", ds]
    env = {**clean_env, **server.env()}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        # Its first chunk: it has looked at the pointer before.
        wait_until(lambda: set((ds / "leat/chunks").rglob("*")) != chunks, "the first chunk")
        (quick / "new.bin").write_bytes(b"more")
        run_leat("pack", "--replace", quick, ds, status=0)
        go.set()
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 6 and "meanwhile" in stderr
    assert contents(Dataset(ds)) == of_folder(quick)


def test_a_name_is_published_with_the_current_version_or_alone(tmp_path, run_leat):
    make_folder(tmp_path / "one", "one")
    make_folder(tmp_path / "two", "two")
    ds = tmp_path / "ds"
    run_leat("pack", "--name", "first", tmp_path / "one", ds, status=0)
    assert Dataset(ds).id == Dataset(ds, name="first").id
    said = run_leat("pack", "--name", "second", tmp_path / "two", ds, status=1).stderr
    assert "--no-current" in said and not (ds / "leat/names/second").exists()
    run_leat("pack", "--name", "second", "--no-current", tmp_path / "two", ds, status=0)
    assert contents(Dataset(ds, name="second")) == of_folder(tmp_path / "two")
    assert contents(Dataset(ds)) == of_folder(tmp_path / "one")
    assert "'second'" in run_leat("pack", "--name", "second", "--no-current", tmp_path / "one", ds, status=1).stderr
    run_leat("pack", "--name", "second", "--replace", tmp_path / "two", ds, status=0)
    assert contents(Dataset(ds)) == of_folder(tmp_path / "two")
    assert "--name" in run_leat("pack", "--no-current", tmp_path / "two", ds, status=2).stderr
    assert "name of a version" in run_leat("pack", "--name", "a/b", tmp_path / "two", ds, status=2).stderr


def test_a_store_that_ignores_conditions_is_noticed(tmp_path, faulty, run_leat):
    make_folder(tmp_path / "one", "one")
    server = faulty()
    done = run_leat("pack", tmp_path / "one", "s3://bucket/ds", env=server.env(), status=0)
    assert "does not support conditions" in done.stdout
    done = run_leat("pack", "--json", "--replace", tmp_path / "one", "s3://bucket/ds", env=server.env(), status=0)
    assert json.loads(done.stdout)["guarded"] is False


def test_a_store_that_refuses_conditions_is_used_without_them(tmp_path, faulty, run_leat):
    make_folder(tmp_path / "one", "one")
    server = faulty()
    server.fault(
        lambda exchange: exchange.error(501, "NotImplemented"),
        match=lambda r: r.method == "PUT" and {"if-none-match", "if-match"} & r.headers.keys(),
    )
    done = run_leat("pack", "--json", tmp_path / "one", "s3://bucket/ds", env=server.env(), status=0)
    assert json.loads(done.stdout)["guarded"] is False
    assert "bucket/ds/leat/current" in server.objects


def test_a_change_without_conditions_is_noticed_when_the_pointer_is_read_back(tmp_path, faulty, run_leat):
    make_folder(tmp_path / "one", "one")
    server = faulty()

    def overwrite(exchange):
        server.proper(exchange)
        server.objects[exchange.request.key] = b'{"format": 1, "root": "another packer was here"}'

    server.fault(overwrite, match=lambda r: r.method == "PUT" and r.key.endswith("leat/current"))
    said = run_leat("pack", tmp_path / "one", "s3://bucket/ds", env=server.env(), status=6).stderr
    assert "meanwhile" in said


def refers(ds, **version):
    """The chunk files that a version of a dataset needs."""
    return [ds / f"leat/chunks/{name.hex()[:2]}/{name.hex()}" for name in Dataset(ds, **version).root.names]


def download(server, folder):
    for key, data in server.objects.items():
        path = folder / key.removeprefix("bucket/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / "ds"


RELIES = {  # what each needs of the version that is deleted meanwhile
    "all of its chunks": ["pack", "--replace", "--chunk-size", "4KiB", "{one}", "{ds}"],
    "old chunks": ["pack", "--add-to", "--no-current", "--name", "new", "{more}", "{ds}"],
    "a selection": ["select", "{ds}?name=old", "--numbers", "0:3", "--name", "new"],
    "loose chunks": ["rebuild", "--packing", "{packing}", "{ds}"],
}


@pytest.mark.parametrize("relies", RELIES)
def test_what_gc_deletes_during_the_work_is_noticed_before_it_is_published(tmp_path, faulty, run_leat, relies):
    """gc takes the old version away in the moment before the new one's sections are stored."""
    for first, name in enumerate(("one", "two", "more")):
        make_folder(tmp_path / name, name, 100 * first)
    server = faulty()
    env = server.env()
    ds = "s3://bucket/ds"
    run_leat("pack", "--chunk-size", "4KiB", "--name", "old", tmp_path / "one", ds, env=env, status=0)
    old = Dataset(download(server, tmp_path / "copy"))
    run_leat("pack", "--chunk-size", "4KiB", "--replace", tmp_path / "two", ds, env=env, status=0)
    current = server.objects["bucket/ds/leat/current"]
    server.objects["bucket/ds/leat/current"] = server.objects["bucket/ds/leat/names/old"]

    def collect(exchange):
        server.objects["bucket/ds/leat/current"] = current
        del server.objects["bucket/ds/leat/names/old"]
        run_leat("gc", "--drop", old.id, "--older-than", "0s", "--yes", ds, env=env, status=0)
        assert not any(path.name in key for path in refers(tmp_path / "copy/ds") for key in server.objects)
        server.proper(exchange)

    server.fault(collect, times=1, match=lambda r: r.method == "PUT" and "/leat/sections/" in r.key)
    places = {"one": tmp_path / "one", "more": tmp_path / "more", "ds": ds, "packing": old.root.packings[0].hex()}
    command = [word.format(**places) for word in RELIES[relies]]
    said = run_leat(*command, env=env, status=6).stderr
    assert "was there and is gone" in said and "run the command again" in said
    assert server.objects["bucket/ds/leat/current"] == current
    assert {key for key in server.objects if "/names/" in key or f"/versions/{old.id}" in key} == set()
    if relies == "all of its chunks":
        run_leat(*command, env=env, status=0)
        assert contents(Dataset(download(server, tmp_path / "again"))) == of_folder(tmp_path / "one")


@pytest.mark.parametrize("kind", ["versions", "chunks"])
def test_what_is_published_while_gc_deletes_is_noticed(tmp_path, faulty, run_leat, kind):
    """What is not deleted yet is kept; in any case gc does not report success."""
    for name in ("one", "two"):
        make_folder(tmp_path / name, name)
    server = faulty()
    env = server.env()
    ds = "s3://bucket/ds"
    for name in ("one", "two"):
        run_leat("pack", "--replace", tmp_path / name, ds, env=env, status=0)
    two = Dataset(download(server, tmp_path / "copy")).id
    (old,) = (key for key in server.objects if "/versions/" in key and two not in key)

    def publish(exchange):
        run_leat("pack", "--no-current", "--name", "again", tmp_path / "one", ds, env=env, status=0)
        server.proper(exchange)

    server.fault(publish, times=1, match=lambda r: r.method == "DELETE" and f"/{kind}/" in r.key)
    gc = ["gc", "--drop", old.rpartition("/")[2], "--older-than", "0s", "--yes", ds]
    assert "published at s3://bucket/ds meanwhile" in run_leat(*gc, env=env, status=6).stderr
    found = run_leat("verify", f"{ds}?name=again", env=env).returncode == 0
    assert found == (kind == "versions")


@pytest.mark.parametrize("store", ["file", "a bucket with checksums", "a bucket without"])
def test_a_damaged_chunk_is_stored_again(tmp_path, faulty, run_leat, store):
    make_folder(tmp_path / "one", "one" * 20)
    server = faulty()
    url, env = (tmp_path / "copy/ds", {}) if store == "file" else ("s3://bucket/ds", server.env())
    run_leat("pack", "--chunk-size", "4KiB", tmp_path / "one", url, env=env, status=0)
    ds = tmp_path / "copy/ds" if store == "file" else download(server, tmp_path / "copy")
    chunks = refers(ds)
    if store == "file":
        data = chunks[1].read_bytes()
        chunks[1].write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        key = f"bucket/{chunks[1].relative_to(tmp_path / 'copy')}"
        data = server.objects[key]
        server.objects[key] = data[:-1] + bytes([data[-1] ^ 1])
    if store == "a bucket without":
        server.tags.update(dict.fromkeys(server.objects, '"no digest"'))
    again = run_leat("pack", "--replace", "--json", "--chunk-size", "4KiB", tmp_path / "one", url, env=env, status=0)
    ds = tmp_path / "copy/ds" if store == "file" else download(server, tmp_path / "copy")
    assert contents(Dataset(ds)) == of_folder(tmp_path / "one")
    assert [path.name for path in chunks] == [hashlib.sha256(path.read_bytes()).hexdigest() for path in chunks]
    found = json.loads(again.stdout)
    assert found["reused_chunks"] == (0 if store == "a bucket without" else found["chunks"] - 1)
