"""Directory buckets (S3 Express): sessions that are begun, used, renewed and refused; botocore beside us."""

import time
from datetime import datetime, timezone

import boto3
import pytest
from botocore.config import Config
from command_tools import one_line
from faulty_server import status

BUCKET = "data--usw2-az1--x-s3"


def keys_xml(number, life_s):
    until = datetime.fromtimestamp(time.time() + life_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        '<?xml version="1.0"?><CreateSessionResult><Credentials>'
        f"<AccessKeyId>SESSION{number}</AccessKeyId><SecretAccessKey>secret{number}</SecretAccessKey>"
        f"<SessionToken>token{number}</SessionToken><Expiration>{until}</Expiration>"
        "</Credentials></CreateSessionResult>"
    ).encode()


class Express:
    """A directory bucket on a faulty server: hands out sessions and remembers who asked."""

    def __init__(self, server, life_s=300):
        self.server = server
        self.life_s = life_s
        self.begun = []
        server.objects[f"{BUCKET}/key"] = b"hello"
        server.fault(self.begin, method="GET", match=lambda r: "session" in r.query)

    def begin(self, exchange):
        self.begun.append(exchange.request)
        exchange.answer(200, keys_xml(len(self.begun), self.life_s), {"Content-Type": "application/xml"})

    @property
    def env(self):
        return {**self.server.env("us-west-2"), "AWS_SESSION_TOKEN": "base-token"}

    @property
    def others(self):
        return [r for r in self.server.requests if "session" not in r.query]


@pytest.fixture
def express(faulty):
    return Express(faulty())


def scope(request):
    return request.headers["authorization"].partition("Credential=")[2].split(",")[0]


def signed(request):
    return request.headers["authorization"].partition("SignedHeaders=")[2].split(",")[0].split(";")


def test_requests_are_signed_with_a_session_as_botocore_signs(run_leat, express, tmp_path):
    (tmp_path / "file").write_bytes(b"some bytes")
    assert run_leat("cat", f"s3://{BUCKET}/key", env=express.env, status=0).stdout == "hello"
    run_leat("cp", tmp_path / "file", f"s3://{BUCKET}/new", env=express.env, status=0)
    ours_begun, ours = express.begun[0], next(r for r in express.others if r.method == "GET")
    client = boto3.client(
        "s3",
        endpoint_url=express.server.url,
        region_name="us-west-2",
        aws_access_key_id="test",
        aws_secret_access_key="test-secret",
        aws_session_token="base-token",
        config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
    )
    seen = len(express.server.requests)
    client.get_object(Bucket=BUCKET, Key="key")["Body"].read()
    theirs_begun = express.begun[-1]
    theirs = next(r for r in express.server.requests[seen:] if "session" not in r.query)
    for a, b in ((ours_begun, theirs_begun), (ours, theirs)):
        assert scope(a).split("/")[2:] == scope(b).split("/")[2:] == ["us-west-2", "s3express", "aws4_request"]
        assert a.key == b.key
        assert [h for h in signed(b) if "token" in h] == [h for h in signed(a) if "token" in h]
    assert ours_begun.headers["x-amz-security-token"] == theirs_begun.headers["x-amz-security-token"] == "base-token"
    assert ours.headers["x-amz-s3session-token"].startswith("token")
    assert "x-amz-security-token" not in ours.headers
    assert scope(ours).startswith("SESSION1/")


def test_a_session_is_begun_once_and_renewed_before_it_ends(run_leat, express):
    express.life_s = 4
    for i in range(20):
        express.server.objects[f"{BUCKET}/many/{i}"] = b"x" * 100
    slow = lambda exchange: (time.sleep(0.3), exchange.server.proper(exchange))  # noqa: E731
    express.server.fault(slow, method="GET", match=lambda r: "/many/" in r.key)
    done = run_leat("cat", *[f"s3://{BUCKET}/many/{i}" for i in range(20)], "--connections", "1", env=express.env)
    assert done.returncode == 0, done.stderr
    used = {scope(r).split("/")[0] for r in express.others}
    assert len(used) >= 3, "six seconds or more, renewed after two"
    assert len(express.begun) <= len(used) + 1, "begun once for each"


def test_a_session_that_ended_early_is_begun_again(run_leat, express):
    express.server.fault(status(400, "ExpiredToken", "The provided token has expired."), times=1, key=f"{BUCKET}/key")
    assert run_leat("cat", f"s3://{BUCKET}/key", env=express.env, status=0).stdout == "hello"
    assert len(express.begun) == 2


def test_who_may_only_read_gets_a_session_for_that(run_leat, faulty):
    server = faulty()
    server.fault(
        status(403, "AccessDenied", "no"),
        method="GET",
        match=lambda r: "session" in r.query and "x-amz-create-session-mode" not in r.headers,
    )
    express = Express(server)
    assert run_leat("cat", f"s3://{BUCKET}/key", env=express.env, status=0).stdout == "hello"
    assert express.begun[0].headers["x-amz-create-session-mode"] == "ReadOnly"


@pytest.mark.parametrize(
    ("answer", "words", "code"),
    [
        (status(403, "AccessDenied", "Access Denied"), ["Access Denied", "AWS_ACCESS_KEY_ID"], 4),
        (status(404, "NoSuchBucket", "The specified bucket does not exist"), ["does not exist"], 3),
        (status(200, "Odd"), ["gives no session"], 4),
    ],
)
def test_no_session_is_one_line_without_secrets(run_leat, faulty, answer, words, code):
    express = Express(faulty())
    express.server.faults.clear()
    express.server.fault(answer, method="GET", match=lambda r: "session" in r.query)
    done = run_leat("cat", f"s3://{BUCKET}/key", env=express.env, status=code)
    one_line(done, BUCKET, *words)
    assert "test-secret" not in done.stderr
    assert "base-token" not in done.stderr
    assert not express.others


def test_sessions_can_be_left_out(run_leat, express):
    env = {**express.env, "AWS_S3_DISABLE_EXPRESS_SESSION_AUTH": "true"}
    assert run_leat("cat", f"s3://{BUCKET}/key", env=env, status=0).stdout == "hello"
    assert not express.begun
    assert "/us-west-2/s3express/" in scope(express.others[0])


def test_the_region_of_a_directory_bucket_must_be_known(run_leat):
    one_line(run_leat("cat", f"s3://{BUCKET}/key", status=2), BUCKET, "AWS_REGION")
