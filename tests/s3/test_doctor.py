"""leat doctor against a real gateway: what is well is well, and what is wrong is named."""

import json

import pytest


@pytest.fixture
def doctor(leat, bucket, tmp_path):
    """doctor(url, env, status) -> {name: finding} of a bucket with a dataset."""
    (tmp_path / "files").mkdir()
    for i in range(20):
        (tmp_path / "files" / f"{i}.bin").write_bytes(bytes([i]) * 5000)
    leat("pack", "--quiet", tmp_path / "files", f"s3://{bucket}/set", status=0)

    def run(url, env=None, status=0):
        done = leat("doctor", "--json", "--time", "300ms", "--bytes", "4MiB", url, env=env or {}, status=status)
        return {f["name"]: f for f in json.loads(done.stdout)["findings"]}

    return run


def test_a_bucket_that_is_well(doctor, bucket):
    found = doctor(f"s3://{bucket}/set")
    assert all(found[name]["state"] == "ok" for name in ("keys", "endpoint", "clock", "region", "dataset", "line"))
    assert found["latency"]["median_s"] > 0 and "20 samples" in found["dataset"]["found"]


@pytest.mark.needs("keys that count")
def test_a_wrong_secret_is_named(doctor, bucket):
    found = doctor(f"s3://{bucket}/set", env={"AWS_SECRET_ACCESS_KEY": "wrong"}, status=1)
    assert "SignatureDoesNotMatch" in found["access"]["found"]


@pytest.mark.needs("keys that count")
@pytest.mark.needs("anonymous refusals")
def test_keys_that_are_not_there_are_named(doctor, bucket):
    found = doctor(f"s3://{bucket}/set", env={"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, status=1)
    assert "anonymous" in found["access"]["found"]


def test_what_is_not_there_is_named(doctor, bucket):
    found = doctor(f"s3://{bucket}-is-not-there/set", status=1)
    assert "NoSuchBucket" in found["bucket"]["found"]
    found = doctor(f"s3://{bucket}/elsewhere", status=1)
    assert found["dataset"]["state"] == "bad"
