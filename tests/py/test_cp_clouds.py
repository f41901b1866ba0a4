"""Copies that Google and Azure make by themselves: what is asked, beside their own SDKs, and what comes of it."""

import json

import pytest
from clouds import AzureCloud, GoogleCloud
from command_tools import one_line, some_bytes

GIB = 1 << 30
KINDS = ["gs token", "gs pair", "az key", "az sas", "az token"]


class Place:
    def __init__(self, kind):
        self.kind = kind
        self.cloud = GoogleCloud() if kind.startswith("gs") else AzureCloud()
        self.cloud.buckets |= {"one": {}, "two": {}}
        self.one, self.two = self.cloud.buckets["one"], self.cloud.buckets["two"]
        cloud = self.cloud
        if kind.startswith("gs"):
            self.url = "gs:/"
            cloud.hmac["GOOG1EXAMPLE"] = "a-secret"
            pair = {"GS_ACCESS_KEY_ID": "GOOG1EXAMPLE", "GS_SECRET_ACCESS_KEY": "a-secret"}
            keys = {"GCE_METADATA_HOST": cloud.host} if kind == "gs token" else pair
            self.env = {"STORAGE_EMULATOR_HOST": cloud.url, **keys}
        else:
            self.url = "az://acct"
            cloud.sas = "sv=1&sig=a%2Bsignature" if kind == "az sas" else None
            keys = {
                "az key": {"AZURE_STORAGE_KEY": cloud.key},
                "az sas": {"AZURE_STORAGE_SAS_TOKEN": cloud.sas},
                "az token": {"AZURE_POD_IDENTITY_AUTHORITY_HOST": cloud.url},
            }[kind]
            self.env = {"AZURE_STORAGE_ENDPOINT": cloud.endpoint, **keys}

    def put(self, key, data, **meta):
        o = self.one[key] = self.cloud.object(data)
        o.meta = meta
        return o

    def asked(self):
        """Of the store itself, without the services for keys."""
        ours = [r for r in self.cloud.requests if "token" not in r.path.rsplit("/", 1)[-1]]
        return [r for r in ours if not r.path.startswith(("/computeMetadata", "/metadata"))]

    def copies(self):
        return [
            r
            for r in self.asked()
            if "rewriteTo" in r.path or "x-goog-copy-source" in r.headers or "x-ms-copy-source" in r.headers
        ]

    def reads(self):
        return [r for r in self.asked() if r.method == "GET" and "/one/" in r.path and not r.query.get("restype")]


@pytest.fixture
def place(request):
    made = Place(request.param)
    yield made
    made.cloud.stop()


every = pytest.mark.parametrize("place", KINDS, indirect=True)


@every
def test_the_server_copies_and_what_goes_with_an_object_is_kept(place, run_leat):
    name = "x-goog-meta-who" if place.kind.startswith("gs") else "x-ms-meta-who"
    keys = ["d/a b+ü?%41", "d/plain", "d/empty"]
    for key in keys:
        place.put(key, some_bytes(3000) if "empty" not in key else b"", **{name: "ann", "Content-Type": "a/b"})
    done = run_leat("cp", "-r", f"{place.url}/one/d", f"{place.url}/two/e", env=place.env, status=0)
    assert done.stderr == ""
    for key in keys:
        new = place.two["e" + key[1:]]
        assert new.data == place.one[key].data
        assert new.meta == {name: "ann", "Content-Type": "a/b"}
    assert len(place.copies()) == 3
    assert place.reads() == []


@every
def test_a_source_that_changed_is_an_error(place, run_leat):
    place.put("key", b"first")

    def change(r):
        if r in place.copies() or "rewriteTo" in r.path or "copy-source" in str(r.headers):
            place.put("key", b"other")

    place.cloud.fail.append(change)
    done = run_leat("cp", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env, status=6)
    one_line(done, "changed")
    assert "key" not in place.two


@every
def test_through_means_through_this_machine(place, run_leat):
    place.put("key", b"hello")
    run_leat("cp", "--through", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env, status=0)
    assert place.two["key"].data == b"hello"
    assert place.copies() == []


@every
def test_a_server_that_cannot_copy_is_said_and_gets_the_bytes_from_here(place, run_leat):
    place.put("a", b"hello")
    place.put("b", b"there")

    def refuse(r):
        if "rewriteTo" in r.path:
            return 404, {}, b"<html>no such page</html>"
        if "x-goog-copy-source" in r.headers:
            return 501, {}, b"<Error><Code>NotImplemented</Code></Error>"
        if "x-ms-copy-source" in r.headers:
            return place.cloud.error(403, "CannotVerifyCopySource")
        return None

    place.cloud.fail.append(refuse)
    done = run_leat("cp", "-r", f"{place.url}/one/", f"{place.url}/two/", env=place.env, status=0)
    assert {k: o.data for k, o in place.two.items()} == {"a": b"hello", "b": b"there"}
    assert done.stderr.count("does not copy by itself") == 1
    assert "signature" not in done.stderr
    assert len(place.copies()) == 1


@pytest.mark.parametrize("place", ["gs token"], indirect=True)
def test_a_copy_that_takes_several_calls_goes_on_where_it_was(place, run_leat):
    place.cloud.rewrites = 4
    place.put("key", some_bytes(5000))
    run_leat("cp", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env, status=0)
    assert place.two["key"].data == place.one["key"].data
    tokens = [r.query.get("rewriteToken") for r in place.copies()]
    assert tokens[0] is None
    assert len(set(tokens)) == 4


@pytest.mark.parametrize("place", ["gs token"], indirect=True)
def test_a_copy_of_other_bytes_is_noticed(place, run_leat):
    place.put("key", some_bytes(5000))
    proper = place.cloud.copied

    def damage(bucket, key, source):
        o = proper(bucket, key, source)
        o.data = b"x" + o.data[1:]
        return o

    place.cloud.copied = damage
    done = run_leat("cp", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env, status=6)
    one_line(done, "not of the same bytes")


@pytest.mark.parametrize("place", ["az key"], indirect=True)
@pytest.mark.parametrize("ends", ["success", "failed"])
def test_a_copy_that_goes_on_is_waited_for(place, run_leat, ends):
    place.cloud.polls = 2
    place.put("key", b"hello")
    if ends == "failed":  # and is then asked for once more, which works

        def mend(r):
            if len(place.copies()) > 1:
                place.cloud.polls, place.cloud.copy_ends = 0, "success"

        place.cloud.copy_ends = "failed"
        place.cloud.fail.append(mend)
    run_leat("cp", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env, status=0)
    looks = [r for r in place.asked() if r.method == "HEAD" and "/two/" in r.path]
    assert len(looks) >= 2
    assert len(place.copies()) == (1 if ends == "success" else 2)


@pytest.mark.parametrize("place", ["gs token", "az token"], indirect=True)
def test_large_objects_go_at_once(place, run_leat):
    o = place.put("key", b"")
    size = 7 * GIB

    def head(r):
        if r.method == "HEAD" and "/one/" in r.path:
            return 200, {**place.cloud.head_of(o), "Content-Length": str(size), "x-goog-hash": []}, b""
        return None

    place.cloud.fail.append(head)
    done = run_leat("cp", "--json", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env, status=0)
    assert json.loads(done.stdout)["bytes"] == size
    assert len(place.copies()) == 1


@pytest.mark.parametrize("place", ["gs token"], indirect=True)
def test_google_is_asked_as_its_own_library_asks(place, run_leat):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    o = place.put("d/key ü", b"hello")
    run_leat("cp", f"{place.url}/one/d/key ü", f"{place.url}/two/e/new", env=place.env, status=0)
    (ours,) = place.copies()
    place.cloud.requests.clear()
    place.cloud.open = True
    client = storage.Client(
        project="p", credentials=AnonymousCredentials(), client_options={"api_endpoint": place.cloud.url}
    )
    source = client.bucket("one").blob("d/key ü")
    client.bucket("two").blob("e/new").rewrite(source, if_source_generation_match=o.number)
    (theirs,) = place.copies()
    assert (ours.method, ours.raw_path) == (theirs.method, theirs.raw_path)
    assert ours.query == {n: v for n, v in theirs.query.items() if n != "prettyPrint"}


@pytest.mark.parametrize("place", ["az key"], indirect=True)
def test_azure_is_asked_as_its_own_library_asks(place, run_leat):
    from azure.core import MatchConditions
    from azure.storage.blob import BlobServiceClient

    o = place.put("d/key ü", b"hello")
    run_leat("cp", f"{place.url}/one/d/key ü", f"{place.url}/two/e/new", env=place.env, status=0)
    (ours,) = place.copies()
    place.cloud.requests.clear()
    client = BlobServiceClient(
        place.cloud.endpoint, credential={"account_name": "acct", "account_key": place.cloud.key}
    )
    url = client.get_blob_client("one", "d/key ü").url
    client.get_blob_client("two", "e/new").start_copy_from_url(
        url, source_etag=place.cloud.etag(o), source_match_condition=MatchConditions.IfNotModified
    )
    (theirs,) = place.copies()
    assert (ours.method, ours.raw_path, ours.query) == (theirs.method, theirs.raw_path, theirs.query)
    for name in ("x-ms-copy-source", "x-ms-source-if-match", "content-length"):
        assert ours.headers[name] == theirs.headers[name]


@pytest.mark.parametrize("place", ["gs token"], indirect=True)
def test_a_copy_that_does_not_go_on_ends_with_its_time(place, run_leat):
    place.put("key", some_bytes(5000))
    answer = {"done": False, "rewriteToken": "the-same", "totalBytesRewritten": "1000"}

    def stand_still(r):
        return (200, {}, json.dumps(answer).encode()) if "rewriteTo" in r.path else None

    place.cloud.fail.append(stand_still)
    done = run_leat("cp", "--timeout", "2s", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env)
    assert done.returncode != 0
    one_line(done, "still copying")
    assert 2 <= len(place.copies()) < 20


def lose_copy(place, times=1):
    """The first copies are made, and what the server says of them never arrives."""
    left = [times]

    def lose(r):
        asked = r.method in ("PUT", "POST") and ("rewriteTo" in r.path or "copy-source" in str(r.headers))
        left[0] -= asked
        return asked and left[0] >= 0

    place.cloud.lose.append(lose)


@every
def test_a_copy_whose_answer_was_lost_is_made_all_the_same(place, run_leat):
    place.put("d/a b+ü?%41", b"hello")
    lose_copy(place, 2)
    run_leat("cp", f"{place.url}/one/d/a b+ü?%41", f"{place.url}/two/key", env=place.env, status=0)
    assert place.two["key"].data == b"hello"
    assert len(place.copies()) == 3


@pytest.mark.parametrize("place", ["az key", "az sas"], indirect=True)
def test_a_copy_under_way_whose_answer_was_lost_is_waited_for(place, run_leat):
    place.cloud.polls = 3
    place.put("d/a b+ü?%41", b"hello")
    lose_copy(place)
    run_leat("cp", f"{place.url}/one/d/a b+ü?%41", f"{place.url}/two/key", env=place.env, status=0)
    assert place.two["key"].data == b"hello"
    assert len(place.copies()) == 2  # the one that was lost, and the one that found it
    assert place.two["key"].polls == 0


@pytest.mark.parametrize("place", ["az key"], indirect=True)
def test_a_copy_under_way_that_then_fails_is_asked_for_again(place, run_leat):
    place.cloud.polls = 3
    place.cloud.copy_ends = "failed"
    place.put("key", b"hello")
    lose_copy(place)

    def mend(r):
        if len(place.copies()) > 2:
            place.cloud.polls, place.cloud.copy_ends = 0, "success"

    place.cloud.fail.append(mend)
    run_leat("cp", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env, status=0)
    assert place.two["key"].data == b"hello"
    assert len(place.copies()) == 3


@pytest.mark.parametrize("place", ["az key"], indirect=True)
def test_a_copy_of_something_else_under_way_is_not_taken_for_ones_own(place, run_leat):
    place.put("key", b"hello")
    place.put("other", b"other")
    place.cloud.polls = 1000
    run_leat("cp", "--timeout", "1s", f"{place.url}/one/other", f"{place.url}/two/key", env=place.env)
    done = run_leat("cp", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env)
    assert done.returncode != 0
    one_line(done, "a copy of something else to it is under way")
    assert place.two["key"].data == b"other"


@pytest.mark.parametrize("place", ["az key"], indirect=True)
@pytest.mark.parametrize("waits", [True, False])
def test_what_replaced_a_copy_is_not_taken_for_it(place, run_leat, waits):
    """Its size is that of the source: only the copy's name, or what it is a copy of, tells."""
    place.put("key", b"hello")
    place.put("other", b"other")
    place.cloud.polls = 3 if waits else 1
    looks = []

    def replace(r):
        if r.method == "HEAD" and "/two/" in r.path:
            looks.append(r)
            if len(looks) == 1:
                place.cloud.polls = 0
                there = place.two["key"]
                o = place.two["key"] = place.cloud.object(b"other")
                o.polls = 1
                o.copy = {"x-ms-copy-id": "00000000-0000-0000-0000-000000000000"}
                o.copy_source = {n: v.replace("/key", "/other") for n, v in there.copy_source.items()}

    place.cloud.fail.append(replace)
    if not waits:
        lose_copy(place)
    run_leat("cp", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env, status=0)
    assert place.two["key"].data == b"hello"


@pytest.mark.parametrize("place", ["gs token"], indirect=True)
def test_a_copy_in_several_calls_begins_again_when_an_answer_was_lost(place, run_leat):
    """Its token has done its work, and the next one never arrived."""
    place.cloud.rewrites = 3
    place.put("key", some_bytes(5000))
    calls = []

    def lose(r):
        if "rewriteTo" in r.path:
            calls.append(r)
        return len(calls) == 2 and "rewriteTo" in r.path

    place.cloud.lose.append(lose)
    run_leat("cp", f"{place.url}/one/key", f"{place.url}/two/key", env=place.env, status=0)
    assert place.two["key"].data == place.one["key"].data
    assert [bool(r.query.get("rewriteToken")) for r in place.copies()] == [False, True, True, False, True, True]
