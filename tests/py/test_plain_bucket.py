"""bench/plain_bucket.py: the bucket that benchmarks on a GPU read from where only a wheel is installed, whose command serves none."""

import os
import sys
import urllib.error
import urllib.request

import pytest
from conftest import ROOT
from loading import SLOW, blobs, lt, runtime

__all__ = ["blobs", "lt", "runtime"]

WHEELS = """#!/bin/sh
echo "leat: this command has no bucket in a box" >&2
exit 7
"""


@pytest.fixture
def serving(tmp_path, monkeypatch):
    """bench_gpu.serving() beside a `leat` as a wheel has it."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    (tmp_path / "leat").write_text(WHEELS)
    (tmp_path / "leat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sys.modules.pop("bench_gpu", None)
    import bench_gpu

    return bench_gpu.serving


def test_a_loader_reads_a_packed_dataset_from_it_whole(lt, blobs, serving):
    fields = {"k": lt.key(), "b": lt.bytes("bin")}
    with serving(blobs.path.parent.parent) as url:
        address = f"s3://{blobs.path.parent.name}/{blobs.path.name}"
        options = {"endpoint_url": url, "anonymous": True, "timeout": 60 * SLOW}
        with lt.Loader(address, batch_size=30, fields=fields, **options) as loader:
            found = {key: bytes(blob) for keys, rows in loader for key, blob in zip(keys, rows, strict=True)}
    assert found == blobs.known


def test_it_gives_ranges_and_refuses_what_it_has_not(serving, tmp_path):
    (tmp_path / "box" / "b").mkdir(parents=True)
    (tmp_path / "box" / "b" / "k").write_bytes(b"0123456789")

    def ask(path, **headers):
        try:
            with urllib.request.urlopen(urllib.request.Request(url + path, headers=headers), timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, b""

    with serving(tmp_path / "box") as url:
        assert ask("/b/k") == (200, b"0123456789")
        assert ask("/b/k", Range="bytes=2-4") == (206, b"234")
        assert ask("/b/k", Range="bytes=7-") == (206, b"789")
        assert ask("/b/k", Range="bytes=-2") == (206, b"89")
        assert ask("/b/k", Range="bytes=10-") == (416, b"")
        assert ask("/b/k", **{"If-Match": '"another"'}) == (412, b"")
        assert ask("/b/none") == (404, b"")
        assert ask("/b/..%2f..%2fleat") == (404, b"")
        assert ask("/b?list-type=2") == (501, b"")
