"""Leat's request signatures against botocore's, over generated requests."""

import json
import os
import random
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from unittest import mock

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials
from botocore.utils import percent_encode

BUILD = Path(os.environ.get("LEAT_BUILD", Path(__file__).resolve().parents[2] / "build" / "release"))
TOOL = BUILD / "tests" / "unit" / "tool_sign"

PIECES = ["a", "B", "7", "=", "+", " ", "  ", "..", ".", "/", "//", "~", "ü", "日本", "🎈", "%", "%20", "&", "?", "#"]
PIECES += ["'", '"', "*", "(", ")", "!", "$", ",", ";", ":", "@", "[", "]", "\\", "^", "|", "`", "<", ">", "-", "_"]


def some_text(rng, longest):
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, longest)))


def some_header_value(rng):
    words = [
        "".join(rng.choice("abcXYZ019-/=,;\"'") for _ in range(rng.randint(1, 8))) for _ in range(rng.randint(0, 4))
    ]
    space = rng.choice([" ", "  ", "   ", " \t ", "\t"])
    return rng.choice(["", " ", "  "]) + space.join(words) + rng.choice(["", " ", "   "])


def some_request(rng):
    query_names = ["prefix", "delimiter", "uploads", "list-type", "a", "a-", "a b", "ü", "X-id", "=", "A"]
    header_names = ["Range", "If-Match", "x-amz-meta-A", "x-amz-meta-b", "Content-Type", "X-Amz-Acl", "Content-MD5"]
    return {
        "method": rng.choice(["GET", "PUT", "HEAD", "DELETE", "POST"]),
        "host": rng.choice(["bucket.s3.amazonaws.com", "127.0.0.1:9000", "localhost:80", "[::1]:81", "s3.example"]),
        "path": "/" + some_text(rng, 12),
        "query": [[rng.choice(query_names), some_text(rng, 6)] for _ in range(rng.randint(0, 5))],
        "headers": [[rng.choice(header_names), some_header_value(rng)] for _ in range(rng.randint(0, 5))],
        "payload_hash": rng.choice(["UNSIGNED-PAYLOAD", f"{rng.getrandbits(256):064x}"]),
        "region": rng.choice(["us-east-1", "eu-central-1", "x"]),
        "time": rng.randint(0, 4102444800),
        "access_key": rng.choice(["AKIAIOSFODNN7EXAMPLE", "k"]),
        "secret_key": rng.choice(["wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "s", "ü+/="]),
        "token": rng.choice(["", "", "FwoGZXIvYXdzE//w==", "t+/="]),
    }


def sign_with_botocore(request):
    query = "&".join(f"{percent_encode(n)}={percent_encode(v)}" for n, v in request["query"])
    host = request["host"]
    scheme = "https" if host.endswith(":80") else "http"  # so that botocore does not drop the port
    url = f"{scheme}://{host}{percent_encode(request['path'], safe='/~')}" + ("?" + query if query else "")
    aws = AWSRequest(method=request["method"], url=url)
    aws.headers = HTTPHeaders()
    for name, value in request["headers"]:
        aws.headers.add_header(name, value)
    now = datetime.fromtimestamp(request["time"], timezone.utc)
    keys = Credentials(request["access_key"], request["secret_key"], request["token"] or None)
    signer = S3SigV4Auth(keys, "s3", request["region"])
    seen = {}
    canonical_request = signer.canonical_request

    def remember(r):
        seen["canonical"] = canonical_request(r)
        return seen["canonical"]

    signer.payload = lambda _: request["payload_hash"]
    signer.canonical_request = remember
    with mock.patch("botocore.auth.get_current_datetime", return_value=now.replace(tzinfo=None)):
        signer.add_auth(aws)
    return {
        "date": now.strftime("%Y%m%dT%H%M%SZ"),
        "authorization": aws.headers["Authorization"],
        "canonical": seen["canonical"],
    }


def sign_with_leat(requests):
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    done = subprocess.run([TOOL], input=lines.encode(), stdout=subprocess.PIPE, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_signatures_equal_botocores_for_every_request():
    rng = random.Random(1)
    requests = [some_request(rng) for _ in range(1500)]
    answers = sign_with_leat(requests)
    assert len(answers) == len(requests)
    for request, ours in zip(requests, answers):
        theirs = sign_with_botocore(request)
        assert {k: ours[k] for k in theirs} == theirs, request


def test_the_query_that_is_sent_is_the_one_that_is_signed():
    rng = random.Random(2)
    requests = [some_request(rng) for _ in range(500)]
    for request, ours in zip(requests, sign_with_leat(requests)):
        assert ours["canonical"].split("\n")[2] == ours["query"], request
