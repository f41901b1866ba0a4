"""Random chains of resumes, jumps, worlds, forks, killed agents and replaced datasets: no sample lost, doubled or wrong.

SUITE_CHAIN=17 runs that one alone."""

import os
import zlib

import pytest
from chain import Versions, run_chains
from loading import make_blobs, pack


@pytest.fixture
def versions(leat_bin, tmp_path):
    """Three contents under one address: other counts, other bytes for the same keys."""
    url = tmp_path / "ds"
    pointers, contents = {}, {}
    for seed, (name, count) in enumerate((("a", 61), ("b", 48), ("c", 37))):
        files = make_blobs(tmp_path / name, count, seed=seed + 1, sizes=(0, 1500))
        pack(leat_bin, tmp_path / name, url, "--chunk-size", "4KiB", "--replace")
        pointers[name] = (url / "leat" / "current").read_bytes()
        contents[name] = {key: zlib.crc32(data) for key, data in files.items()}
    return Versions(str(url), pointers, contents)


def chains(lt, runtime, versions, numbers, seconds=None):
    one = os.environ.get("SUITE_CHAIN")
    return run_chains(lt, versions, runtime.agents, [int(one)] if one else numbers, seconds)


def test_chains_lose_double_and_mix_nothing(lt, runtime, versions):
    assert chains(lt, runtime, versions, range(40))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_thousands_of_chains_lose_double_and_mix_nothing(lt, runtime, versions):
    assert chains(lt, runtime, versions, range(1000, 21000))
