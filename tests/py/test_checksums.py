"""Checksums that go with what is written, and those of objects that were put in parts: against servers that compare them
as S3, Google and Azure document it, with a proxy between that flips a bit."""

import base64
import hashlib
import json
import re
import zlib

import pytest
from command_tools import MIB, one_line, some_bytes
from faulty_server import FaultyServer
from flipping_proxy import FlippingProxy, always
from places import Place
from sums import crc32c

pytestmark = pytest.mark.every_case

PART = 5 * MIB
long = pytest.mark.long  # cases that reach no other code than those beside them


def b64(data):
    return base64.b64encode(data).decode()


DIGESTS = {
    "crc32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "crc32c": lambda data: crc32c(data).to_bytes(4, "big"),
    "sha1": lambda data: hashlib.sha1(data).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
}


class SummingServer(FaultyServer):
    """S3 as it is documented for checksums, with ETags that say nothing (as with KMS keys): without these checksums
    nothing would be compared. `whole`: it knows x-amz-checksum-type; else the checksum is made of the parts'."""

    whole = True
    refuses = None  # (status, code) for whatever carries a checksum
    sized = True  # it answers partNumber

    def __init__(self, **more):
        super().__init__(**more)
        self.sums = {}  # key: (kind, text)
        self.sizes = {}  # key: lengths of the parts
        self.begun = {}

    def put_in_parts(self, key, parts, kind):
        """As another client would have left it."""
        digests = [DIGESTS[kind](p) for p in parts]
        self.objects[key] = b"".join(parts)
        self.tags[key] = f'"opaque-{len(parts)}"'
        self.sums[key] = kind, f"{b64(DIGESTS[kind](b''.join(digests)))}-{len(parts)}"
        self.sizes[key] = [len(p) for p in parts]

    def proper(self, exchange):
        r = exchange.request
        stated = r.headers.get("x-amz-checksum-crc32c")
        if self.refuses and any(name.startswith("x-amz-checksum-") for name in r.headers if "mode" not in name):
            exchange.error(*self.refuses)
        elif r.method == "POST" and "uploads" in r.query:
            self.create(exchange)
        elif r.method == "POST":
            self.complete(exchange)
        elif r.method == "PUT" and stated and stated != b64(DIGESTS["crc32c"](r.body)):
            exchange.error(400, "BadDigest", "The CRC32C you specified did not match.")
        elif r.method == "PUT" and "uploadId" in r.query:
            if self.begun.get(r.query["uploadId"]) and not stated:
                exchange.error(400, "BadRequest", "The upload was created using the crc32c checksum.")
                return
            self.uploads[r.query["uploadId"]][int(r.query["partNumber"])] = r.body
            exchange.answer(200, headers={"ETag": '"opaque"', "x-amz-checksum-crc32c": stated})
        elif r.method == "PUT":
            self.objects[r.key] = r.body
            self.tags[r.key] = '"opaque"'
            self.sums[r.key] = "crc32c", stated
            exchange.answer(200, headers={"ETag": '"opaque"', "x-amz-checksum-crc32c": stated})
        elif r.method in ("GET", "HEAD") and r.key in self.objects and "list-type" not in r.query:
            self.read(exchange)
        else:
            super().proper(exchange)

    def create(self, exchange):
        upload = f"upload-{len(self.requests)}"
        algorithm = exchange.request.headers.get("x-amz-checksum-algorithm")
        self.uploads[upload], self.begun[upload] = {}, algorithm
        more = {"x-amz-checksum-algorithm": algorithm}
        if self.whole and algorithm:
            more["x-amz-checksum-type"] = exchange.request.headers["x-amz-checksum-type"]
        text = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
        exchange.answer(200, text.encode(), more)

    def complete(self, exchange):
        r = exchange.request
        parts = self.uploads[r.query["uploadId"]]
        parts = [parts[n] for n in sorted(parts)]
        said = re.findall(rb"<ChecksumCRC32C>([^<]*)</ChecksumCRC32C>", r.body)
        if self.begun[r.query["uploadId"]] and said != [b64(DIGESTS["crc32c"](p)).encode() for p in parts]:
            exchange.error(400, "InvalidPart", "One or more of the specified parts could not be found.")
            return
        of_whole = b64(DIGESTS["crc32c"](b"".join(parts)))
        stated = r.headers.get("x-amz-checksum-crc32c")
        if stated and (not self.whole or stated != of_whole):
            exchange.error(400, "BadDigest", "The CRC32C you specified did not match the calculated checksum.")
            return
        self.put_in_parts(r.key, parts, "crc32c")
        if self.whole:
            self.sums[r.key] = "crc32c", of_whole
        more = f"<ChecksumCRC32C>{self.sums[r.key][1]}</ChecksumCRC32C>"
        text = f"<CompleteMultipartUploadResult><ETag>{self.tags[r.key]}</ETag>{more}</CompleteMultipartUploadResult>"
        exchange.answer(200, text.encode())

    def read(self, exchange):
        r = exchange.request
        part = int(r.query.get("partNumber", 0)) if self.sized else 0
        if part:
            first = sum(self.sizes[r.key][: part - 1])
            r.headers["range"] = f"bytes={first}-{first + self.sizes[r.key][part - 1] - 1}"
        code, headers, body = exchange.object_part()
        if part and r.method == "HEAD":
            first, last = r.range
            total = len(self.objects[r.key])
            exchange.answer(
                206,
                b"",
                {
                    **headers,
                    "Content-Range": f"bytes {first}-{last}/{total}",
                    "Content-Length": last - first + 1,
                    "x-amz-mp-parts-count": 9,
                },
            )
            return
        if "x-amz-checksum-mode" in r.headers and r.key in self.sums and self.sums[r.key][1]:
            kind, text = self.sums[r.key]
            headers[f"x-amz-checksum-{kind}"] = text
        exchange.answer(code, body, headers)


@pytest.fixture
def summing():
    servers = []

    def start(**settings):
        server = SummingServer()
        for name, value in settings.items():
            setattr(server, name, value)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


# What says where the bucket of each kind is.
ENDPOINTS = {"s3": "AWS_ENDPOINT_URL", "gs": "STORAGE_EMULATOR_HOST", "az": "AZURE_STORAGE_ENDPOINT"}


@pytest.fixture(params=["s3", "s3 of parts", "serve", "gs", "az"])
def flipping(request, serve, summing, tmp_path):
    """(proxy, url, environment, read(key)) of each kind of bucket behind a proxy."""
    if request.param in ("s3", "s3 of parts"):
        server, kind, url = summing(whole=request.param == "s3"), "s3", "s3://bucket"
        env = server.env()

        def read(key):
            return server.objects["bucket/" + key]
    else:
        kind = {"serve": "s3"}.get(request.param, request.param)
        place = Place(kind, tmp_path / "served", serve)
        server, url, env, read = place.server, place.url, place.env, place.read
    direct = f"http://127.0.0.1:{server.port}"
    with FlippingProxy(direct.removeprefix("http://")) as proxy:
        variable = ENDPOINTS[kind]
        yield proxy, url, {**env, variable: env[variable].replace(direct, proxy.url)}, read


@pytest.mark.parametrize("size", [3000, 2 * PART + 17])
def test_a_bit_that_flips_on_the_way_up_is_sent_again_and_then_an_error(flipping, run_leat, tmp_path, size):
    proxy, url, env, read = flipping
    data = some_bytes(size)
    (tmp_path / "from").write_bytes(data)
    proxy.up = 1
    run_leat("cp", "--part-size", PART, tmp_path / "from", f"{url}/to", env=env, status=0)
    assert proxy.flipped_up == 1
    assert read("to") == data
    proxy.up = always
    done = run_leat("cp", "--part-size", PART, "--connections", 1, tmp_path / "from", f"{url}/two", env=env, status=6)
    one_line(done, f"{url}/two")
    assert 4 <= proxy.flipped_up <= 1 + 3 * (1 if size < PART else 3), "three times each part that was on its way"
    with pytest.raises((KeyError, FileNotFoundError)):
        read("two")


@pytest.mark.parametrize("command", ["cat", "cp"])
def test_a_bit_that_flips_on_the_way_down_is_fetched_again_and_then_an_error(flipping, run_leat, tmp_path, command):
    proxy, url, env, _ = flipping
    data = some_bytes(50_000)
    (tmp_path / "from").write_bytes(data)
    run_leat("cp", tmp_path / "from", f"{url}/key", env=env, status=0)
    to = [] if command == "cat" else [tmp_path / "back"]
    proxy.down = 1
    done = run_leat(command, f"{url}/key", *to, env=env, status=0, text=False)
    assert proxy.flipped_down == 1
    assert (done.stdout if command == "cat" else (tmp_path / "back").read_bytes()) == data
    proxy.down = always
    done = run_leat(command, f"{url}/key", *to, env=env, status=6)
    one_line(done, f"{url}/key", "checksum")
    assert proxy.flipped_down == 4


@pytest.mark.parametrize(
    ("whole", "command"),
    [(True, "cat"), (False, "cp"), pytest.param(True, "cp", marks=long), pytest.param(False, "cat", marks=long)],
)
def test_a_bit_of_an_object_that_we_put_in_parts_flips_on_the_way_down(summing, run_leat, tmp_path, command, whole):
    server = summing(whole=whole)
    data = some_bytes(4 * PART + 17)
    (tmp_path / "from").write_bytes(data)
    run_leat("cp", "--part-size", PART, tmp_path / "from", "s3://bucket/key", env=server.env(), status=0)
    assert server.objects["bucket/key"] == data
    to = [] if command == "cat" else [tmp_path / "back"]
    with FlippingProxy(f"{server.host}:{server.port}") as proxy:
        env = {**server.env(), "AWS_ENDPOINT_URL": proxy.url}
        done = run_leat(command, "s3://bucket/key", *to, env=env, status=0, text=False)
        assert (done.stdout if command == "cat" else (tmp_path / "back").read_bytes()) == data
        proxy.down = 1
        done = run_leat(command, "s3://bucket/key", *to, env=env, status=6, text=False)
        assert b"checksum that the server states (crc32c)" in done.stderr.splitlines()[-1]


def test_what_goes_with_writes_is_what_botocore_sends(summing, run_leat, tmp_path):
    import boto3
    from botocore.config import Config

    server = summing()
    data = some_bytes(2 * PART + 17)
    (tmp_path / "small").write_bytes(data[:1000])
    (tmp_path / "large").write_bytes(data)
    sent = {}
    for who in ("leat", "botocore"):
        server.requests.clear()
        if who == "leat":
            for name in ("small", "large"):
                run_leat("cp", "--part-size", PART, tmp_path / name, f"s3://bucket/{name}", env=server.env(), status=0)
        else:
            client = boto3.client(
                "s3",
                endpoint_url=server.url,
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key="test-secret",
                config=Config(s3={"addressing_style": "path"}),
            )
            client.put_object(
                Bucket="bucket",
                Key="small",
                Body=data[:1000],
                ChecksumAlgorithm="CRC32C",
                ChecksumCRC32C=b64(DIGESTS["crc32c"](data[:1000])),
            )
            upload = client.create_multipart_upload(
                Bucket="bucket", Key="large", ChecksumAlgorithm="CRC32C", ChecksumType="FULL_OBJECT"
            )["UploadId"]
            parts = []
            for n, at in enumerate(range(0, len(data), PART), 1):
                part = data[at : at + PART]
                done = client.upload_part(
                    Bucket="bucket",
                    Key="large",
                    UploadId=upload,
                    PartNumber=n,
                    Body=part,
                    ChecksumCRC32C=b64(DIGESTS["crc32c"](part)),
                )
                parts.append({"PartNumber": n, "ETag": done["ETag"], "ChecksumCRC32C": done["ChecksumCRC32C"]})
            client.complete_multipart_upload(
                Bucket="bucket",
                Key="large",
                UploadId=upload,
                MultipartUpload={"Parts": parts},
                ChecksumCRC32C=b64(DIGESTS["crc32c"](data)),
                ChecksumType="FULL_OBJECT",
            )
        rows = []
        for r in server.requests:
            names = {n: v for n, v in r.headers.items() if n.startswith("x-amz-checksum-") and "mode" not in n}
            marks = re.findall(rb"<ChecksumCRC32C>[^<]*", r.body) if r.method == "POST" else []
            rows.append((r.method, r.key, r.query.get("partNumber"), sorted(names.items()), marks))
        sent[who] = sorted((row for row in rows if row[0] != "HEAD"), key=str)
    assert sent["leat"] == sent["botocore"]


@pytest.mark.parametrize("refuses", [(501, "NotImplemented"), (400, "InvalidArgument"), (400, "InvalidRequest")])
def test_a_server_that_refuses_such_checksums_gets_none(summing, run_leat, tmp_path, refuses):
    server = summing(refuses=refuses)
    data = some_bytes(3 * PART)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "large").write_bytes(data)
    (tmp_path / "files" / "small").write_bytes(data[:1000])
    args = ["cp", "-r", "--connections", 1, "--part-size", PART, tmp_path / "files", "s3://bucket/to"]
    run_leat(*args, env=server.env(), status=0)
    assert server.objects["bucket/to/large"] == data
    assert server.objects["bucket/to/small"] == data[:1000]
    refused = [r for r in server.requests if any("x-amz-checksum-" in n and "mode" not in n for n in r.headers)]
    assert len(refused) == 1, "it is asked once"


def test_what_a_server_refuses_for_another_reason_stays_refused(summing, run_leat, tmp_path):
    server = summing()
    server.fault(lambda exchange: exchange.error(400, "InvalidArgument", "No such thing."), method="PUT")
    (tmp_path / "from").write_bytes(b"x" * 1000)
    done = run_leat("cp", tmp_path / "from", "s3://bucket/to", env=server.env())
    assert done.returncode != 0
    one_line(done, "No such thing")
    assert server.count("PUT") == 2


# Objects that others have put in parts.


@pytest.mark.parametrize(
    ("kind", "lengths"),
    [
        ("crc32", [PART]),
        ("crc32", [PART, 100]),
        pytest.param("crc32", [PART, PART, PART, 17], marks=long),
        ("crc32c", [PART, PART, PART]),
        ("sha1", [PART, PART, 17]),
        ("sha256", [PART, 100]),
        pytest.param("sha256", [PART, PART, PART], marks=long),
    ],
)
def test_a_checksum_of_checksums_is_compared(summing, run_leat, tmp_path, kind, lengths):
    server = summing()
    data = some_bytes(sum(lengths))
    cuts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    server.put_in_parts("bucket/key", [data[a:b] for a, b in zip(cuts, cuts[1:])], kind)
    damaged = bytearray(data)
    damaged[len(data) - 5] ^= 1
    commands = {"cat": [], "cp": [tmp_path / "to"]} if kind.startswith("crc") else {"cat": []}
    for command, to in commands.items():
        done = run_leat(command, "s3://bucket/key", *to, env=server.env(), status=0, text=False)
        assert (done.stdout if command == "cat" else (tmp_path / "to").read_bytes()) == data
    server.objects["bucket/key"] = bytes(damaged)
    for command, to in commands.items():
        done = run_leat(command, "s3://bucket/key", *to, env=server.env(), status=6, text=False)
        assert f"({kind})".encode() in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("lengths", [[PART, PART - 5, PART + 5, 17], [PART, 2 * PART, 17], [PART, 17, PART, 17]])
@pytest.mark.parametrize("sized", [True, False])
def test_parts_of_different_lengths_are_not_compared_and_no_error(summing, run_leat, tmp_path, lengths, sized):
    server = summing(sized=sized)
    data = some_bytes(sum(lengths))
    cuts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    server.put_in_parts("bucket/key", [data[a:b] for a, b in zip(cuts, cuts[1:])], "crc32")
    assert run_leat("cat", "s3://bucket/key", env=server.env(), status=0, text=False).stdout == data
    run_leat("cp", "s3://bucket/key", tmp_path / "to", env=server.env(), status=0)
    assert (tmp_path / "to").read_bytes() == data


def test_an_answer_that_says_nothing_does_not_end_the_comparison(summing, run_leat):
    server = summing()
    data = some_bytes(2 * PART)
    server.put_in_parts("bucket/key", [data[:PART], data[PART:]], "crc32")
    server.objects["bucket/key"] = data[:-1] + b"x"
    server.fault(lambda exchange: exchange.answer(429), times=1, match=lambda r: "partNumber" in r.query)
    done = run_leat("cat", "s3://bucket/key", env=server.env(), status=6, text=False)
    assert b"(crc32)" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", ["cat", "cp"])
def test_a_web_server_that_states_a_checksum_of_parts_is_read_all_the_same(summing, run_leat, tmp_path, command):
    class Web(FaultyServer):
        def proper(self, exchange):
            code, headers, body = exchange.object_part()
            exchange.answer(code, body, {**headers, "x-amz-checksum-crc32": "AAAAAA==-2"})

    server = Web()
    server.objects["key"] = b"hello"
    try:
        to = [tmp_path / "to"] if command == "cp" else []
        done = run_leat(command, f"{server.url}/key", *to, status=0)
    finally:
        server.stop()
    assert (done.stdout if command == "cat" else (tmp_path / "to").read_text()) == "hello"


# What goes with an object that comes in parts, through this machine.


def begun(server):
    (r,) = [r for r in server.requests if r.method == "POST" and "uploads" in r.query]
    return r.headers


def test_parts_that_are_the_sources_have_the_attributes_that_were_asked_for(summing, run_leat):
    """They may be smaller than those of this copy: then an object that would go at once goes in parts."""
    server = summing()
    server.put_in_parts("one/key", [some_bytes(PART), some_bytes(MIB)], "crc32")
    args = ["cp", "--through", "--content-type", "a/b", "--metadata", "who=ann", "s3://one/key", "s3://two/key"]
    run_leat(*args, env=server.env(), status=0)
    assert server.objects["two/key"] == server.objects["one/key"]
    assert begun(server)["content-type"] == "a/b"
    assert begun(server)["x-amz-meta-who"] == "ann"


def test_a_large_object_that_the_server_cannot_copy_keeps_what_goes_with_it(summing, run_leat):
    server = summing()
    server.objects["one/key"] = some_bytes(3 * PART)
    server.tags["one/key"] = '"opaque"'
    proper = server.proper

    def answer(exchange):
        r = exchange.request
        if "x-amz-copy-source" in r.headers:
            exchange.error(501, "NotImplemented")
        elif r.method == "HEAD":
            code, headers, body = exchange.object_part()
            exchange.answer(code, body, {**headers, "Content-Type": "a/b", "x-amz-meta-who": "ann"})
        else:
            proper(exchange)

    server.proper = answer
    run_leat("cp", "s3://one/key", "s3://two/key", env=server.env(), status=0)
    assert server.objects["two/key"] == server.objects["one/key"]
    assert begun(server)["content-type"] == "a/b"
    assert begun(server)["x-amz-meta-who"] == "ann"


def test_the_word_of_another_server_for_damaged_data_counts_too(summing, run_leat, tmp_path):
    server = summing()
    server.fault(
        lambda exchange: exchange.error(400, "XAmzContentChecksumMismatch", "as MinIO says it"), times=1, method="PUT"
    )
    (tmp_path / "from").write_bytes(b"x" * 1000)
    run_leat("cp", tmp_path / "from", "s3://bucket/to", env=server.env(), status=0)
    assert server.count("PUT") == 2


# What the source states of the same object when a copy begins and when it is taken up; whether the journal is one of an
# earlier Leat that did not say of which kind its sums are; how many of the two parts that had arrived are moved again; and
# whether one of them was damaged on its way, where nothing notices it.
CHANGES = [
    ("crc32", None, False, 0, False),
    ("crc32", "crc32", False, 0, True),
    ("crc32", "crc32", True, 2, False),
    ("crc32", "crc32c", False, 0, False),  # goes with every part, whatever the source states
    ("crc32c", "crc32", False, 2, False),
    (None, "crc32", False, 2, True),
    (None, "crc32c", True, 0, True),
]


@pytest.mark.parametrize(("first", "then", "older", "again", "damaged"), CHANGES)
def test_a_resume_compares_by_what_the_source_states_now(
    summing, run_leat, tmp_path, first, then, older, again, damaged
):
    server = summing()
    data = some_bytes(3 * PART)
    stated = {None: None}
    for kind in ("crc32", "crc32c"):
        stated[kind] = kind, b64(DIGESTS[kind](data))
    server.objects["one/key"], server.tags["one/key"] = data, '"opaque"'

    def state(kind):
        server.sums.pop("one/key", None)
        if stated[kind]:
            server.sums["one/key"] = stated[kind]

    state(first)
    server.fault(lambda exchange: exchange.error(403, "AccessDenied"), match=lambda r: r.query.get("partNumber") == "3")
    args = ["cp", "--through", "--connections", 1, "--part-size", PART, "s3://one/key", "s3://two/key"]
    env = {**server.env(), "XDG_STATE_HOME": str(tmp_path)}
    if damaged:
        server.objects["one/key"] = b"x" + data[1:]
    run_leat(*args, env=env, status=4)
    server.objects["one/key"] = data
    (journal,) = (tmp_path / "leat").iterdir()
    if older:
        lines = [json.loads(line) for line in journal.read_text().splitlines()]
        lines = [{n: v for n, v in line.items() if n not in ("sum_kind", "by_server")} for line in lines]
        journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sent = server.count("PUT")
    server.faults.clear()
    state(then)
    done = run_leat(*args, "--resume", env=env)
    assert server.count("PUT") == sent + 1 + again
    if damaged and then and not again:
        assert done.returncode == 6
        one_line(done, f"do not have the checksum that the server states ({then})")
        assert "two/key" not in server.objects
        done = run_leat(*args, "--resume", env=env)  # and not so for ever
    assert done.returncode == 0, done.stderr
    if not damaged or then:
        assert server.objects["two/key"] == data
    assert list((tmp_path / "leat").iterdir()) == []


def test_a_server_that_no_longer_takes_the_checksums_of_an_upload_gets_another_one(summing, run_leat, tmp_path):
    server = summing()
    data = some_bytes(3 * PART)
    (tmp_path / "from").write_bytes(data)
    server.fault(lambda exchange: exchange.error(403, "AccessDenied"), match=lambda r: r.query.get("partNumber") == "3")
    args = ["cp", "--connections", 1, "--part-size", PART, "--resume", tmp_path / "from", "s3://bucket/to"]
    env = {**server.env(), "XDG_STATE_HOME": str(tmp_path / "state")}
    run_leat(*args, env=env, status=4)
    server.faults.clear()
    server.refuses = 501, "NotImplemented"
    done = run_leat(*args, env=env, status=2)
    assert "--resume" not in done.stderr
    assert server.uploads == {}, "it was dropped"
    run_leat(*args, env=env, status=0)
    assert server.objects["bucket/to"] == data


def test_an_upload_whose_parts_are_damaged_at_the_server_is_not_taken_up_for_ever(summing, run_leat, tmp_path):
    server = summing()
    data = some_bytes(2 * PART)
    (tmp_path / "from").write_bytes(data)
    args = ["cp", "--part-size", PART, "--resume", tmp_path / "from", "s3://bucket/to"]
    env = {**server.env(), "XDG_STATE_HOME": str(tmp_path / "state")}

    def finishes(r):
        begun = [q.at for q in server.requests if "uploads" in q.query]
        return r.method == "POST" and "uploadId" in r.query and len(begun) == 1

    server.fault(lambda exchange: exchange.error(400, "BadDigest"), match=finishes)
    done = run_leat(*args, env=env, status=6)
    one_line(done, "damaged")
    run_leat(*args, env=env, status=0)
    assert server.objects["bucket/to"] == data


@pytest.mark.parametrize("answer", ["given", "lost"])
def test_a_server_that_makes_something_else_of_the_parts_is_found_out(summing, run_leat, tmp_path, answer):
    server = summing()
    (tmp_path / "from").write_bytes(some_bytes(2 * PART))

    def swap(exchange):
        r = exchange.request
        parts = server.uploads.pop(r.query["uploadId"])
        server.objects[r.key] = parts[2] + parts[1]
        server.tags[r.key] = '"opaque-2"'
        server.modified[r.key] = server.now()
        server.sums[r.key] = "crc32c", b64(DIGESTS["crc32c"](server.objects[r.key]))
        if answer == "lost":
            exchange.reset()
            return
        told = f"<ETag>{server.tags[r.key]}</ETag><ChecksumCRC32C>{server.sums[r.key][1]}</ChecksumCRC32C>"
        exchange.answer(200, f"<CompleteMultipartUploadResult>{told}</CompleteMultipartUploadResult>".encode())

    def forgotten(exchange):
        exchange.error(404, "NoSuchUpload")

    finishes = {"method": "POST", "match": lambda r: "uploadId" in r.query}
    server.fault(swap, times=1, **finishes)
    server.fault(forgotten, **finishes)
    done = run_leat("cp", "--part-size", PART, tmp_path / "from", "s3://bucket/to", env=server.env())
    assert done.returncode != 0
    one_line(done, "made something else of the parts")
