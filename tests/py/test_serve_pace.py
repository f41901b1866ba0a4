"""`leat serve`: nothing comes sooner than the latency and the bandwidth that were set allow.

That nothing comes later is a matter of the machine; that a booked line is not left idle is counted in
tests/unit/test_serve_fault.c (`the_line_is_booked_one_after_the_other`).
"""

import http.client
import socket
import threading
import time

import pytest
from command_tools import wait_until

MB = 1_000_000


def fetch(server, path, out=None):
    """Seconds for one GET (bytes are thrown away as they come)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    began = time.monotonic()
    connection.request("GET", path)
    answer = connection.getresponse()
    first = time.monotonic() - began
    got = len(answer.read())
    took = time.monotonic() - began
    connection.close()
    if out is not None:
        out.append((got, first))
    return took


def together(jobs):
    threads = [threading.Thread(target=job) for job in jobs]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began


@pytest.fixture
def folder(bucket_dir):
    for name, size in [("big", 4 * MB), ("middle", 2 * MB), ("tiny", 10)]:
        with open(bucket_dir / "bucket" / name, "wb") as f:
            f.truncate(size)
    return bucket_dir


@pytest.mark.parametrize(
    ("options", "connections", "seconds"),
    [
        (["--bandwidth", "10MB/s"], 1, 0.2),
        (["--bandwidth", "20MB/s"], 5, 0.5),
        (["--connection-bandwidth", "5MB/s"], 4, 0.4),
        (["--connection-bandwidth", "5MB/s", "--bandwidth", "8MB/s"], 2, 4 / 8),
    ],
    ids=["one connection", "shared", "each its own", "both"],
)
def test_bandwidth_is_never_exceeded(serve, folder, options, connections, seconds):
    server = serve(folder, *options)
    out = []
    took = together([lambda: fetch(server, "/bucket/middle", out)] * connections)
    assert [got for got, _ in out] == [2 * MB] * connections
    assert took >= seconds * 0.98


def test_uploads_are_paced_too(serve, folder):
    server = serve(folder, "--bandwidth", "10MB/s")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    began = time.monotonic()
    connection.request("PUT", "/bucket/up", body=b"x" * (4 * MB))
    assert connection.getresponse().status == 200
    assert time.monotonic() - began >= 0.4 * 0.97
    connection.close()


def test_an_idle_line_saves_nothing_up(serve, folder):
    server = serve(folder, "--bandwidth", "10MB/s")
    fetch(server, "/bucket/tiny")
    time.sleep(0.5)
    assert fetch(server, "/bucket/big") >= 0.4 * 0.97


def test_every_answer_waits_for_the_latency(serve, folder):
    server = serve(folder, "--latency", "100ms")
    for path in ["/bucket/tiny", "/bucket/missing", "/bucket?list-type=2", "/", "/none/x"]:
        assert fetch(server, path) >= 0.1


def test_answers_wait_for_the_latency_at_the_same_time(serve, folder):
    server = serve(folder, "--latency", "1s")
    assert together([lambda: fetch(server, "/bucket/tiny")] * 100) < 60, "one after the other they take 100 s"


def test_the_first_byte_waits_and_the_rest_is_paced(serve, folder):
    server = serve(folder, "--latency", "200ms", "--bandwidth", "10MB/s")
    out = []
    assert fetch(server, "/bucket/big", out) >= (0.2 + 0.4) * 0.97
    assert out[0][1] >= 0.2


def test_it_ends_while_answers_wait(serve, folder):
    server = serve(folder, "--latency", "600s", "--bandwidth", "1KB/s")
    sockets = []
    for _ in range(4):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        s.sendall(b"GET /bucket/big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sockets.append(s)
    wait_until(lambda: server.stats()["connections"]["open"] > 4, "the requests to arrive")
    assert server.stop(timeout=60) == 0
    for s in sockets:
        s.close()
