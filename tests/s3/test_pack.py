"""Packing into a bucket of radosgw: its conditions keep two packers from undoing each other."""

import json
import subprocess

import pytest


@pytest.fixture
def sources(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        for i in range(40):
            (tmp_path / name / f"{i}.bin").write_bytes(f"{name} {i}".encode() * 200)
    return tmp_path


@pytest.mark.needs("conditions")
def test_of_two_packers_into_one_place_one_gets_an_error(sources, leat_bin, clean_env, s3_env, bucket, run_leat):
    env = {**clean_env, **s3_env}
    command = [leat_bin, "pack", "--json", "--chunk-size", "4KiB"]
    for i in range(2):
        url = f"s3://{bucket}/ds{i}"
        both = [
            subprocess.Popen([*command, sources / name, url], env=env, stdout=-1, stderr=-1, text=True) for name in "ab"
        ]
        results = [process.communicate(timeout=60) for process in both]
        good = [json.loads(out) for process, (out, _) in zip(both, results, strict=True) if process.returncode == 0]
        assert len(good) == 1, results
        assert good[0]["guarded"] is True
        info = json.loads(run_leat("info", "--json", url, env=s3_env, status=0).stdout)
        assert info["id"] == good[0]["id"]
        run_leat("verify", "-q", url, env=s3_env, status=0)
    for name in "ab":  # a version that was seen is replaced: one of them is what is there already
        made = json.loads(run_leat("pack", "--json", "--replace", sources / name, url, env=s3_env, status=0).stdout)
        assert made["guarded"] is True
        assert json.loads(run_leat("info", "--json", url, env=s3_env, status=0).stdout)["id"] == made["id"]


def test_the_same_files_make_the_same_objects_from_disk_and_from_a_bucket(sources, s3_env, bucket, run_leat):
    run_leat("cp", "-r", f"{sources}/a/", f"s3://{bucket}/raw/", env=s3_env, status=0)
    made = [
        json.loads(run_leat("pack", "--json", source, f"s3://{bucket}/{to}", env=s3_env, status=0).stdout)["id"]
        for source, to in ((sources / "a", "one"), (f"s3://{bucket}/raw", "two"))
    ]
    assert made[0] == made[1]
