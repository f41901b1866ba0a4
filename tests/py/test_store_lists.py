"""What servers list although it was not asked for, and lists that never end: every kind of bucket, from one table."""

import itertools
import json
from html import escape

import pytest
from command_tools import one_line, tree
from places import ACCOUNT, SECRET
from test_s3_express import BUCKET as DIRECTORY
from test_s3_express import Express

pytestmark = pytest.mark.every_case

KINDS = ["s3", "versions", "directory", "gs", "az", "hf"]


def s3_page(keys, more, root="ListBucketResult", row="Contents"):
    text = f"<{root}>"
    for key in keys:
        tag = "Prefix" if key.endswith("/") else "Key"
        name = "CommonPrefixes" if key.endswith("/") else row
        text += f"<{name}><{tag}>{escape(key)}</{tag}><Size>1</Size><VersionId>v</VersionId></{name}>"
    text += f"<IsTruncated>{str(bool(more)).lower()}</IsTruncated>"
    if more and row == "Contents":
        text += f"<NextContinuationToken>{more}</NextContinuationToken>"
    elif more:
        text += f"<NextKeyMarker>{more}</NextKeyMarker><NextVersionIdMarker>v</NextVersionIdMarker>"
    return text + f"</{root}>"


def az_page(keys, more):
    text = "<EnumerationResults><Blobs>"
    for key in keys:
        name = "BlobPrefix" if key.endswith("/") else "Blob"
        size = "<Properties><Content-Length>1</Content-Length></Properties>"
        text += f"<{name}><Name>{escape(key)}</Name>{size}</{name}>"
    return text + f"</Blobs><NextMarker>{more or ''}</NextMarker></EnumerationResults>"


class Lister:
    """A bucket of a kind whose lists are `pages`, an iterator of lists of keys. `folder`: keys of the one page that a look
    into a folder gets, instead."""

    def __init__(self, kind, faulty):
        self.kind, self.server = kind, faulty()
        self.pages, self.turned, self.folder = iter(()), 0, None
        url = self.server.url
        self.env = {
            "gs": {"STORAGE_EMULATOR_HOST": url, "GS_ACCESS_KEY_ID": ACCOUNT, "GS_SECRET_ACCESS_KEY": SECRET},
            "az": {"AZURE_STORAGE_ENDPOINT": f"{url}/{ACCOUNT}", "AZURE_STORAGE_KEY": SECRET},
            "hf": {"HF_ENDPOINT": url},
        }.get(kind, self.server.env("us-west-2"))
        host = {"gs": "gs://bucket", "az": f"az://{ACCOUNT}/bucket", "hf": "hf://datasets/o/n"}
        self.url = host.get(kind, f"s3://{DIRECTORY if kind == 'directory' else 'bucket'}")
        self.list = ["ls", "--versions", "--recursive"] if kind == "versions" else ["ls", "--recursive"]
        if kind == "directory":
            Express(self.server)
        self.server.fault(self.revision, match=lambda r: "/revision/" in r.target)
        self.server.fault(self.answer, method="GET", match=self.lists)

    @staticmethod
    def lists(r):
        return bool({"list-type", "versions", "comp"} & r.query.keys()) or "/tree/" in r.target

    @staticmethod
    def revision(exchange):
        exchange.answer(200, json.dumps({"sha": "c" * 40}).encode())

    def answer(self, exchange):
        query = exchange.request.query
        looks = self.folder and ("delimiter" in query or query.get("recursive") == "false")
        keys = None if looks else next(self.pages, None)
        if looks:
            keys, more = self.folder, None
        elif keys is None:
            keys, more = [], None
        else:
            self.turned += 1
            more = f"token{self.turned}"
        headers = {}
        if self.kind == "hf":
            if more:
                headers["Link"] = f'<{self.server.url}/x?cursor={more}>; rel="next"'
            rows = [{"path": k.rstrip("/"), "type": "directory" if k.endswith("/") else "file"} for k in keys]
            text = json.dumps([row | {"oid": "00", "size": 1} for row in rows])
        elif self.kind == "az":
            text = az_page(keys, more)
        elif self.kind == "versions":
            text = s3_page(keys, more, "ListVersionsResult", "Version")
        else:
            text = s3_page(keys, more)
        exchange.answer(200, text.encode(), headers)


@pytest.fixture(params=KINDS)
def lister(request, faulty):
    return Lister(request.param, faulty)


@pytest.mark.parametrize("key", ["secret/1", "trai"])
def test_a_key_that_was_not_asked_for_is_an_error(lister, run_leat, key):
    lister.pages = iter([[key]])
    done = run_leat(*lister.list, f"{lister.url}/train/", env=lister.env, status=5)
    one_line(done, f"'{key}'", "'train/'", "not asked for")
    assert done.stdout == ""


@pytest.mark.parametrize("kind", ["s3", "directory", "gs", "az"])
def test_nothing_outside_the_folder_is_deleted(kind, faulty, run_leat):
    lister = Lister(kind, faulty)
    lister.folder, lister.pages = ["train/1"], iter([["train/1", "secret/1"]])
    done = run_leat("rm", "--recursive", f"{lister.url}/train/", env=lister.env, status=5)
    one_line(done, "'secret/1'", "not asked for")
    assert lister.server.of("DELETE") == [], "nor anything else of that page"


@pytest.mark.parametrize("lister", ["s3", "gs", "az", "hf"], indirect=True)
def test_no_file_gets_a_name_from_elsewhere(lister, run_leat, tmp_path):
    lister.folder, lister.pages = ["train/1"], iter([["t"]])
    done = run_leat("cp", "--recursive", f"{lister.url}/train/", tmp_path / "to", env=lister.env, status=5)
    one_line(done, "'t'", "not asked for")
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("command", ["index", "index tar"])
def test_an_index_has_no_samples_from_elsewhere(faulty, run_leat, tmp_path, command):
    lister = Lister("s3", faulty)
    lister.pages = itertools.repeat(["a.tar"])
    args = ["index", f"{lister.url}/train/", tmp_path / "to", *(["--format", "tar"] if "tar" in command else [])]
    done = run_leat(*args, env=lister.env, status=5)
    assert "not asked for" in done.stderr, done.stderr


LOOPS = {
    "one key": lambda: itertools.repeat(["train/a"]),
    "a circle": lambda: itertools.cycle([["train/a", "train/b"], ["train/c"], ["train/d", "train/e"]]),
    "after a while": lambda: itertools.chain(
        [[f"train/0{i:02}"] for i in range(20)], itertools.cycle([["train/a"], ["train/b"]])
    ),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_list_that_goes_round_under_new_tokens_ends(lister, run_leat, loop):
    lister.pages = LOOPS[loop]()
    done = run_leat(*lister.list, f"{lister.url}/train/", env=lister.env, status=5)
    one_line(done, "repeats itself", "'train/")
    assert lister.turned < 100


def test_folders_that_go_round_end_too(lister, run_leat):
    lister.pages = itertools.repeat(["train/a/", "train/b/"])
    done = run_leat(*[a for a in lister.list if a != "--recursive"], f"{lister.url}/train/", env=lister.env, status=5)
    one_line(done, "repeats itself", "'train/")
    assert lister.turned < 100


def test_only_stores_that_promise_an_order_are_held_to_it(lister, run_leat):
    lister.pages = iter([["train/b"], ["train/a"]])
    done = run_leat(*lister.list, f"{lister.url}/train/", env=lister.env)
    if lister.kind in ("s3", "versions", "gs"):
        one_line(done, "'train/a'", "not sorted")
        assert done.returncode == 5
    else:
        assert done.returncode == 0, done.stderr
        assert sorted(line.split()[-1] for line in done.stdout.splitlines()) == ["train/a", "train/b"]


def test_a_server_may_sort_by_path(server, run_leat):
    lister = Lister("s3", lambda: server)
    lister.pages = iter([["train/a", "train/x/1"], ["train/x/2", "train/x.0"], ["train/y"]])  # as SeaweedFS does
    done = run_leat(*lister.list, lister.url, env=lister.env, status=0)
    assert len(done.stdout.splitlines()) == 5
