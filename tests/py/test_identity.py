"""Which chunks are the same. Memory, the disk and other machines know a chunk by everything that its bytes depend on, so
that no dataset is given another one's data, however much alike their objects are."""

import contextlib
import io
import json
import os
import random
import signal
import tarfile

import numpy as np
import pytest
from conftest import SANITIZE
from format_reader import Dataset
from format_writer import Elsewhere, Field, Place
from loading import warm_all
from machines import FakePeer
from PIL import Image
from plain_server import VALIDATORS, PlainServer
from test_job import Alone, request

TOKENS = 8192


@pytest.fixture
def plain():
    """plain(validator, files): a web server."""
    made = []

    def start(*args):
        made.append(PlainServer(*args))
        return made[-1]

    yield start
    for server in made:
        server.close()


def tokens_of(number):
    return np.random.default_rng(number).integers(0, 1 << 16, size=TOKENS, dtype="uint16")


def index(run_leat, server, dest, *options, path="/d/train.bin"):
    options = ["--json", "--chunk-size", "4KiB", *options, *(["--dtype", "uint16"] if path.endswith("bin") else [])]
    return json.loads(run_leat("index", *options, f"{server.url}{path}", dest, status=0).stdout)


def index_files(run_leat, folder, **more):
    source = "f" if more else folder / "f"
    done = run_leat("index", "--json", "--replace", source, folder / "ds", status=0, **more)
    return json.loads(done.stdout)["id"]


def index_as_before(server, dest, data):
    """As earlier releases did: two such datasets have the same chunk names and the same version."""
    key = b"/d/train.bin"
    samples = [
        (b"%d" % at, {"tokens": Elsewhere(key, data[at : at + 4096], at, len(data))})
        for at in range(0, len(data), 4096)
    ]
    fields = [Field("tokens", 8, {"dtype": "uint16"})]
    return Place(dest).index(fields, [(0, [sample]) for sample in samples], [server.url])


VIEW = "blocks=8 shift=0"


def opened(lt, url, **more):
    options = {
        "batch_size": 64,
        "last": "short",
        "as_numpy": True,
        "linger": "50ms",
        "ram": "1MiB",
        "window": 1,
        **more,
    }
    if not isinstance(url, lt.Mix):
        options["view"] = VIEW
    return lt.Loader(url, fields={"x": lt.tokens("tokens"), "s": lt.stream(), "i": lt.index()}, **options)


def read(loader, *wanted):
    """Reads an epoch, in which each of these token lists must come once."""
    found = [np.full((len(tokens) // 8, 8), -1) for tokens in wanted]
    for x, streams, numbers in loader:
        for tokens, stream, number in zip(x, streams.tolist(), numbers.tolist()):
            found[stream][number] = tokens
    for stream, (tokens, rows) in enumerate(zip(wanted, found)):
        assert (rows.ravel() == tokens).all(), f"stream {stream} has other tokens"


@pytest.mark.parametrize("how", ["now", "before"])
@pytest.mark.parametrize("tier", ["memory", "mixture", "disk"])
def test_data_are_not_taken_for_those_of_another_server(lt, runtime, run_leat, plain, tmp_path, shm_path, how, tier):
    """Two web servers that state no version have objects of one path and size."""
    known = [tokens_of(0), tokens_of(1)]
    servers = [plain("none", {"/d/train.bin": tokens.tobytes()}) for tokens in known]
    urls = [str(tmp_path / name) for name in "ab"]
    for server, url, tokens in zip(servers, urls, known):
        if how == "now":
            index(run_leat, server, url)
        else:
            index_as_before(server, url, tokens.tobytes())
    if tier == "mixture":
        mix = lt.Mix({"a": 0.5, "b": 0.5}, dict(zip("ab", urls)), view=VIEW)
        with opened(lt, mix) as loader:
            read(loader, *known)
        return
    if tier == "memory":
        with opened(lt, urls[0]) as first:
            read(first, known[0])
            with opened(lt, urls[1]) as second:
                read(second, known[1])
        return
    cache = ["--cache-dir", shm_path / "cache", "--cache", "64MiB"]
    warm_all(run_leat, runtime, *cache, urls[0])
    for url, server, tokens in zip(urls, servers, known):
        before = server.reads()
        with opened(lt, url, cache_dir=str(shm_path / "cache")) as loader:
            read(loader, tokens)
        assert (server.reads() == before) == (url == urls[0])


def write_shard(tokens):
    """A tar shard of stretches of them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for at in range(0, len(tokens), 1024):
            info = tarfile.TarInfo(f"{at:05d}.bin")
            data = tokens[at : at + 1024].tobytes()
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


PINS = {"none": "checksum", "weak": "checksum", "date": "date", "etag": "etag"}


@pytest.mark.parametrize("validator", VALIDATORS)
@pytest.mark.parametrize("kind", ["tokens", "tar"])
def test_an_index_tells_where_and_what_its_data_are(run_leat, plain, tmp_path, kind, validator):
    """The same objects have the same version; another server's, or other data of the same size, have another. What the
    server does not state is read, and nothing else."""
    path, write = ("/d/train.bin", lambda t: t.tobytes()) if kind == "tokens" else ("/d/train.tar", write_shard)
    here, there = (plain(validator, {path: write(tokens_of(0))}) for _ in range(2))

    def look(server, dest):
        before = len(server.requests)
        made = index(run_leat, server, tmp_path / dest, "--format", kind, path=path)
        asked = [r for method, _, r in server.requests[before:] if method == "GET"]
        return made, asked

    made, asked = look(here, "first")
    assert made["pinned"] == {"etag": 0, "date": 0, "checksum": 0, "length": 0} | {PINS[validator]: made["chunks"]}
    if kind == "tokens":
        assert len(asked) == 1 + (made["chunks"] if PINS[validator] == "checksum" else 0), "the beginning, and chunks"
    info = json.loads(run_leat("info", "--json", tmp_path / "first", status=0).stdout)
    assert (info["pinned"], info["pinned_of"]) == (made["pinned"], made["chunks"])
    assert info["checksums_known"] == (0 if PINS[validator] != "checksum" and kind == "tokens" else made["chunks"])
    assert look(here, "again")[0]["id"] == made["id"], "the same objects"
    assert look(there, "there")[0]["id"] != made["id"], "objects of another server"
    here.files[path] = write(tokens_of(1))
    here.dates[path] = 1_600_000_001
    assert look(here, "changed")[0]["id"] != made["id"], "other data of the same size"
    run_leat("verify", "-q", tmp_path / "changed", status=0)
    assert "index it again" in run_leat("verify", tmp_path / "first", status=6).stderr


def test_info_tells_what_nothing_but_a_length_holds(run_leat, plain, tmp_path):
    """Of indexes of earlier releases, which did not read what no version is stated of."""
    data = tokens_of(0).tobytes()
    index_as_before(plain("none", {"/d/train.bin": data}), tmp_path / "ds", data)
    text = run_leat("info", tmp_path / "ds", status=0).stdout
    assert "pinned   4 chunks by nothing but their length; 'leat verify --learn' stores checksums" in text
    run_leat("verify", "-q", "--learn", tmp_path / "ds", status=0)
    assert "pinned   4 chunks by a checksum\n" in run_leat("info", tmp_path / "ds", status=0).stdout


def test_files_are_held_to_their_dates(run_leat, tmp_path):
    (tmp_path / "f").mkdir()
    for i in range(3):
        (tmp_path / f"f/{i}.txt").write_text("x" * 5000)
    done = run_leat("index", "--chunk-size", "8KiB", tmp_path / "f", tmp_path / "ds", status=0)
    assert "pinned: 3 chunks by date and size\n" in done.stdout
    first = index_files(run_leat, tmp_path)
    (tmp_path / "f/1.txt").write_text("y" * 5000)
    assert index_files(run_leat, tmp_path) != first
    assert index_files(run_leat, tmp_path, cwd=tmp_path) == index_files(run_leat, tmp_path), (
        "relative paths are whole ones"
    )


def make_bmp(seed):
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, size=(8, 8, 3), dtype="uint8")
    Image.fromarray(pixels).save(out, format="bmp")
    return pixels, out.getvalue()


def test_pictures_are_not_shared_with_those_of_another_server(lt, plain, tmp_path):
    """By loaders that are open at the same time and ask for the same samples of what has the same version."""
    loaders, known = [], []
    for number in range(2):
        made = [make_bmp(100 * number + i) for i in range(8)]
        server = plain("none", {f"/d/{i}.bmp": data for i, (_, data) in enumerate(made)})
        samples = [
            (b"%d" % i, {"bmp": (Elsewhere(b"/d/%d.bmp" % i, data), (0,) * 7)}) for i, (_, data) in enumerate(made)
        ]
        Place(tmp_path / str(number)).index([Field("bmp", 2)], [(0, samples)], [server.url])
        known.append(np.stack([pixels for pixels, _ in made]))
        fields = {"x": lt.image("bmp").resize((8, 8)), "i": lt.index()}
        more = {"batch_size": 4, "as_numpy": True, "as_dict": True, "rank": 0, "world_size": 1}
        loaders.append(lt.Loader(str(tmp_path / str(number)), fields=fields, **more))
    for batches in zip(*loaders):
        for batch, pixels in zip(batches, known):
            assert (batch["x"] == pixels[batch["i"]]).all()
    for loader in loaders:
        loader.close()


def test_data_are_not_taken_for_those_behind_another_endpoint(lt, run_leat, faulty, tmp_path):
    """One bucket's name, key and ETag at two providers."""
    servers = [faulty(), faulty()]
    known = [tokens_of(0), tokens_of(1)]
    for i, (server, tokens) in enumerate(zip(servers, known)):
        server.objects["data/train.bin"] = tokens.tobytes()
        server.tags["data/train.bin"] = '"same"'
        command = ["index", "--dtype", "uint16", "--chunk-size", "4KiB", "s3://data/train.bin", tmp_path / str(i)]
        run_leat(*command, env=server.env(), status=0)
    with opened(lt, str(tmp_path / "0"), endpoint_url=servers[0].url) as first:
        read(first, known[0])
        with opened(lt, str(tmp_path / "1"), endpoint_url=servers[1].url) as second:
            read(second, known[1])


class World:
    """Sources of tokens, an index of each, and what was in them when they were indexed."""

    def __init__(self, seed, run_leat, plain, faulty, folder, cache):
        self.draw = random.Random(seed)
        self.run_leat, self.folder, self.cache = run_leat, folder, str(cache)
        self.plain = [plain(self.draw.choice(VALIDATORS)) for _ in range(3)]
        self.bucket = faulty()
        self.clock = 1_600_000_000
        self.urls = [
            *(f"{server.url}/d/train.bin" for server in self.plain),
            "s3://data/train.bin",
            str(folder / "train.bin"),
        ]
        self.versions = [[] for _ in self.urls]  # of each source: (id, tokens), the current one last
        for source in range(len(self.urls)):
            self.change(source)

    def dest(self, source):
        return str(self.folder / f"ds{source}")

    def change(self, source):
        """Other data of the same size, indexed again."""
        tokens = tokens_of(self.draw.randrange(1 << 30))
        self.clock += 1
        if source < len(self.plain):
            self.plain[source].files["/d/train.bin"] = tokens.tobytes()
            self.plain[source].dates["/d/train.bin"] = self.clock
        elif source == len(self.plain):
            self.bucket.objects["data/train.bin"] = tokens.tobytes()
        else:
            (self.folder / "train.bin").write_bytes(tokens.tobytes())
            os.utime(self.folder / "train.bin", (self.clock, self.clock))
        self.versions[source].append((self.index(source), tokens))
        ids = [id for versions in self.versions for id, _ in versions]
        assert len(set(ids)) == len(ids), "every version has an id of its own"

    def index(self, source):
        command = ["index", "--json", "--replace", "--dtype", "uint16", "--chunk-size", "4KiB"]
        done = self.run_leat(*command, self.urls[source], self.dest(source), env=self.bucket.env(), status=0)
        return json.loads(done.stdout)["id"]

    def open(self, lt, url):
        return opened(lt, url, endpoint_url=self.bucket.url, cache_dir=self.cache, linger="10s")

    def act(self, lt, runtime):
        source, other = self.draw.sample(range(len(self.urls)), 2)
        now = [self.versions[i][-1][1] for i in (source, other)]
        what = self.draw.choice(["change", "warm", "restart", "read", "read", "both", "mixture", "old"])
        if what == "change":
            self.change(source)
        elif what == "warm":
            env = {**runtime.env, **self.bucket.env()}
            self.run_leat(
                "warm", "-q", "--cache-dir", self.cache, "--cache", "64MiB", self.dest(source), env=env, status=0
            )
        elif what == "restart":
            runtime.kill_agents(signal.SIGTERM)
            runtime.wait_gone()
        elif what == "mixture":
            streams = {"a": self.dest(source), "b": self.dest(other)}
            with self.open(lt, lt.Mix({"a": 0.5, "b": 0.5}, streams, view=VIEW)) as loader:
                read(loader, *now)
        elif what == "old":
            id, tokens = self.draw.choice(self.versions[source])
            with contextlib.suppress(lt.DatasetChanged), self.open(lt, f"{self.dest(source)}?id={id}") as loader:
                read(loader, tokens)
        else:
            with contextlib.ExitStack() as stack:
                places = [source, other][: 1 + (what == "both")]
                loaders = [stack.enter_context(self.open(lt, self.dest(place))) for place in places]
                for loader, tokens in zip(loaders, now):
                    read(loader, tokens)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 14))])
def test_every_job_gets_the_bytes_that_were_indexed(lt, runtime, run_leat, plain, faulty, tmp_path, shm_path, seed):
    """Sources with and without validators, whose objects are alike, change and are indexed again; read from memory, the
    disk and the source, by one loader, two, or a mixture."""
    world = World(seed, run_leat, plain, faulty, tmp_path, shm_path / "cache")
    for _ in range(12 if seed == 1 else 40):
        world.act(lt, runtime)


@pytest.fixture
def two_alike(plain, tmp_path):
    """Datasets of one version, as earlier releases made them, whose data are those of two web servers: (addresses,
    [{key: bytes}, …], content id, name of the first chunk)."""
    known, urls, ids = [], [], set()
    for number in range(2):
        draw = random.Random(number)
        files = {f"{i}.bin": draw.randbytes(500) for i in range(16)}
        server = plain("none", {f"/d/{name}": data for name, data in files.items()})
        samples = [(k.encode(), {"bin": Elsewhere(f"/d/{k}".encode(), data)}) for k, data in files.items()]
        dest = tmp_path / f"alike{number}"
        ids.add(Place(dest).index([Field("bin", 1)], [(0, samples[:8]), (0, samples[8:])], [server.url]))
        known.append(files)
        urls.append(str(dest))
    (id,) = ids
    return urls, known, id, Dataset(urls[0]).root.names[0].hex()


def test_differences_between_two_servers_are_seen(run_leat, two_alike):
    (a, b), *_ = two_alike
    assert "16 changed" in run_leat("diff", "--bytes", a, b, status=1).stdout
    assert "16 the same" in run_leat("diff", "--bytes", a, a, status=0).stdout


@pytest.mark.skipif(SANITIZE == "thread", reason="the interpreter cannot load a ThreadSanitizer extension")
@pytest.mark.parametrize("both", [False, True])
def test_a_machine_gives_no_chunk_that_may_be_of_another_server(lt, two_alike, tmp_path, both):
    """When its job reads two datasets of one id, the one that asks does not say which it means."""
    urls, known, id, name = two_alike
    mix = lt.Mix({"a": 0.5, "b": 0.5}, dict(zip("ab", urls)))
    peer = FakePeer(lambda path: (404, b""))
    alone = Alone(lt, mix if both else urls[0], peer.address, **({"epoch_size": 32} if both else {}))
    peer.begin(tmp_path, alone.members["cert"], alone.members["key"])
    alone.join()
    read = alone.read()
    code, body = request(alone.own, f"/chunk/{id}/0/{name}", alone.members["token"])
    alone.close()
    peer.close()
    assert read and all(data in (files[k] for files in known[: 1 + both]) for k, data in read)
    assert len({data for _, data in read}) == len(read), "each once"
    assert code == (404 if both else 200)
    assert both or all(data in body for data in list(known[0].values())[:8])


def test_objects_whose_bucket_lists_weak_tags_are_read_for_checksums(run_leat, faulty, tmp_path):
    server = faulty()
    for i in range(5):
        server.objects[f"bucket/raw/{i}.txt"] = b"%d" % i * 2000
        server.tags[f"bucket/raw/{i}.txt"] = 'W/"same"' if i else '"strong"'

    def look(*options):
        command = [
            "index",
            "--json",
            "--replace",
            "--keep-order",
            "--chunk-size",
            "4KiB",
            "s3://bucket/raw",
            tmp_path / "ds",
        ]
        return json.loads(run_leat(*command, *options, env=server.env(), status=0).stdout)

    made = look()
    assert made["pinned"] == {"etag": 1, "date": 0, "checksum": 4, "length": 0}
    assert server.count("GET", "bucket/raw/0.txt") == 0, "its tag says enough"
    assert look("--threads", "3")["id"] == made["id"]
    server.objects["bucket/raw/3.txt"] = b"x" * 2000
    assert look()["id"] != made["id"]
    server.objects["bucket/raw/3.txt"] = b"x" * 1999
    server.fault(lambda exchange: exchange.answer(404, b""), method="GET", key="bucket/raw/3.txt")
    done = run_leat("index", "s3://bucket/raw", tmp_path / "other", env=server.env(), status=3)
    assert "raw/3.txt" in done.stderr and "states no version" in done.stderr
    assert not (tmp_path / "other").exists()
