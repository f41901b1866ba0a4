"""Listing equals boto3's over several pages, with and without a prefix and a delimiter."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture(scope="module")
def filled(s3, module_bucket, list_page):
    """A bucket with more keys than two pages hold, in folders, some with names that sort unlike their bytes look."""
    bucket = module_bucket
    keys = [f"train/n{i % 23:02}/img_{i:05}.jpg" for i in range(list_page * 23 // 10)]
    keys += [f"train.{i}" for i in range(5)] + ["train0", "Train/x", "ünter/ä b", "~z"]
    keys += [f"flat/{i}" for i in range(list_page * 6 // 5)]
    keys += [f"many/{i:04}/x" for i in range(list_page * 11 // 10)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: s3.put_object(Bucket=bucket, Key=key, Body=b"x" * (len(key) % 7)), keys))
    return bucket


def boto_listing(s3, bucket, prefix, delimiter):
    """[(key, size) …] with (prefix, None) for common prefixes, sorted by bytes."""
    found = []
    arguments = {"Bucket": bucket, "Prefix": prefix, **({"Delimiter": "/"} if delimiter else {})}
    for page in s3.get_paginator("list_objects_v2").paginate(**arguments):
        found += [(entry["Key"], entry["Size"]) for entry in page.get("Contents", [])]
        found += [(entry["Prefix"], None) for entry in page.get("CommonPrefixes", [])]
    return sorted(found, key=lambda entry: entry[0].encode())


def leat_listing(leat, bucket, prefix, recursive):
    done = leat("ls", "--json", *(["-r"] if recursive else []), f"s3://{bucket}/{prefix}", status=0)
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    return [(e.get("key", e.get("prefix")), e.get("size")) for e in entries]


@pytest.mark.parametrize("recursive", [True, False], ids=["recursive", "one level"])
@pytest.mark.parametrize(
    "prefix",
    [
        *("train/", "train/n0", "train/n07/", "flat/", "many/", "many/00", "ünter/"),
        *(pytest.param(prefix, marks=pytest.mark.needs("lists in order")) for prefix in ("", "tra")),
    ],
)
def test_listing_equals_boto3s(prefix, recursive, leat, s3, filled):
    expected = boto_listing(s3, filled, prefix, not recursive)
    got = leat_listing(leat, filled, prefix, recursive)
    assert got == expected
    assert len(expected) > 0


@pytest.mark.needs("a key below a key")
@pytest.mark.parametrize("more", [[], pytest.param(["train/"], marks=pytest.mark.needs("keys that end in a slash"))])
@pytest.mark.parametrize("recursive", [True, False], ids=["recursive", "one level"])
def test_keys_that_are_folders_too_are_listed_as_boto3_lists_them(recursive, more, leat, s3, bucket):
    for key in [*more, "train", "train/n00", "train/n00/x", "train/n01/y", "train0"]:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for prefix in ["", "tra", "train/", "train/n0"]:
        assert leat_listing(leat, bucket, prefix, recursive) == boto_listing(s3, bucket, prefix, not recursive)


def test_folder_without_its_slash_is_listed_as_the_folder(leat, s3, filled):
    assert leat_listing(leat, filled, "flat", True) == boto_listing(s3, filled, "flat/", False)


def test_total_counts_objects_and_bytes(leat, s3, filled):
    expected = boto_listing(s3, filled, "", False)
    total = json.loads(leat("ls", "-r", "--total", "--json", f"s3://{filled}", status=0).stdout)
    assert total == {"objects": len(expected), "bytes": sum(size for _, size in expected), "prefixes": 0}


def test_time_and_etag_are_boto3s(leat, s3, bucket):
    s3.put_object(Bucket=bucket, Key="one", Body=b"data")
    head = s3.head_object(Bucket=bucket, Key="one")
    entry = json.loads(leat("ls", "--json", f"s3://{bucket}/", status=0).stdout)
    assert entry["etag"] == head["ETag"]
    assert entry["modified"] == head["LastModified"].strftime("%Y-%m-%dT%H:%M:%SZ")


def test_nothing_there_is_not_found(leat, bucket):
    done = leat("ls", f"s3://{bucket}/no/such/", status=3)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_reader_that_leaves_early_ends_the_listing_in_silence(leat_bin, clean_env, s3_env, filled):
    import subprocess

    command = f"'{leat_bin}' ls -r s3://{filled} | head -n 3"
    done = subprocess.run(
        ["sh", "-c", command], env={**clean_env, **s3_env}, capture_output=True, text=True, timeout=60, check=False
    )
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == ""
