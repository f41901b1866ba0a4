"""A bucket that refuses requests for one folder: the others go on as if nothing were wrong."""

import threading
import time

import pytest
from faulty_server import status

pytestmark = pytest.mark.alone

BUSY, FREE = 300, 700


class Limited:
    """Answers to what is in a folder only while few others are at it; keeps count."""

    def __init__(self, most):
        self.most = most
        self.lock = threading.Lock()
        self.running = 0
        self.refused = 0
        self.ended = []
        self.seen = []  # how many were at it when each came

    def __call__(self, exchange):
        with self.lock:
            self.running += 1
            self.seen.append(self.running)
            refuse = self.running > self.most
            self.refused += refuse
        try:
            time.sleep(0.005 if refuse else 0.03)
            if refuse:
                status(503, "SlowDown")(exchange)
            else:
                code, headers, body = exchange.object_part()
                exchange.answer(code, body, headers)
                self.ended.append(time.monotonic())
        finally:
            with self.lock:
                self.running -= 1


def test_a_refused_folder_does_not_slow_another(run_leat, faulty, tmp_path):
    server = faulty()
    busy, free = Limited(2), Limited(10**6)
    for i in range(BUSY):  # it comes first in every list
        server.objects[f"bucket/a/{i:04}"] = b"x" * 2000
    for i in range(FREE):
        server.objects[f"bucket/b/{i:04}"] = b"y" * 2000
    server.fault(busy, times=10**6, method="GET", match=lambda r: r.key.startswith("bucket/a/"))
    server.fault(free, times=10**6, method="GET", match=lambda r: r.key.startswith("bucket/b/"))
    done = run_leat("cp", "--recursive", "s3://bucket/", str(tmp_path / "to"), env=server.env(), timeout=120)
    assert done.returncode == 0, done.stderr
    assert (len(busy.ended), len(free.ended)) == (BUSY, FREE)
    assert busy.refused > 10
    assert free.refused == 0
    # When the free folder is through, most of the busy one still waits.
    waiting = sum(at > max(free.ended) for at in busy.ended)
    late = sorted(free.seen[FREE // 2 :])[FREE // 4]  # the usual number in the second half
    assert waiting > BUSY / 3
    assert late >= 16
    # … and the busy one was not asked over and over.
    assert busy.refused < 3 * BUSY
