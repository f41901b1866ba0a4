"""GOOG4-HMAC-SHA256 beside google-cloud-storage. The library signs links, with a service account's key; what it makes of a
request before that is the same: the canonical request and the string to sign. Ours must be equal to the letter, and the
signature must be what Google's document makes of the library's string with an HMAC key."""

import hashlib
import hmac
import random
from datetime import datetime, timezone
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from google.auth import credentials
from google.cloud.storage import _signing
from test_sign import sign_with_leat, some_header_value, some_text

SECRET = "bGVhdCdzIHNlY3JldCBmb3IgR29vZ2xl"


class Recorder(credentials.Signing):
    """A service account whose signatures are what it was asked to sign."""

    signer_email = "robot@project.iam.gserviceaccount.com"
    signer = None

    def sign_bytes(self, message):
        self.message = message.decode()
        return b"signature"


def some_request(rng):
    names = [
        "prefix",
        "delimiter",
        "uploads",
        "list-type",
        "uploadId",
        "partNumber",
        "generation",
        "a b",
        "ü",
        "userProject",
    ]
    headers = [
        "Range",
        "x-goog-meta-A",
        "x-goog-if-generation-match",
        "Content-Type",
        "X-Goog-Copy-Source",
        "Content-MD5",
    ]
    return {
        "google": True,
        "method": rng.choice(["GET", "PUT", "HEAD", "DELETE", "POST"]),
        "host": rng.choice(["storage.googleapis.com", "127.0.0.1:9000", "bucket.storage.googleapis.com"]),
        "path": "/bucket/" + some_text(rng, 12),
        "query": [[name, some_text(rng, 6)] for name in rng.sample(names, rng.randint(0, 4))],
        "headers": [[name, some_header_value(rng)] for name in rng.sample(headers, rng.randint(0, 4))],
        "payload_hash": rng.choice(["UNSIGNED-PAYLOAD", f"{rng.getrandbits(256):064x}"]),
        "region": "auto",
        "time": rng.randint(0, 4102444800),
        "access_key": "GOOG1EXAMPLE",
        "secret_key": SECRET,
        "token": "",
    }


def signed_by_the_library(request):
    """(the query that it adds its own to, its string to sign)"""
    date = datetime.fromtimestamp(request["time"], timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    recorder = Recorder()
    url = _signing.generate_signed_url_v4(
        recorder,
        quote(request["path"], safe="/~"),  # as Blob.generate_signed_url has it
        60,
        api_access_endpoint="https://" + request["host"],
        method=request["method"],
        headers={
            **dict(request["headers"]),
            "x-goog-date": date,
            "x-goog-content-sha256": request["payload_hash"],
        },
        query_parameters=dict(request["query"]),
        _request_timestamp=date,
    )
    query = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    return [pair for pair in query if pair[0] != "X-Goog-Signature"], recorder.message


def documented_signature(text):
    date, region, service, kind = text.split("\n")[2].split("/")
    key = ("GOOG4" + SECRET).encode()
    for piece in (date, region, service, kind):
        key = hmac.new(key, piece.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


@pytest.fixture(scope="module")
def signed():
    """[(request, ours, the library's string to sign) …]"""
    rng = random.Random(3)
    requests, texts = [], []
    for _ in range(1000):
        request = some_request(rng)
        request["query"], text = signed_by_the_library(request)
        requests.append(request)
        texts.append(text)
    return list(zip(requests, sign_with_leat(requests), texts, strict=True))


def test_canonical_requests_and_strings_to_sign_equal_the_librarys(signed):
    for request, ours, text in signed:
        kind, date, scope, digest = text.split("\n")
        assert kind == "GOOG4-RSA-SHA256"
        assert ours["date"] == date
        assert hashlib.sha256(ours["canonical"].encode()).hexdigest() == digest, (request, ours["canonical"])
        assert f"Credential={request['access_key']}/{scope}," in ours["authorization"]


def test_the_signature_is_the_documented_one_of_the_librarys_string(signed):
    for request, ours, text in signed:
        expected = documented_signature(text.replace("GOOG4-RSA-SHA256", "GOOG4-HMAC-SHA256"))
        assert ours["authorization"].startswith("GOOG4-HMAC-SHA256 Credential=")
        assert ours["authorization"].endswith("Signature=" + expected), request
        names = dict(request["query"])["X-Goog-SignedHeaders"]
        assert f"SignedHeaders={names}," in ours["authorization"]
