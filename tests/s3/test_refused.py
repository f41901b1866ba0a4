"""What the gateway refuses: one clear line, the documented exit status, and no retries that cannot help."""

import pytest


def one_line(done):
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("leat: ")
    return lines[0]


@pytest.mark.needs("keys that count")
def test_wrong_secret_is_denied(leat, bucket, s3_env):
    done = leat("ls", f"s3://{bucket}", env={"AWS_SECRET_ACCESS_KEY": "not-the-secret-key"}, status=4)
    line = one_line(done)
    assert "secret key" in line
    assert "AWS_ACCESS_KEY_ID" in line, "it says where the keys came from"
    assert "not-the-secret-key" not in line
    assert s3_env["AWS_ACCESS_KEY_ID"] not in line


@pytest.mark.needs("keys that count")
def test_unknown_access_key_is_denied(leat, bucket):
    done = leat("ls", f"s3://{bucket}", env={"AWS_ACCESS_KEY_ID": "NOBODYKNOWSTHISKEY"}, status=4)
    assert "access key" in one_line(done)


@pytest.mark.needs("keys that count")
@pytest.mark.parametrize("command", ["cat", "rm", "cp"])
def test_wrong_secret_is_denied_for_every_command(command, leat, s3, bucket, tmp_path):
    s3.put_object(Bucket=bucket, Key="o", Body=b"x")
    more = [tmp_path / "x"] if command == "cp" else []
    done = leat(command, f"s3://{bucket}/o", *more, env={"AWS_SECRET_ACCESS_KEY": "wrong"}, status=4)
    one_line(done)
    assert done.stdout == ""
    assert list(tmp_path.glob("x*")) == []


@pytest.mark.needs("keys that count")
def test_writing_with_a_wrong_secret_is_denied_and_writes_nothing(leat, keys_of, bucket, tmp_path):
    (tmp_path / "data").write_bytes(b"x" * (12 << 20))
    done = leat("cp", tmp_path / "data", f"s3://{bucket}/o", env={"AWS_SECRET_ACCESS_KEY": "wrong"}, status=4)
    one_line(done)
    assert keys_of(bucket) == []


@pytest.mark.parametrize("command", ["ls", "cat", "rm"])
def test_missing_bucket_is_not_found(command, leat):
    done = leat(command, "s3://leat-no-such-bucket/key", status=3)
    assert "leat-no-such-bucket" in one_line(done)


@pytest.mark.needs("missing buckets")
def test_writing_to_a_missing_bucket_is_not_found(leat, tmp_path):
    (tmp_path / "data").write_bytes(b"x")
    done = leat("cp", tmp_path / "data", "s3://leat-no-such-bucket/key", status=3)
    assert "no such bucket" in one_line(done)


@pytest.mark.parametrize("command", ["cat", "rm", "cp"])
def test_missing_key_is_not_found_and_named(command, leat, bucket, tmp_path):
    more = [tmp_path / "x"] if command == "cp" else []
    done = leat(command, f"s3://{bucket}/no/such key", *more, status=3)
    assert f"s3://{bucket}/no/such key" in one_line(done)
    assert list(tmp_path.glob("x*")) == []


@pytest.mark.needs("keys that count")
@pytest.mark.needs("anonymous refusals")
def test_somebody_elses_bucket_is_denied(leat, boto, bucket):
    done = leat("ls", f"s3://{bucket}", env={"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, status=4)
    line = one_line(done)
    assert "anonymous" in line
    assert "AWS_ACCESS_KEY_ID" in line
