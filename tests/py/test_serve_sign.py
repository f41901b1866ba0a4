"""`leat serve` with keys: what is not signed, or signed otherwise, is refused."""

import hashlib
import http.client
import io
import random
import re
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from unittest import mock

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from s3 import client

ACCESS, SECRET = "AK", "SK/secret+"


@pytest.fixture
def server(serve, bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(b"content")
    return serve(bucket_dir, "--access-key", ACCESS, "--secret-key", SECRET, "--region", "us-east-1")


def signed(server, method, path, body=b"", headers=None, access=ACCESS, secret=SECRET, region="us-east-1", when=None):
    """(method, path, headers, body), signed by botocore."""
    hashed = hashlib.sha256(body).hexdigest()
    request = AWSRequest(method, server.url + path, {**(headers or {}), "x-amz-content-sha256": hashed}, body)
    request.context["payload_signing_enabled"] = True
    now = when or datetime.now(timezone.utc)
    with mock.patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)):
        S3SigV4Auth(Credentials(access, secret), "s3", region).add_auth(request)
    return method, path, dict(request.headers.items()), body


def send(server, method, path, headers, body=b""):
    """(status, error code or None, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    code = re.search(rb"<Code>(\w+)</Code>", data)
    return answer.status, code.group(1).decode() if code else None, data


def test_a_signed_request_is_taken_and_an_unsigned_one_is_not(server):
    assert send(server, *signed(server, "GET", "/bucket/k"))[::2] == (200, b"content")
    assert send(server, "GET", "/bucket/k", {})[:2] == (403, "AccessDenied")
    assert send(server, "PUT", "/bucket/new", {}, b"x")[:2] == (403, "AccessDenied")


def test_every_digit_of_the_signature_counts(server):
    method, path, headers, body = signed(server, "GET", "/bucket/k")
    text = headers["Authorization"]
    begin = text.index("Signature=") + len("Signature=")
    for i in range(begin, len(text)):
        other = "0" if text[i] != "0" else "1"
        changed = {**headers, "Authorization": text[:i] + other + text[i + 1 :]}
        assert send(server, method, path, changed, body)[:2] == (403, "SignatureDoesNotMatch")


def test_what_is_signed_cannot_be_changed(server):
    extra = {"x-amz-meta-a": "1", "Range": "bytes=0-1"}
    method, path, headers, body = signed(server, "PUT", "/bucket/k2?x-id=PutObject&a=1", b"body", extra)
    refused = (403, "SignatureDoesNotMatch")
    assert send(server, method, path, headers, body)[0] == 200
    assert send(server, "POST", path, headers, body)[:2] in [refused, (405, "MethodNotAllowed")]
    assert send(server, method, "/bucket/k3?x-id=PutObject&a=1", headers, body)[:2] == refused
    assert send(server, method, "/bucket/k2?x-id=PutObject&a=2", headers, body)[:2] == refused
    assert send(server, method, "/bucket/k2?x-id=PutObject", headers, body)[:2] == refused
    assert send(server, method, path + "&b=", headers, body)[:2] == refused
    assert send(server, method, path, {**headers, "x-amz-meta-a": "2"}, body)[:2] == refused
    assert send(server, method, path, {**headers, "Range": "bytes=0-2"}, body)[:2] == refused
    assert send(server, method, path, {**headers, "Host": "other"}, body)[:2] == refused
    missing = {k: v for k, v in headers.items() if k != "Range"}
    assert send(server, method, path, missing, body)[:2] == refused
    unsigned = {**headers, "x-amz-meta-b": "not signed"}
    assert send(server, method, path, unsigned, body)[:2] == (403, "AccessDenied")
    assert send(server, method, path, headers, b"BODY")[:2] == (400, "XAmzContentSHA256Mismatch")
    other_hash = {**headers, "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    assert send(server, method, path, other_hash, body)[:2] == refused
    # the same, escaped and ordered differently, is the same
    assert send(server, method, "/bucket/%6B2?a=1&x-id=PutObject", headers, body)[0] == 200


def test_wrong_keys_regions_services_and_times(server):
    assert send(server, *signed(server, "GET", "/bucket/k", access="other"))[:2] == (403, "InvalidAccessKeyId")
    assert send(server, *signed(server, "GET", "/bucket/k", secret="other"))[:2] == (403, "SignatureDoesNotMatch")
    status, code, data = send(server, *signed(server, "GET", "/bucket/k", region="eu-west-3"))
    assert (status, code) == (400, "AuthorizationHeaderMalformed")
    assert b"<Region>us-east-1</Region>" in data
    now = datetime.now(timezone.utc)
    for minutes, expected in [(14, 200), (-14, 200), (16, 403), (-16, 403), (60 * 24 * 400, 403)]:
        got = send(server, *signed(server, "GET", "/bucket/k", when=now + timedelta(minutes=minutes)))
        assert got[0] == expected, minutes
        assert got[1] == (None if expected == 200 else "RequestTimeTooSkewed")


def test_the_skew_answer_tells_the_servers_time(serve, bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(b"content")
    server = serve(bucket_dir, "--access-key", ACCESS, "--secret-key", SECRET, "--clock-skew", "20m")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(server.url + "/bucket/k", timeout=10)
    served = datetime.strptime(caught.value.headers["Date"], "%a, %d %b %Y %H:%M:%S GMT")
    ahead = (served - datetime.now(timezone.utc).replace(tzinfo=None)).total_seconds()
    assert 19 * 60 < ahead < 21 * 60
    status, code, data = send(server, *signed(server, "GET", "/bucket/k"))
    assert (status, code) == (403, "RequestTimeTooSkewed")
    assert b"<ServerTime>" in data
    later = datetime.now(timezone.utc) + timedelta(minutes=20)
    assert send(server, *signed(server, "GET", "/bucket/k", when=later))[0] == 200
    back = serve(bucket_dir, "--access-key", ACCESS, "--secret-key", SECRET, "--clock-skew", "-20m")
    earlier = datetime.now(timezone.utc) - timedelta(minutes=20)
    assert send(back, *signed(back, "GET", "/bucket/k", when=earlier))[0] == 200


def test_a_wrong_region_can_be_answered_with_a_redirect(serve, bucket_dir):
    server = serve(bucket_dir, "--region", "eu-west-3", "--region-redirect")
    assert send(server, *signed(server, "GET", "/bucket/k"))[:2] == (301, "PermanentRedirect")
    # boto3 goes where it is sent
    assert client(server, region="us-east-1").list_objects_v2(Bucket="bucket")["KeyCount"] == 0
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    method, path, headers, _ = signed(server, "HEAD", "/bucket/k")
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    assert (answer.status, answer.headers["x-amz-bucket-region"]) == (301, "eu-west-3")
    right = client(server, region="eu-west-3")
    assert right.list_objects_v2(Bucket="bucket")["KeyCount"] == 0


def test_authorization_headers_that_are_none(server):
    good = signed(server, "GET", "/bucket/k")[2]["Authorization"]
    bad = [
        "",
        "Basic QUs6U0s=",
        "AWS AK:signature",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 ",
        good.replace("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256-"),
        good.replace("Credential=", "Credentials="),
        good.replace("/aws4_request", ""),
        good.replace("/s3/", "/"),
        good.replace("SignedHeaders=", "SignedHeaders"),
        good[:-1],
        good + "0",
        good + ",",
        good + ", Signature=" + "0" * 64,
        good.replace("Signature=", "Signature=" + "Z" * 60000),
        good.replace("host;", ""),
        good.replace("Credential=AK/", "Credential=/"),
    ]
    for text in bad:
        headers = {**signed(server, "GET", "/bucket/k")[2], "Authorization": text}
        status, code, _ = send(server, "GET", "/bucket/k", headers)
        assert status in (400, 403), (text, status, code)
        assert code, text
    assert send(server, *signed(server, "GET", "/bucket/k"))[0] == 200


def test_signatures_in_the_query_and_in_chunks_are_refused_and_not_ignored(serve, server, bucket_dir):
    s3 = client(server, signature_version="s3v4")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "k"}, ExpiresIn=60)
    assert send(server, "GET", url[len(server.url) :], {})[:2] == (501, "NotImplemented")
    for kind in ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"):
        assert send(serve(bucket_dir), "PUT", "/bucket/new", {"x-amz-content-sha256": kind}, b"x")[0] == 501
    assert not (bucket_dir / "bucket" / "new").exists()


def test_boto3_with_its_defaults_and_with_signed_payloads(server, bucket_dir):
    for config in [{}, {"s3": {"addressing_style": "path", "payload_signing_enabled": True}}]:
        s3 = client(server, **config)
        for size in [0, 1, 65536, 300000]:
            body = random.Random(size).randbytes(size)
            s3.put_object(Bucket="bucket", Key=f"b{size}", Body=body)
            s3.put_object(Bucket="bucket", Key=f"f{size}", Body=io.BytesIO(body))
            assert s3.get_object(Bucket="bucket", Key=f"b{size}")["Body"].read() == body
            assert s3.get_object(Bucket="bucket", Key=f"f{size}")["Body"].read() == body


def test_secrets_do_not_show(serve, bucket_dir, server):
    from_environment = serve(
        bucket_dir, env={"LEAT_SERVE_ACCESS_KEY": ACCESS, "LEAT_SERVE_SECRET_KEY": SECRET, "LEAT_LOG": "debug"}
    )
    assert send(from_environment, *signed(from_environment, "GET", "/bucket/k"))[0] == 200
    wrong = signed(from_environment, "GET", "/bucket/k", secret="x")
    assert SECRET.encode() not in send(from_environment, *wrong)[2]
    assert SECRET not in from_environment.stderr
