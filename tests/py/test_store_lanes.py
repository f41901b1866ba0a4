"""A bucket that refuses requests for one folder: the others go on as if nothing were wrong.

How the folder's requests are thinned out is counted in tests/unit/test_store_lanes.c.
"""

import threading

from faulty_server import status

BUSY, FREE, AT_ONCE = 30, 80, 16


class Folders:
    """Refuses all of one folder until the other is through. That one's answers wait, once it is half through, until many
    are asked for at the same time: a client that holds its other requests back does not get them."""

    def __init__(self):
        self.changed = threading.Condition()
        self.running = self.refused = self.free = self.busy = 0
        self.crowded = False

    def is_busy(self, exchange):
        with self.changed:
            self.refused += self.free < FREE
            self.busy += self.free == FREE
            refuse = self.free < FREE
        (status(503, "SlowDown") if refuse else exchange.server.proper)(exchange)

    def is_free(self, exchange):
        with self.changed:
            self.running += 1
            self.crowded |= self.free > FREE // 2 and self.refused and self.running >= AT_ONCE
            self.changed.notify_all()
            if self.free > FREE // 2:
                self.changed.wait_for(lambda: self.crowded, timeout=60)
        exchange.server.proper(exchange)
        with self.changed:
            self.running -= 1
            self.free += 1


def test_a_refused_folder_does_not_slow_another(run_leat, faulty, tmp_path):
    server, folders = faulty(), Folders()
    for i in range(BUSY):  # it comes first in every list
        server.objects[f"bucket/a/{i:04}"] = b"x" * 2000
    for i in range(FREE):
        server.objects[f"bucket/b/{i:04}"] = b"y" * 2000
    for fault, folder in ((folders.is_busy, "bucket/a/"), (folders.is_free, "bucket/b/")):
        server.fault(fault, method="GET", match=lambda r, folder=folder: r.key.startswith(folder))
    run_leat("cp", "--recursive", "s3://bucket/", tmp_path / "to", env=server.env(), timeout=240, status=0)
    assert folders.crowded
    assert (folders.free, folders.busy) == (FREE, BUSY)
    assert folders.refused > 10
