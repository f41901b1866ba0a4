"""What was packed into a bucket, and what lies there as it is, comes out of a loader as it went in."""

import hashlib
import json
import tempfile

import pytest

LOAD = """
import hashlib, json, sys, leat
fields = {"k": leat.key(), "b": leat.bytes("bin")}
seen = []
with leat.Loader(sys.argv[1], batch_size=8, fields=fields) as loader:
    for _ in range(2):
        for keys, blobs in loader:
            seen += [[key, hashlib.sha256(bytes(blob)).hexdigest()] for key, blob in zip(keys, blobs)]
print(json.dumps(seen))
"""


@pytest.fixture
def load(run_python, s3_env, leat_bin):
    """load(url) -> [[key, digest] …] of two epochs."""
    with tempfile.TemporaryDirectory(prefix="leat-t-", dir="/tmp") as runtime:  # short enough for a socket
        env = {**s3_env, "LEAT_RUNTIME_DIR": runtime, "LEAT_AGENT": str(leat_bin), "LEAT_LINGER": "100ms"}

        def run(url):
            done = run_python(LOAD, url, env=env)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        yield run


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    for i in range(40):
        path = folder / f"class {i % 4}" / f"{i:03}=+ü.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(hashlib.sha256(bytes([i])).digest() * (60 + i))
    return folder


def expected(files):
    found = [[str(p.relative_to(files)), hashlib.sha256(p.read_bytes()).hexdigest()] for p in files.rglob("*.bin")]
    return sorted(found * 2)


def test_a_packed_dataset_is_loaded(leat, load, files, bucket):
    leat("pack", "--chunk-size", "8KiB", files, f"s3://{bucket}/set", status=0)
    leat("verify", f"s3://{bucket}/set", status=0)
    assert sorted(load(f"s3://{bucket}/set")) == expected(files)


def test_objects_are_loaded_as_they_lie_there(leat, load, files, bucket):
    leat("cp", "--recursive", files, f"s3://{bucket}/raw", status=0)
    leat("index", f"s3://{bucket}/raw", f"s3://{bucket}/index", status=0)
    assert sorted(load(f"s3://{bucket}/index")) == expected(files)
