"""`leat serve`: requests that no honest client sends. None may hang it, end it, or get out of the folder."""

import errno
import http.client
import os
import random
import socket
import ssl

import pytest
from command_tools import wait_until
from s3 import all_keys, client


@pytest.fixture
def folder(bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(b"content")
    (bucket_dir.parent / "outside").write_bytes(b"secret of the machine")
    return bucket_dir


def talk(server, data, timeout=60, end=True):
    """Sends bytes as they are and returns everything that comes back."""
    out = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout) as s:
        try:
            s.sendall(data)
            if end:
                s.shutdown(socket.SHUT_WR)
            while piece := s.recv(65536):
                out += piece
        except TimeoutError:
            raise AssertionError(f"neither answered nor dropped: {data[:80]}") from None
        except ConnectionError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # closed by the other side before we did
                raise
    return out


def sockets_of(server):
    """How many sockets the server's process has open."""
    folder = f"/proc/{server.process.pid}/fd"
    return sum(os.readlink(f"{folder}/{fd}").startswith("socket:") for fd in os.listdir(folder))


def is_well(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/bucket/k")
    answer = connection.getresponse()
    fine = (answer.status, answer.read()) == (200, b"content")
    connection.close()
    return fine


def test_no_path_leads_out_of_the_folder(serve, folder):
    server = serve(folder)
    steps = ["..", "%2e%2e", "%2E.", ".%2e", "..%2f", "..%5c", "%252e%252e", "....", "..;", "..%00", "%c0%ae%c0%ae"]
    for step in steps:
        for n in range(1, 5):
            for path in [
                "/" + "/".join([step] * n) + "/outside",
                "/bucket/" + "/".join([step] * n) + "/outside",
                "/bucket/x/" + "/".join([step] * n) + "/outside",
                "/bucket//" + "/".join([step] * n) + "/outside",
                f"/{step}",
                f"/{step}/",
                f"/bucket/k/{step}/k",
            ]:
                for target in [path, "http://127.0.0.1" + path]:
                    answer = talk(
                        server, f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
                    )
                    assert b"secret" not in answer, target
                    assert answer.startswith(b"HTTP/1.1 4"), (target, answer[:100])
    before = sorted(os.listdir(folder.parent))
    for step in steps:
        talk(
            server, f"PUT /bucket/{step}/{step}/new HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx".encode()
        )
        talk(server, f"PUT /{step} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        talk(server, f"DELETE /bucket/{step}/{step}/outside HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        host = f"GET /outside HTTP/1.1\r\nHost: {step}.localhost\r\nConnection: close\r\n\r\n"
        assert b"secret" not in talk(server, host.encode())
    assert sorted(os.listdir(folder.parent)) == before
    assert (folder.parent / "outside").read_bytes() == b"secret of the machine"
    assert is_well(server)


GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
PUT = b"PUT /bucket/n HTTP/1.1\r\nHost: localhost\r\n"

MALFORMED = {
    "nothing": b"",
    "empty-lines": b"\r\n\r\n",
    "one-word": b"GET",
    "no-line-end": b"GET / HTTP/1.1",
    "half-a-header": b"GET / HTTP/1.1\r\nHost",
    "huge-range": b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\nRange: bytes=" + b"9" * 5000 + b"-\r\n\r\n",
    "http-9.9": b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "nuls": b"\x00" * 1000,
    "tls-hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"A" * 500,
    "giant-target": GET % (b"/" + b"a" * 300_000),
    "giant-header": b"GET / HTTP/1.1\r\nX-A: " + b"b" * 300_000 + b"\r\n\r\n",
    "many-headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    + b"".join(b"X-%d: y\r\n" % i for i in range(20000))
    + b"\r\n",
    "many-arguments": GET % (b"/?" + b"&".join(b"a%d=b" % i for i in range(5000))),
    "broken-escape": GET % b"/%zz",
    "cut-escape": GET % b"/bucket/%",
    "cut-escape-in-query": GET % b"/bucket?list-type=2&prefix=%f",
    "key-too-long": GET % (b"/bucket/" + b"k" * 1025),
    "no-slash": GET % b"bucket/k",
    "options-star": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "connect": b"CONNECT other:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown-method": b"BREW /bucket/k HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "negative-length": PUT + b"Content-Length: -1\r\n\r\n",
    "enormous-length": PUT + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "two-lengths": PUT + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "bad-chunk": PUT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "enormous-chunk": PUT + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    "half-a-body": PUT + b"Content-Length: 100\r\n\r\nhalf",
    "not-xml": b"POST /bucket?delete HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n<not xml>",
    "escaping-upload": b"POST /bucket/n?uploadId=../../x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n<a>",
}


def test_malformed_requests_are_answered_or_dropped(serve, folder):
    server = serve(folder)
    for name, data in MALFORMED.items():
        answer = talk(server, data)
        assert not answer or answer.startswith(b"HTTP/1."), (name, answer[:80])
        assert b" 200 OK" not in answer.split(b"\r\n")[0] or b"Range" in data, name
        assert is_well(server), name
    assert all_keys(client(server), "bucket") == ["k"]


def complete_head(server, body):
    """The end of an upload in parts, which is the one call that reads XML."""
    upload = client(server).create_multipart_upload(Bucket="bucket", Key="k")["UploadId"]
    return (
        f"POST /bucket/k?uploadId={upload} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    ).encode()


def test_xml_bombs_are_refused(serve, folder):
    server = serve(folder)
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "x" * 10}">' for i in range(9))
    root, number = "CompleteMultipartUpload", "<Part><PartNumber>1</PartNumber></Part>"
    bomb = f'<?xml version="1.0"?><!DOCTYPE d [{entities}]><{root}><Part><ETag>&e8;</ETag></Part></{root}>'
    deep = "<a>" * 200000
    outside = f'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><{root}><Part><ETag>&x;</ETag></Part></{root}>'
    many = f"<{root}>" + number * 10001 + f"</{root}>"
    for body in [bomb, deep, outside, many, "", f"<{root}/>", "\0" * 100]:
        answer = talk(server, complete_head(server, body.encode()) + body.encode())
        assert b"MalformedXML" in answer, (body[:60], answer[:200])
    assert is_well(server)


def test_a_body_that_is_too_large_for_xml_is_refused(serve, folder):
    server = serve(folder)
    body = b"<CompleteMultipartUpload>" + b" " * (5 << 20)
    assert b"EntityTooLarge" in talk(server, complete_head(server, body) + body)


def test_random_bytes_do_not_hurt(serve, folder):
    server = serve(folder)
    rng = random.Random(11)
    base = (
        b"PUT /bucket/n?x=1 HTTP/1.1\r\nHost: bucket.localhost\r\nRange: bytes=0-1\r\nContent-Length: 20\r\n"
        b"x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\nx-amz-trailer: x-amz-checksum-crc32\r\n"
        b"Authorization: AWS4-HMAC-SHA256 Credential=a/20200101/r/s3/aws4_request, SignedHeaders=host, Signature=0\r\n"
        b"\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    for _ in range(300):
        data = bytearray(base)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 3))
        answer = talk(server, bytes(data))
        assert not answer or answer.startswith(b"HTTP/1."), answer[:80]
    assert is_well(server)


def test_half_sent_requests_and_silent_clients_do_not_keep_others_waiting(serve, folder):
    server = serve(folder, "--idle-timeout", "2s")
    halves = []
    for i in range(50):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        s.sendall(
            [b"GET /bucket/k HTT", b"PUT /bucket/n HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc", b""][
                i % 3
            ]
        )
        halves.append(s)
    assert is_well(server)
    for s in halves:
        s.settimeout(60)
        try:
            while s.recv(1000):
                pass
        except ConnectionError:
            pass
        s.close()
    assert is_well(server)
    wait_until(lambda: server.stats()["connections"]["open"] == 1, "the others to be dropped")
    assert not (folder / "bucket" / "n").exists()


def test_a_client_that_does_not_read_is_dropped(serve, folder):
    with open(folder / "bucket" / "big", "wb") as f:
        f.truncate(64 << 20)
    server = serve(folder, "--idle-timeout", "1s")
    s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall(b"GET /bucket/big HTTP/1.1\r\nHost: localhost\r\n\r\n")
    wait_until(lambda: server.stats()["connections"]["open"] == 1, "the connection to be dropped")
    entry = server.log()[0]
    assert 0 < entry["sent"] < 64 << 20
    s.close()
    assert is_well(server)


def test_more_connections_than_allowed_wait_their_turn(serve, folder):
    server = serve(folder, "--connections", "4", "--idle-timeout", "600s")
    taken = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(4)]

    def all_are_answered():
        for s in taken:
            s.sendall(b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert s.recv(65536).startswith(b"HTTP/1.1 200")

    all_are_answered()
    extra = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    extra.sendall(b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    for _ in range(50):
        all_are_answered()
    extra.setblocking(False)
    with pytest.raises(BlockingIOError):
        extra.recv(1)
    taken[0].close()
    extra.settimeout(60)
    assert extra.recv(65536).startswith(b"HTTP/1.1 200")
    for s in [*taken, extra]:
        s.close()


def test_a_file_that_shrinks_while_it_is_sent_ends_the_connection(serve, folder):
    path = folder / "bucket" / "shrinks"
    with open(path, "wb") as f:
        f.truncate(64 << 20)
    server = serve(folder)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(b"GET /bucket/shrinks HTTP/1.1\r\nHost: localhost\r\n\r\n")
        s.recv(1000)
        os.truncate(path, 1000)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)  # what was sent before is read at once
        got = 0
        try:
            while piece := s.recv(65536):
                got += len(piece)
        except ConnectionError:
            pass
        assert got < 64 << 20
    wait_until(lambda: server.stats()["connections"]["open"] == 1, "its thread to end")
    assert is_well(server)


def test_plain_http_to_a_tls_port_and_the_other_way_round(serve, folder):
    secure = serve(folder, "--tls-self-signed")
    answer = talk(secure, b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\n\r\n", timeout=60)
    assert b"content" not in answer
    plain = serve(folder)
    context = ssl.create_default_context()
    raw = socket.create_connection(("127.0.0.1", plain.port), timeout=60)
    with pytest.raises((ssl.SSLError, ConnectionError, TimeoutError, OSError)):
        context.wrap_socket(raw, server_hostname="localhost")
    raw.close()
    assert is_well(plain)


@pytest.mark.parametrize(
    ("options", "stay"), [((), 5), (("--tls-self-signed",), 1), (("--bandwidth", "10KB/s"), 5)], ids=["", "tls", "slow"]
)
def test_it_ends_with_connections_in_every_state(serve, folder, options, stay):
    with open(folder / "bucket" / "big", "wb") as f:
        f.truncate(64 << 20)
    server = serve(folder, "--idle-timeout", "600s", *options)
    before, sockets = sockets_of(server), []
    for data in [
        b"",
        b"GET /bucket/k HT",
        b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /bucket/big HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PUT /bucket/n HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc",
    ]:
        sockets.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        sockets[-1].sendall(data)
    wait_until(lambda: sockets_of(server) >= before + stay, "the connections to be accepted")
    assert server.stop(timeout=60) == 0
    for s in sockets:
        s.close()
    assert not (folder / "bucket" / "n").exists()
    assert not (folder / "bucket" / ".leat-serve").exists()
