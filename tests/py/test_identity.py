"""Which chunks are the same. Memory, the disk and other machines know a chunk by everything that its bytes depend on, so
that no dataset is given another one's data, however much alike their objects are."""

import json

import numpy as np
import pytest
from format_writer import Elsewhere, Field, Place
from plain_server import PlainServer

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
    run_leat("warm", "-q", *cache, urls[0], env=runtime.env, status=0)
    runtime.wait_gone()
    for url, server, tokens in zip(urls, servers, known):
        before = server.reads()
        with opened(lt, url, cache_dir=str(shm_path / "cache")) as loader:
            read(loader, tokens)
        assert (server.reads() == before) == (url == urls[0])
