"""Folders copied up, across and down again are byte-identical; rm takes what it names and nothing else."""

import json
import random

import pytest


def tree_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def tree(tmp_path):
    rng = random.Random(7)
    folder = tmp_path / "tree"
    names = [f"d{i % 13}/e{i % 5}/file {i} =+%&?#'\"ü.bin" for i in range(65)]
    names += ["top", ".hidden", "d0/.hidden/x", "empty", "d1/big"]
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        size = 0 if name == "empty" else 9 << 20 if name == "d1/big" else rng.randrange(20000)
        path.write_bytes(rng.randbytes(size))
    return folder


def test_folder_up_across_and_down_is_byte_identical(leat, s3, keys_of, bucket, tree, tmp_path):
    expected = tree_of(tree)
    leat("cp", "--recursive", tree, f"s3://{bucket}/one", status=0)
    assert keys_of(bucket) == sorted((f"one/{name}" for name in expected), key=str.encode)
    for name in ["top", "empty", "d1/big"]:
        assert s3.get_object(Bucket=bucket, Key=f"one/{name}")["Body"].read() == expected[name]
    leat("cp", "--recursive", f"s3://{bucket}/one", f"s3://{bucket}/two/", status=0)
    done = leat("cp", "--recursive", "--json", f"s3://{bucket}/two", tmp_path / "down", status=0)
    assert tree_of(tmp_path / "down") == expected
    assert json.loads(done.stdout) == {
        "objects": len(expected),
        "skipped": 0,
        "bytes": sum(len(data) for data in expected.values()),
    }


@pytest.mark.needs("keys with backslashes")
def test_backslashes_are_part_of_a_name(leat, keys_of, bucket, tmp_path):
    (tmp_path / "tree" / "d").mkdir(parents=True)
    for name in ["a\\b", "d/\\"]:
        (tmp_path / "tree" / name).write_text(name)
    leat("cp", "--recursive", tmp_path / "tree", f"s3://{bucket}/one", status=0)
    assert keys_of(bucket) == ["one/a\\b", "one/d/\\"]
    leat("cp", "--recursive", f"s3://{bucket}/one", tmp_path / "down", status=0)
    assert tree_of(tmp_path / "down") == tree_of(tmp_path / "tree")


def test_resume_leaves_out_what_is_there(leat, s3, bucket, tree):
    leat("cp", "--recursive", tree, f"s3://{bucket}/t", status=0)
    s3.delete_object(Bucket=bucket, Key="t/top")
    done = leat("cp", "--recursive", "--resume", "--json", tree, f"s3://{bucket}/t", status=0)
    counts = json.loads(done.stdout)
    assert counts["objects"] == 1
    assert counts["skipped"] == len(tree_of(tree)) - 1


@pytest.mark.parametrize("more", [[], pytest.param(["train"], marks=pytest.mark.needs("a key below a key"))])
def test_rm_recursive_takes_the_folder_and_not_its_neighbours(more, leat, s3, keys_of, bucket):
    for i in range(12):
        s3.put_object(Bucket=bucket, Key=f"train/{i} =+", Body=b"x")
    others = sorted(["trai", "train2/x", *more])
    for key in others:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    dry = leat("rm", "--recursive", "--dry-run", f"s3://{bucket}/train", status=0)
    assert len(dry.stdout.splitlines()) == 12
    assert len(keys_of(bucket)) == 12 + len(others)
    done = leat("rm", "--recursive", "--json", f"s3://{bucket}/train", status=0)
    assert json.loads(done.stdout) == {"deleted": 12}
    assert keys_of(bucket) == others
