"""Answers that are not the object: other encodings, other lengths, other versions, flipped bits; and outages."""

import base64
import gzip
import hashlib
import json
import re
import signal
import subprocess
import time
import zlib
from email.utils import formatdate

import pytest
from command_tools import MIB, leftovers, some_bytes, started, wait_until
from faulty_server import FaultyServer, black_hole, changed, status, truncated

PART = 5 * MIB  # the smallest there is


@pytest.fixture
def server(faulty):
    s = faulty()
    s.objects["bucket/key"] = b"one line of text, the same again and again\n" * 5000
    return s


def last_line(done, *words):
    """The error that ended the command."""
    text = done.stderr.decode() if isinstance(done.stderr, bytes) else done.stderr
    line = text.splitlines()[-1]
    assert line.startswith("leat: "), text
    for word in words:
        assert word in line, text


# Another encoding.


def zipping(exchange):
    """A proxy that packs whatever passes, whatever it was asked for, and keeps the ETag."""
    data = exchange.server.objects[exchange.request.key]
    if exchange.request.method == "HEAD":
        exchange.server.proper(exchange)
        return
    packed = gzip.compress(data)
    headers = {"ETag": exchange.server.etag(exchange.request.key), "Content-Encoding": "gzip"}
    exchange.answer(200, packed, headers)


def unzipping(exchange):
    """Google's transcoding: stored packed, sent unpacked, without a length."""
    data = gzip.decompress(exchange.server.objects[exchange.request.key])
    if exchange.request.method == "HEAD" or exchange.request.key not in exchange.server.objects:
        exchange.server.proper(exchange)
        return
    exchange.head(200, {"ETag": exchange.server.etag(exchange.request.key), "Transfer-Encoding": "chunked"})
    exchange.send(b"%x\r\n" % len(data) + data + b"\r\n0\r\n\r\n")


def test_the_stored_bytes_are_asked_for(run_leat, server):
    run_leat("cat", "s3://bucket/key", env=server.env(), status=0)
    assert [r.headers.get("accept-encoding") for r in server.requests] == ["identity", "identity"]


@pytest.mark.parametrize("command", ["cat", "cp", "cp -r"])
@pytest.mark.parametrize("proxy", [zipping, unzipping])
def test_an_answer_in_another_encoding_is_refused_and_nothing_is_written(run_leat, server, tmp_path, command, proxy):
    if proxy is unzipping:
        server.objects["bucket/key"] = gzip.compress(server.objects["bucket/key"])
    server.fault(proxy, method="GET", match=lambda r: "list-type" not in r.query)
    to = tmp_path / "to"
    source = "s3://bucket/" if command == "cp -r" else "s3://bucket/key"
    args = [*command.split(), "--attempts", 2, source, *([] if command == "cat" else [to])]
    done = run_leat(*args, env=server.env(), status=5)
    last_line(done, "key", "encoding" if proxy is zipping else "longer than")
    assert done.stdout == ""
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.name in ("key", "to")]
    assert leftovers(tmp_path) == []


def test_an_object_that_is_stored_packed_comes_as_it_is_stored(run_leat, server, tmp_path):
    server.objects["bucket/key"] = gzip.compress(server.objects["bucket/key"])

    def tell(exchange):
        code, headers, body = exchange.object_part()
        exchange.answer(code, body, {**headers, "Content-Encoding": "gzip"})

    server.fault(tell, match=lambda r: "list-type" not in r.query)
    done = run_leat("cat", "s3://bucket/key", env=server.env(), text=False, status=0)
    assert done.stdout == server.objects["bucket/key"]
    run_leat("cp", "-r", "s3://bucket/", tmp_path / "to", env=server.env(), status=0)
    assert (tmp_path / "to" / "key").read_bytes() == server.objects["bucket/key"]


def test_a_passing_encoding_is_tried_again(run_leat, server):
    server.fault(zipping, method="GET", times=2)
    done = run_leat("cat", "s3://bucket/key", env=server.env(), text=False, status=0)
    assert done.stdout == server.objects["bucket/key"]


def test_an_answer_of_another_total_is_refused(run_leat, server):
    def longer(code, headers, body):
        return code, {**headers, "Content-Range": headers["Content-Range"].replace("/", "/9")}, body

    server.fault(changed(longer), method="GET")
    done = run_leat("cat", "--attempts", 2, "s3://bucket/key", env=server.env(), status=5)
    last_line(done, "s3://bucket/key", "bytes")
    assert done.stdout == ""


# Heads that say nothing.


def test_an_empty_head_is_no_empty_object_and_overwrites_nothing(run_leat, server, tmp_path):
    (tmp_path / "mine").write_text("precious")

    def portal(exchange):
        exchange.answer(200, b"")

    server.fault(portal)
    done = run_leat("cp", "--attempts", 2, "s3://bucket/key", tmp_path / "mine", env=server.env(), status=5)
    last_line(done, "not an object")
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_web_server_whose_head_says_nothing_is_asked_for_the_first_byte(run_leat, server, tmp_path):
    server.fault(lambda exchange: exchange.answer(200, b""), method="HEAD")
    run_leat("cp", server.url + "/bucket/key", tmp_path / "to", status=0)
    assert (tmp_path / "to").read_bytes() == server.objects["bucket/key"]
    server.objects["bucket/none"] = b""
    run_leat("cp", server.url + "/bucket/none", tmp_path / "none", status=0)
    assert (tmp_path / "none").read_bytes() == b""


@pytest.mark.parametrize("said", [206, 200])
def test_a_web_server_that_states_the_ranges_length_for_the_objects_is_not_believed(run_leat, server, said):
    def counted(code, headers, body):
        if "Content-Range" in headers:
            headers = {**headers, "Content-Range": headers["Content-Range"].partition("/")[0] + f"/{len(body)}"}
        return (said if "Content-Range" in headers and len(body) == 1 else code), headers, body

    server.objects |= {"bucket/one": b"1", "bucket/words": b"by link"}
    server.fault(lambda exchange: exchange.answer(403), method="HEAD")
    server.fault(changed(counted), method="GET")
    for key in ("one", "words"):
        assert (
            run_leat("cat", f"{server.url}/bucket/{key}", status=0).stdout == server.objects[f"bucket/{key}"].decode()
        )


# Web servers without a strong ETag.


class Versions:
    """Sends one version of the object until `switch` parts were asked for, then the other."""

    def __init__(self, server, key, first, second, headers, switch):
        self.server, self.key, self.headers = server, key, headers
        self.all = [(first, headers(1)), (second, headers(2))]
        self.left = switch
        server.objects[key] = first
        server.fault(self.answer, key=key)

    def answer(self, exchange):
        if exchange.request.method == "GET" and exchange.request.range != (0, 0):
            with self.server.lock:
                self.left -= 1
        data, headers = self.all[self.left < 0]
        self.server.objects[self.key] = data
        code, proper, body = exchange.object_part()
        proper.pop("ETag")
        proper.pop("Last-Modified")
        exchange.answer(code, body, {**proper, **headers})


def dated(n):
    return {"Last-Modified": formatdate(1700000000 + n, usegmt=True)}


def weak_and_dated(n):
    return {"Last-Modified": formatdate(1700000000 + n, usegmt=True), "ETag": 'W/"x"'}


@pytest.mark.parametrize("headers", [dated, weak_and_dated])
def test_a_web_source_with_a_date_that_changes_in_mid_copy_is_an_error(run_leat, server, tmp_path, headers):
    first, second = some_bytes(6 * PART, seed=1), some_bytes(6 * PART, seed=2)
    Versions(server, "bucket/big", first, second, headers, switch=3)
    done = run_leat("cp", "--part-size", PART, server.url + "/bucket/big", tmp_path / "to", status=6)
    last_line(done, "changed")
    assert not (tmp_path / "to").exists()
    gets = [r for r in server.of("GET") if r.range]
    assert all("if-unmodified-since" in r.headers for r in gets)


def test_a_web_source_with_a_date_goes_in_parts_and_is_continued_where_it_broke(run_leat, server, tmp_path):
    data = some_bytes(3 * PART)
    Versions(server, "bucket/big", data, data, dated, switch=100)

    def cut(exchange):
        exchange.server.etag = lambda key: ""
        code, proper, body = exchange.object_part()
        exchange.head(code, {**proper, **dated(1), "ETag": 'W/"x"', "Content-Length": len(body)})
        exchange.send(body[:50_000])
        exchange.close()

    server.faults.insert(0, server.faults.pop())
    server.fault(cut, method="GET", times=1)
    server.faults.insert(0, server.faults.pop())
    run_leat("cp", "--part-size", PART, server.url + "/bucket/big", tmp_path / "to", status=0)
    assert (tmp_path / "to").read_bytes() == data
    assert any(r.range[0] % PART == 50_000 for r in server.of("GET"))


def test_a_web_source_without_any_version_is_read_in_one_piece(run_leat, server, tmp_path):
    first, second = some_bytes(4 * PART, seed=1), some_bytes(4 * PART, seed=2)
    Versions(server, "bucket/big", first, second, lambda n: {}, switch=1)
    run_leat("cp", "--part-size", PART, server.url + "/bucket/big", tmp_path / "to", status=0)
    assert (tmp_path / "to").read_bytes() in (first, second)
    server.requests.clear()
    done = run_leat("cat", server.url + "/bucket/big", text=False, status=0)
    assert done.stdout in (first, second)
    assert server.count("GET") == 1


def test_a_web_source_without_any_version_that_is_too_long_for_one_piece_is_refused(run_leat, server, tmp_path):
    server.fault(lambda exchange: exchange.answer(200, b"", {"Content-Length": 1 << 30}))
    for command in (["cat"], ["cp"]):
        to = [] if command == ["cat"] else [tmp_path / "to"]
        done = run_leat(*command, server.url + "/bucket/big", *to, status=2)
        last_line(done, "version", "one piece")


# Checksums that the server states.


def flipped(times=None, kind=None):
    """One bit of the body is another, under the right head."""

    def act(exchange):
        code, headers, body = exchange.object_part()
        if kind:
            whole = exchange.server.objects[exchange.request.key]
            headers = {**headers, "ETag": '"opaque-1"', **stated(kind, whole)}
        damaged = bytes([body[0] ^ 1]) + body[1:] if body else body
        exchange.answer(code, damaged, headers)

    return act


def crc64nvme(data):
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x9A6C9329AC4BC9B5 if value & 1 else 0)
        table.append(value)
    crc = (1 << 64) - 1
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ (1 << 64) - 1


def stated(kind, data):
    value = {
        "crc32": lambda: zlib.crc32(data).to_bytes(4, "big"),
        "crc64nvme": lambda: crc64nvme(data).to_bytes(8, "big"),
        "sha1": lambda: hashlib.sha1(data).digest(),
        "sha256": lambda: hashlib.sha256(data).digest(),
    }[kind]()
    return {"x-amz-checksum-" + kind: base64.b64encode(value).decode()}


def stating(kind):
    """A proper answer with a checksum and an ETag that is none."""

    def act(exchange):
        code, headers, body = exchange.object_part()
        whole = exchange.server.objects[exchange.request.key]
        exchange.answer(code, body, {**headers, "ETag": '"opaque-1"', **stated(kind, whole)})

    return act


@pytest.mark.parametrize("kind", [None, "crc32", "crc64nvme", "sha1", "sha256"])
@pytest.mark.parametrize("command", ["cat", "cp"])
def test_a_flipped_bit_is_fetched_again_and_then_an_error(run_leat, server, tmp_path, kind, command):
    server.objects["bucket/key"] = some_bytes(5000)
    to = [] if command == "cat" else [tmp_path / "to"]
    if kind:
        server.fault(stating(kind), method="HEAD")
        server.tags["bucket/key"] = '"opaque-1"'
    server.fault(flipped(kind=kind), method="GET", times=1)
    done = run_leat(command, "s3://bucket/key", *to, env=server.env(), text=False, status=0)
    data = done.stdout if command == "cat" else (tmp_path / "to").read_bytes()
    assert data == server.objects["bucket/key"]
    assert server.of("GET")[0].headers["x-amz-checksum-mode"] == "ENABLED"
    server.fault(flipped(kind=kind), method="GET")
    before = server.count("GET")
    done = run_leat(command, "s3://bucket/key", *to, env=server.env(), status=6)
    assert done.stdout == ""
    last_line(done, "s3://bucket/key", "checksum", kind or "md5")
    assert server.count("GET") == before + 3


@pytest.mark.parametrize("command", ["cat", "cp"])
@pytest.mark.parametrize(("kind", "tag"), [("crc32", '"opaque-1"'), ("sha256", None)])
def test_a_checksum_that_only_head_states_is_compared_too(run_leat, server, tmp_path, kind, command, tag):
    server.objects["bucket/key"] = some_bytes(5000)
    server.tags["bucket/key"] = tag or '"' + hashlib.md5(server.objects["bucket/key"]).hexdigest() + '"'
    of = [b"other bytes"]

    def head(exchange):
        code, headers, body = exchange.object_part()
        exchange.answer(code, body, {**headers, **stated(kind, of[0])})

    server.fault(head, method="HEAD")
    to = [] if command == "cat" else [tmp_path / "to"]
    done = run_leat(command, "s3://bucket/key", *to, env=server.env(), text=False, status=6)
    last_line(done, "s3://bucket/key", "checksum", kind)
    assert done.stdout == b""
    assert leftovers(tmp_path) == []
    of[0] = server.objects["bucket/key"]
    run_leat(command, "s3://bucket/key", *to, env=server.env(), text=False, status=0)


def twice(name, *values):
    """Proper answers, but for a header that is there twice; None: what is proper."""

    def act(exchange):
        code, headers, body = exchange.object_part()
        both = {name: values[0], name.lower(): values[1]}
        proper = {"Content-Length": len(body), **headers}[name]
        headers = {k: v for k, v in headers.items() if k != name}
        headers |= {k: proper if v is None else v for k, v in both.items()}
        headers = {"Content-Length": len(body), **headers} if name != "Content-Length" else headers
        exchange.head(code, headers)
        if exchange.request.method != "HEAD":
            exchange.send(body)
        exchange.close()

    return act


@pytest.mark.parametrize("values", [(None, 100), (100, None)])
@pytest.mark.parametrize("name", ["Content-Length", "ETag"])
@pytest.mark.parametrize("scheme", ["s3", "http"])
def test_an_answer_that_contradicts_itself_is_refused(run_leat, server, tmp_path, scheme, name, values):
    if name == "ETag":
        values = tuple(v and '"another"' for v in values)
    server.fault(twice(name, *values), key="bucket/key")
    url = "s3://bucket/key" if scheme == "s3" else f"{server.url}/bucket/key"
    done = run_leat("cp", "--attempts", 2, url, tmp_path / "to", env=server.env(), status=5)
    last_line(done, "key", f"two {name} headers that differ")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    "edit",
    [
        {"x-amz-server-side-encryption": "aws:kms"},
        {"x-amz-server-side-encryption-customer-algorithm": "AES256"},
        {"x-amz-checksum-crc32": "AAAAAA==-2", "ETag": '"0123456789abcdef0123456789abcdef-2"'},
    ],
)
def test_what_is_no_checksum_of_the_whole_is_not_taken_for_one(run_leat, server, edit):
    server.tags["bucket/key"] = edit.get("ETag", '"' + "0123456789abcdef" * 2 + '"')

    def tell(exchange):
        code, headers, body = exchange.object_part()
        exchange.answer(code, body, {**headers, **edit})

    server.fault(tell)
    done = run_leat("cat", "s3://bucket/key", env=server.env(), text=False, status=0)
    assert done.stdout == server.objects["bucket/key"]


@pytest.mark.parametrize("kind", [None, "crc32"])
def test_a_flipped_bit_in_an_object_of_many_parts_is_noticed(run_leat, server, tmp_path, kind):
    data = server.objects["bucket/key"] = some_bytes(20 * MIB + 17)
    if kind:
        server.fault(stating(kind), match=lambda r: True)
    run_leat("cp", "--part-size", PART, "s3://bucket/key", tmp_path / "to", env=server.env(), status=0)
    assert (tmp_path / "to").read_bytes() == data
    assert run_leat("cat", "s3://bucket/key", env=server.env(), text=False, status=0).stdout == data
    server.fault(flipped(kind=kind), method="GET", match=lambda r: r.range and r.range[0] > 0)
    server.faults.insert(0, server.faults.pop())
    done = run_leat("cat", "s3://bucket/key", env=server.env(), text=False, status=6)
    last_line(done, "checksum", kind or "md5")
    if kind:  # parts that come in any order are put together by their CRCs; an MD5 cannot be
        done = run_leat("cp", "--part-size", PART, "s3://bucket/key", tmp_path / "two", env=server.env(), status=6)
        last_line(done, "checksum", kind)
        assert not (tmp_path / "two").exists()
        assert leftovers(tmp_path) == []


@pytest.mark.parametrize("size", [1000, 2 * PART])
def test_an_upload_that_the_server_stored_otherwise_is_sent_again_and_then_an_error(run_leat, server, tmp_path, size):
    (tmp_path / "from").write_bytes(some_bytes(size))

    def damage(exchange):
        body = exchange.request.body
        exchange.request.body = bytes([body[0] ^ 1]) + body[1:]
        exchange.server.proper(exchange)

    server.fault(damage, method="PUT", times=1)
    args = ["cp", "--part-size", PART, tmp_path / "from", "s3://bucket/to"]
    run_leat(*args, env=server.env(), status=0)
    assert server.objects["bucket/to"] == (tmp_path / "from").read_bytes()
    server.fault(damage, method="PUT")
    done = run_leat(*args, env=server.env(), status=6)
    last_line(done, "s3://bucket/to", "did not store the bytes that were sent")


# A part file that was cut.


@pytest.mark.parametrize("harm", ["cut", "holed", "none"])
def test_a_resume_does_not_believe_a_part_file_that_was_cut(run_leat, leat_bin, clean_env, server, shm_path, harm):
    data = server.objects["bucket/big"] = some_bytes(6 * PART)
    env = {**clean_env, **server.env()}
    to = shm_path / "to"
    server.fault(black_hole, method="GET", after=3)
    env["XDG_STATE_HOME"] = str(shm_path / "state")

    def journals():
        return sum(len(p.read_bytes().splitlines()) for p in shm_path.rglob("copy-*.jsonl"))

    with started(
        leat_bin, env, "cp", "--part-size", PART, "--connections", 2, "s3://bucket/big", to, stdout=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: journals() > 3, "three parts to arrive")
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    (part,) = leftovers(shm_path)
    if harm == "cut":
        with open(part, "r+b") as f:
            f.truncate(PART + 5)
    elif harm == "holed":
        with open(part, "r+b") as f:
            f.seek(1000)
            f.write(bytes(100))
    server.faults.clear()
    server.requests.clear()
    env = {**server.env(), "XDG_STATE_HOME": shm_path / "state"}
    run_leat("cp", "--part-size", PART, "--resume", "s3://bucket/big", to, env=env, status=0)
    assert to.read_bytes() == data
    assert server.count("GET") == (3 if harm == "none" else 6)
    assert leftovers(shm_path) == []


# Outages.


@pytest.mark.long
def test_a_bucket_that_is_away_longer_than_ten_attempts_last_is_waited_for(run_leat, server):
    back = time.monotonic() + 30
    server.fault(status(500, "InternalError"), match=lambda r: r.method == "GET" and time.monotonic() < back)
    done = run_leat("cat", "s3://bucket/key", env=server.env(), text=False, status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert done.stderr == b""
    assert server.count("GET") > 6


@pytest.mark.long
def test_a_server_that_goes_away_and_comes_back_is_waited_for(run_leat, leat_bin, clean_env, tmp_path, faulty):
    first = faulty()
    data = first.objects["bucket/big"] = some_bytes(8 * PART)
    first.fault(black_hole, method="GET", after=2)
    args = ["cp", "--part-size", PART, "--connections", 2, "--inactivity", "1s", "s3://bucket/big", tmp_path / "to"]
    with started(leat_bin, {**clean_env, **first.env()}, *args, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: first.count("GET") > 3, "the copy to begin")
        first.stop()
        time.sleep(20)
        second = FaultyServer(port=first.port)
        second.objects["bucket/big"] = data
        try:
            process.wait(120)
        finally:
            second.stop()
        assert process.returncode == 0, process.stderr.read()
    assert (tmp_path / "to").read_bytes() == data


def test_progress_resets_the_count_of_attempts(run_leat, server):
    server.fault(truncated(10_000), method="GET", times=15)
    done = run_leat("cat", "--attempts", 3, "s3://bucket/key", env=server.env(), text=False, status=0)
    assert done.stdout == server.objects["bucket/key"]
    assert server.count("GET") == 16


def test_an_answer_that_never_fits_ends_after_ten_attempts(run_leat, server):
    server.fault(status(200, "InternalError"), method="GET")
    done = run_leat("cat", "s3://bucket/key", env=server.env(), status=5)
    last_line(done, "10 attempts")


def test_a_pause_that_is_asked_for_as_a_date_is_kept(run_leat, server):
    server.clock_offset = 5000  # the server's clock counts, not ours

    def wait(exchange):
        until = formatdate(exchange.server.now() + 3, usegmt=True)
        exchange.error(503, "SlowDown", headers={"Retry-After": until})

    server.fault(wait, times=1, method="GET")
    run_leat("cat", "s3://bucket/key", env=server.env(), status=0)
    first, second = server.of("GET")
    assert 2 <= second.at - first.at < 15


# Redirects, and lists of slightly different servers.


@pytest.mark.parametrize(
    "where", ["http://127.0.0.1:9/there?X-Amz-Signature=5ecret", "http://me:5ecret@127.0.0.1:9/there"]
)
def test_the_address_of_a_redirect_is_shown_without_its_secret(run_leat, server, where):
    server.fault(status(302, headers={"Location": where}))
    done = run_leat("cat", server.url + "/bucket/key", status=2)
    last_line(done, "another address")
    assert "5ecret" not in done.stderr


def test_etags_without_quotes_in_a_list_are_taken(run_leat, server, tmp_path):
    bare = server.etag("bucket/key").strip('"')
    text = f"<ListBucketResult><Contents><Key>key</Key><Size>{len(server.objects['bucket/key'])}</Size>"
    text += f"<LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>{bare}</ETag></Contents></ListBucketResult>"
    server.fault(lambda exchange: exchange.answer(200, text.encode()), match=lambda r: "list-type" in r.query)
    run_leat("cp", "-r", "s3://bucket/", tmp_path / "to", env=server.env(), status=0)
    assert (tmp_path / "to" / "key").read_bytes() == server.objects["bucket/key"]
    assert (
        json.loads(run_leat("ls", "--json", "s3://bucket/", env=server.env(), status=0).stdout)["etag"] == f'"{bare}"'
    )


def test_another_name_for_the_answer_that_begins_an_upload_is_taken(run_leat, server, tmp_path):
    def rename(exchange):
        send = exchange.send
        exchange.send = lambda data: send(
            data.replace(b"InitiateMultipartUploadResult", b"CreateMultipartUploadOutput__")
        )
        exchange.server.proper(exchange)

    (tmp_path / "from").write_bytes(some_bytes(2 * PART))
    server.fault(rename, method="POST", match=lambda r: "uploads" in r.query)
    run_leat("cp", "--part-size", PART, tmp_path / "from", "s3://bucket/to", env=server.env(), status=0)
    assert server.objects["bucket/to"] == (tmp_path / "from").read_bytes()


def test_a_lost_answer_to_the_last_call_is_found_out_where_etags_are_no_md5s(run_leat, server, tmp_path):
    (tmp_path / "from").write_bytes(some_bytes(2 * PART))

    def opaque_part(exchange):
        send = exchange.send
        exchange.send = lambda data: send(re.sub(rb"ETag: [^\r]*", b'ETag: "part-of-it"', data))  # and no more
        exchange.server.proper(exchange)

    def lose(exchange):
        send = exchange.send
        exchange.send = lambda data: None
        exchange.server.proper(exchange)
        exchange.server.tags[exchange.request.key] = '"opaque"'
        exchange.send = send
        exchange.reset()

    server.fault(opaque_part, method="PUT")
    server.fault(lose, method="POST", match=lambda r: "uploadId" in r.query, times=1)
    run_leat("cp", "--part-size", PART, tmp_path / "from", "s3://bucket/to", env=server.env(), status=0)
    assert server.objects["bucket/to"] == (tmp_path / "from").read_bytes()


def test_a_list_whose_tokens_go_round_ends(run_leat, server):
    def page(exchange):
        token = exchange.request.query.get("continuation-token", "a")
        after = {"a": "b", "b": "c", "c": "a"}[token]
        text = (
            f"<ListBucketResult><Contents><Key>k{token}</Key><Size>1</Size></Contents><IsTruncated>true</IsTruncated>"
        )
        text += f"<NextContinuationToken>{after}</NextContinuationToken></ListBucketResult>"
        exchange.answer(200, text.encode())

    server.fault(page)
    done = run_leat("ls", "-r", "s3://bucket", env=server.env(), status=5, timeout=60)
    last_line(done, "repeats itself")
