"""`leat serve`: faults happen as often as told, as described, and the same with the same seed."""

import http.client
import socket
import time

import pytest
from command_tools import wait_until

BODY = bytes(range(256)) * 400  # 102,400 bytes


@pytest.fixture
def folder(bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(BODY)
    return bucket_dir


def get(server, path="/bucket/k", headers=None, timeout=10, method="GET"):
    """(status, headers, body or the exception that ended it)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    except (OSError, http.client.HTTPException) as e:
        return 0, {}, e
    finally:
        connection.close()


def kind_of(answer):
    status, _, body = answer
    if status == 200 and body == BODY:
        return "good"
    if isinstance(body, http.client.IncompleteRead):
        return "truncate"
    if isinstance(body, ConnectionResetError):
        return "reset"
    if status == 200 and len(body) == len(BODY):
        return "corrupt"
    return str(status)


def test_faults_come_as_often_as_told_and_are_counted(serve, folder):
    server = serve(folder, "--fault", "503=0.1,500=0.05,truncate=0.1,corrupt=0.1,reset=0.05", "--seed", "3")
    n = 600
    seen = {}
    for _ in range(n):
        kind = kind_of(get(server))
        seen[kind] = seen.get(kind, 0) + 1
    # four standard deviations
    for kind, chance in [("503", 0.1), ("500", 0.05), ("truncate", 0.1), ("corrupt", 0.1), ("reset", 0.05)]:
        assert abs(seen[kind] - n * chance) < 4 * (n * chance * (1 - chance)) ** 0.5, (kind, seen)
    counted = server.stats()["faults"]
    assert counted == {kind: seen[kind] for kind in counted}
    assert sum(counted.values()) + seen["good"] == n


def test_the_same_seed_gives_the_same_faults(serve, folder):
    def run(seed):
        server = serve(folder, "--fault", "503=0.2,truncate=0.2,corrupt=0.2", "--seed", seed)
        out = []
        for _ in range(60):
            status, _, body = get(server)
            out.append((status, body.partial if isinstance(body, http.client.IncompleteRead) else body))
        return [(status, len(body), hash(body)) for status, body in out if status != 503]

    first = run(1)
    assert run(1) == first
    assert run(2) != first


def test_some_requests_can_be_spared(serve, folder):
    (folder / "bucket" / "other").write_bytes(b"x")
    server = serve(folder, "--fault", "503=1", "--fault-after", "3", "--fault-count", "2")
    assert [get(server)[0] for _ in range(7)] == [200, 200, 200, 503, 503, 200, 200]
    only = serve(folder, "--fault", "503=1", "--fault-only", "oth")
    assert (get(only)[0], get(only, "/bucket/other")[0]) == (200, 503)


def test_error_answers_are_s3_documents(serve, folder):
    for status, code in [
        (503, "SlowDown"),
        (500, "InternalError"),
        (403, "AccessDenied"),
        (404, "NoSuchKey"),
        (429, "SlowDown"),
        (502, "InternalError"),
        (400, "InvalidRequest"),
    ]:
        server = serve(folder, "--fault", f"{status}=1")
        got, headers, body = get(server)
        assert (got, headers["Content-Type"]) == (status, "application/xml")
        assert f"<Code>{code}</Code>".encode() in body


def test_truncated_bodies_promise_all_and_close(serve, folder):
    server = serve(folder, "--fault", "truncate=1")
    lengths = set()
    for _ in range(10):
        status, headers, body = get(server)
        assert (status, headers) != (0, {}) or isinstance(body, http.client.IncompleteRead)
        assert isinstance(body, http.client.IncompleteRead)
        assert BODY.startswith(body.partial)
        lengths.add(len(body.partial))
    assert len(lengths) > 5
    assert all(entry < len(BODY) for entry in lengths)


def test_resets_are_resets(serve, folder):
    server = serve(folder, "--fault", "reset=1")
    for _ in range(10):
        assert kind_of(get(server)) == "reset"
    assert kind_of(get(server, "/bucket/k", method="HEAD")) == "reset"
    assert kind_of(get(server, "/bucket?list-type=2")) == "reset"
    answered = {entry["status"] for entry in server.log()}
    assert answered == {0, 200}, "some before the answer, some inside it"


def test_corrupt_bodies_have_one_wrong_bit(serve, folder):
    server = serve(folder, "--fault", "corrupt=1")
    for _ in range(5):
        status, headers, body = get(server)
        wrong = [(a, b) for a, b in zip(body, BODY) if a != b]
        assert (status, len(body), len(wrong)) == (200, len(BODY), 1)
        assert bin(wrong[0][0] ^ wrong[0][1]).count("1") == 1
        assert headers["ETag"]
    # a listing has no checksum by which a client could find out
    assert b"<Key>k</Key>" in get(server, "/bucket?list-type=2")[2]


def test_stalls_keep_the_connection_open_and_end_with_the_client(serve, folder):
    server = serve(folder, "--fault", "stall=1")
    assert isinstance(get(server, timeout=1)[2], TimeoutError)
    wait_until(lambda: server.stats()["connections"]["open"] == 1, "the connection to go with its client")
    with socket.create_connection(("127.0.0.1", server.port)) as stalled:
        stalled.sendall(b"GET /bucket/k HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: server.stats()["connections"]["open"] > 1, "the request to arrive")
        assert server.stop(timeout=60) == 0


def test_slow_bodies_come_byte_by_byte(serve, bucket_dir):
    (bucket_dir / "bucket" / "k").write_bytes(b"abc")
    server = serve(bucket_dir, "--fault", "slow=1", "--seed", "1")
    began = time.monotonic()
    assert get(server, timeout=60)[2] == b"abc"
    assert time.monotonic() - began > 0.9


def test_ranges_can_be_wrong_lost_or_ignored(serve, folder):
    asked = {"Range": "bytes=10-19"}
    status, headers, body = get(serve(folder, "--fault", "wrong-range=1"), headers=asked)
    assert (status, headers["Content-Range"], body) == (206, f"bytes 11-20/{len(BODY)}", BODY[11:21])
    status, headers, body = get(serve(folder, "--fault", "lost-range=1"), headers=asked)
    assert (status, headers["Content-Range"], body) == (206, None, BODY[10:20])
    status, headers, body = get(serve(folder, "--fault", "ignore-range=1"), headers=asked)
    assert (status, headers["Content-Range"], body) == (200, None, BODY)
    for kind in ["wrong-range", "lost-range", "ignore-range"]:
        server = serve(folder, "--fault", f"{kind}=1")
        assert get(server)[2] == BODY
        assert server.stats()["faults"] == {}


def test_an_error_document_can_come_with_200(serve, folder):
    server = serve(folder, "--fault", "error200=1")
    status, headers, body = get(server)
    assert (status, headers["Content-Type"]) == (200, "application/xml")
    assert b"<Code>InternalError</Code>" in body


def test_puts_suffer_too_and_leave_nothing(serve, folder):
    server = serve(folder, "--fault", "503=0.3,reset=0.3", "--seed", "5")
    put = 0
    for i in range(40):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        try:
            connection.request("PUT", f"/bucket/n{i}", body=b"x" * 100000)
            put += connection.getresponse().status == 200
        except OSError:
            pass
        connection.close()
    there = sorted(path.name for path in (folder / "bucket").iterdir() if path.name.startswith("n"))
    assert 0 < put < 40
    assert len(there) >= put  # an answer can be lost after the object was written
    assert all((folder / "bucket" / name).stat().st_size == 100000 for name in there)
    faults = server.stats()["faults"]
    assert set(faults) == {"503", "reset"}


def test_the_control_pages_never_suffer(serve, folder):
    server = serve(folder, "--fault", "reset=1", "--latency", "600s")
    for _ in range(20):
        assert server.stats()["requests"] == 0
