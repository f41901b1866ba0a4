"""Headers that were asked for: who pays, encryption, others. Which requests carry them, and where secrets do not go."""

import base64
import hashlib

import boto3
import pytest
from botocore.config import Config
from command_tools import one_line
from loading import make_blobs, pack

KEY = bytes(range(100, 132))
TEXT = base64.b64encode(KEY).decode()
MD5 = base64.b64encode(hashlib.md5(KEY).digest()).decode()
OWN = "x-amz-server-side-encryption-customer-"


@pytest.fixture
def server(faulty):
    s = faulty()
    s.objects["bucket/key"] = b"hello"
    return s


def sent(request, *names):
    return {name: request.headers.get(name) for name in names}


def extras(request):
    skip = ("x-amz-date", "x-amz-content-sha256", "x-amz-checksum-", "x-amz-copy-source", "x-amz-sdk")
    found = {n: v for n, v in request.headers.items() if n.startswith("x-amz-")}
    return {n: v for n, v in found.items() if not n.startswith(skip) and n != "x-amz-user-agent"}


def boto(server):
    return boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test-secret",
        config=Config(
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def is_signed(request, name):
    signed = request.headers["authorization"].partition("SignedHeaders=")[2].split(",")[0]
    return name in signed.split(";")


def test_who_pays_is_said_with_every_request(run_leat, server, tmp_path):
    env = server.env()
    run_leat("cat", "--requester-pays", "s3://bucket/key", env=env, status=0)
    run_leat("ls", "s3://bucket/", env={**env, "LEAT_REQUESTER_PAYS": "1"}, status=0)
    assert len(server.requests) >= 3
    for request in server.requests:
        assert request.headers["x-amz-request-payer"] == "requester"
        assert is_signed(request, "x-amz-request-payer")
    before = len(server.requests)
    run_leat("cat", "s3://bucket/key", env=env, status=0)
    assert all("x-amz-request-payer" not in r.headers for r in server.requests[before:])


def test_encryption_is_asked_for_as_boto3_asks(run_leat, server, tmp_path):
    (tmp_path / "small").write_bytes(b"x")
    (tmp_path / "large").write_bytes(b"x" * (6 << 20))
    s3 = boto(server)
    kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/mine"}
    own = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": KEY}
    for options, arguments in (
        (["--sse", "aws:kms", "--sse-kms-key", "alias/mine"], kms),
        (["--sse-c-key-file", tmp_path / "key"], own),
    ):
        (tmp_path / "key").write_bytes(KEY)
        server.requests.clear()
        run_leat("cp", *options, tmp_path / "small", "s3://bucket/small", env=server.env(), status=0)
        run_leat(
            "cp", *options, "--part-size", "5MiB", tmp_path / "large", "s3://bucket/large", env=server.env(), status=0
        )
        ours = {(r.method, tuple(sorted(r.query))): extras(r) for r in server.requests}
        server.requests.clear()
        s3.put_object(Bucket="bucket", Key="small", Body=b"x", **arguments)
        upload = s3.create_multipart_upload(Bucket="bucket", Key="large", **arguments)["UploadId"]
        parts = own if arguments is own else {}
        s3.upload_part(Bucket="bucket", Key="large", UploadId=upload, PartNumber=1, Body=b"x", **parts)
        theirs = {(r.method, tuple(sorted(r.query))): extras(r) for r in server.requests}
        for which, headers in theirs.items():
            assert ours[which] == headers, which
        assert len(theirs) == 3


def test_a_key_of_ones_own_goes_with_reads_and_nowhere_else(run_leat, server):
    env = {**server.env(), "LEAT_SSE_C_KEY": TEXT}
    run_leat("cat", "s3://bucket/key", env=env, status=0)
    run_leat("ls", "s3://bucket/", env=env, status=0)
    run_leat("rm", "s3://bucket/key", env=env, status=0)
    for request in server.requests:
        reads = request.method in ("GET", "HEAD") and "list-type" not in request.query
        expected = {OWN + "algorithm": "AES256", OWN + "key": TEXT, OWN + "key-md5": MD5} if reads else {}
        assert extras(request) == expected


@pytest.mark.parametrize(
    ("args", "env", "words"),
    [
        (["--sse", "rot13"], {}, ["rot13", "AES256"]),
        (["--sse-kms-key", "x"], {}, ["--sse aws:kms"]),
        (["--sse", "AES256"], {"LEAT_SSE_C_KEY": TEXT}, ["exclude"]),
        ([], {"LEAT_SSE_C_KEY": TEXT[:-4]}, ["LEAT_SSE_C_KEY", "32 bytes"]),
        (["--sse-c-key-file", "/nonexistent"], {}, ["/nonexistent"]),
        (["--header", "no colon s3same"], {}, ["NAME: VALUE"]),
        (["--header", "x: s3same\nHost: other"], {}, ["NAME: VALUE"]),
        (["--header", "Host: s3same"], {}, ["Host", "Leat makes it"]),
        (["--header", "AUTHORIZATION: s3same"], {}, ["Leat makes it"]),
    ],
)
def test_what_cannot_be_sent_is_refused_without_showing_it(run_leat, server, args, env, words):
    done = run_leat(
        "cat",
        *args,
        "s3://bucket/key",
        env={**server.env(), **env},
        status=2 if args[:1] != ["--sse-c-key-file"] else 3,
    )
    one_line(done, *words)
    assert "s3same" not in done.stderr
    assert TEXT[:20] not in done.stderr
    assert server.requests == []


def test_a_key_does_not_go_over_a_plain_line_to_another_machine(run_leat):
    env = {"AWS_ENDPOINT_URL": "http://storage.example:9000", "LEAT_SSE_C_KEY": TEXT}
    done = run_leat("cat", "s3://bucket/key", env=env)
    assert done.returncode not in (0, 5)
    assert "TLS" in done.stderr or "https" in done.stderr


def test_other_headers_are_sent_and_signed(run_leat, server):
    run_leat(
        "cat", "--header", "X-Team: blue", "--header", "x-amz-thing: 1", "s3://bucket/key", env=server.env(), status=0
    )
    for request in server.requests:
        assert request.headers["x-team"] == "blue"
        assert is_signed(request, "x-amz-thing")
        assert is_signed(request, "x-team")


def test_other_kinds_of_stores_refuse_what_they_do_not_know(run_leat, server):
    done = run_leat("cat", "--requester-pays", f"{server.url}/bucket/key", status=2)
    one_line(done, "s3:// only")


def test_a_loaders_agent_sends_them_too(lt, runtime, faulty, leat_bin, tmp_path, monkeypatch):
    known = make_blobs(tmp_path / "files", 12, sizes=(500, 900))
    packed = pack(leat_bin, tmp_path / "files", tmp_path / "ds", known=known)
    server = faulty()
    for path in packed.path.rglob("*"):
        if path.is_file():
            server.objects[f"bucket/ds/{path.relative_to(packed.path)}"] = path.read_bytes()
    for name, value in {**server.env(), "LEAT_SSE_C_KEY": TEXT, "LEAT_REQUESTER_PAYS": "1"}.items():
        monkeypatch.setenv(name, value)
    with lt.Loader("s3://bucket/ds", batch_size=4, fields={"k": lt.key()}) as loader:
        assert sum(len(batch[0]) for batch in loader) == 12
    chunks = [r for r in server.requests if "/chunks/" in r.key]
    assert chunks
    for request in chunks:
        assert request.headers[OWN + "key-md5"] == MD5
        assert request.headers["x-amz-request-payer"] == "requester"
