"""`leat serve` without keys: what a web page may not do with it, and what is refused rather than ignored."""

import http.client
import socket
import time

import pytest


@pytest.fixture
def folder(bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(b"content")
    return bucket_dir


def ask(server, method="GET", path="/bucket/k", headers=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, body=body, headers=headers or {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Host": "evil.example"},
    {"Host": "evil.example:80"},
    {"Host": "notlocalhost"},
    {"Host": "127.0.0.1.evil.example"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=lambda h: "-".join(h.values()))
def test_a_web_page_reads_writes_and_deletes_nothing(serve, folder, headers):
    server = serve(folder)
    for method, path, body in [
        ("GET", "/bucket/k", None),
        ("PUT", "/bucket/new", b"x"),
        ("DELETE", "/bucket/k", None),
        ("POST", "/bucket/k?uploads", None),
        ("GET", "/-/log", None),
        ("GET", "/-/stats?reset", None),
    ]:
        status, text = ask(server, method, path, {**headers, "Content-Type": "text/plain"}, body)
        assert status == 403, (method, path, text)
    assert (folder / "bucket" / "k").read_bytes() == b"content"
    assert not (folder / "bucket" / "new").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1234", "[::1]:80", "s3.localhost", "10.1.2.3"])
def test_its_own_names_are_answered(serve, folder, host):
    server = serve(folder)
    assert ask(server, headers={"Host": host}) == (200, b"content")
    own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert ask(server, headers=own)[0] == 200


def test_with_keys_the_signature_decides_and_the_pages_stay_closed(serve, folder):
    server = serve(folder, "--access-key", "a", "--secret-key", "b")
    status, text = ask(server, headers={"Origin": "https://evil.example"})
    assert (status, b"Web pages" in text) == (403, False)
    assert ask(server, path="/-/stats", headers={"Origin": "https://evil.example"})[0] == 403
    assert ask(server, path="/-/stats")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("DELETE", "/bucket/k", {"If-Match": '"x"'}),
        ("DELETE", "/bucket/k", {"x-amz-if-match-size": "7"}),
        ("DELETE", "/bucket/k?versionId=1", {}),
        ("GET", "/bucket/k?versionId=1", {}),
        ("GET", "/bucket/k?partNumber=2", {}),
        ("HEAD", "/bucket/k?partNumber=2", {}),
        ("GET", "/bucket/k", {"x-amz-server-side-encryption-customer-algorithm": "AES256"}),
        ("PUT", "/bucket/new", {"x-amz-server-side-encryption-customer-key": "x"}),
        ("PUT", "/bucket/new", {"x-amz-server-side-encryption": "aws:kms"}),
        ("PUT", "/bucket/k", {"x-amz-write-offset-bytes": "7"}),
        ("PUT", "/bucket/new", {"x-amz-object-lock-mode": "GOVERNANCE"}),
        ("PUT", "/bucket/new", {"x-amz-acl": "public-read"}),
        ("PUT", "/bucket/new", {"x-amz-tagging": "a=b"}),
        ("GET", "/bucket/k", {"x-amz-expected-bucket-owner": "123456789012"}),
        ("GET", "/bucket/k", {"If-Range": '"x"', "Range": "bytes=0-1"}),
        ("GET", "/bucket/k", {"If-Unmodified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"}),
        ("POST", "/bucket?delete", {}),
        ("PUT", "/bucket/new", {"x-amz-trailer": "x-amz-checksum-crc32"}),
    ],
)
def test_what_it_does_not_do_is_refused_and_not_ignored(serve, folder, method, path, headers):
    server = serve(folder)
    assert ask(server, method, path, headers, b"x" if method == "PUT" else None)[0] == 501
    assert (folder / "bucket" / "k").read_bytes() == b"content"
    assert not (folder / "bucket" / "new").exists()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /bucket/k HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /bucket/k HTTP/1.1\r\n\r\n",
    ],
    ids=["space", "two-hosts", "hostless"],
)
def test_heads_that_two_servers_could_read_differently_are_refused(serve, folder, head):
    server = serve(folder)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
        s.sendall(head)
        s.shutdown(socket.SHUT_WR)
        answer = s.recv(65536)
    assert not answer.startswith(b"HTTP/1.1 200"), answer[:100]


@pytest.mark.parametrize("what", ["head", "body"])
def test_half_requests_that_drip_lose_their_place(serve, folder, what):
    server = serve(folder, "--idle-timeout", "1s", "--connections", 4)
    drips = []
    for _ in range(4):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        if what == "head":
            s.sendall(b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        else:
            s.sendall(b"PUT /bucket/n HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        drips.append(s)
    deadline = time.monotonic() + 60
    while drips:
        assert time.monotonic() < deadline, "a client that sends a byte now and then keeps its place"
        for s in list(drips):
            try:
                s.sendall(b"x")
            except OSError:
                drips.remove(s)
        time.sleep(0.2)
    assert ask(server) == (200, b"content")
    assert not (folder / "bucket" / "n").exists()


def test_a_slow_upload_that_goes_on_is_not_dripping(serve, folder):
    server = serve(folder, "--idle-timeout", "2s")
    for _ in range(20):
        pauses = []
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
            s.sendall(b"PUT /bucket/n HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n")
            try:
                for _ in range(10):
                    began = time.monotonic()
                    s.sendall(b"x" * 2000)
                    time.sleep(0.3)
                    pauses.append(time.monotonic() - began)
                answer = s.recv(1000)
            except ConnectionError:
                answer = b"closed"
        if max(pauses) < 1:  # else this process stood still, and a pause was really too long
            assert answer.startswith(b"HTTP/1.1 200")
            break
    else:
        pytest.skip("this machine lets no process run twice a second")
    assert (folder / "bucket" / "n").stat().st_size == 20000
