"""The settings of leat.Loader, for type checkers. Made by tools/settings.py from the C library's table."""

from __future__ import annotations

from typing import Literal, TypedDict

from leat._types import Address, Bytes, Seconds, Whole
from leat.views import Blocks


class Settings(TypedDict, total=False):
    """Keywords of leat.Loader; None is the default of each."""

    version: str | None  # which version of the dataset: a content id in hexadecimal digits, or a name
    batch_size: Whole | None  # samples per batch on each rank
    global_batch_size: Whole | None  # samples per batch on all ranks together
    rank: Whole | None  # this rank; else torch.distributed or RANK says
    world_size: Whole | None  # how many ranks there are; else torch.distributed or WORLD_SIZE says
    last: Literal["drop", "pad", "short"] | None  # what happens to samples that do not fill the last batch
    on_error: Literal["raise", "skip"] | None  # what happens when a sample cannot be decoded
    seed: Whole | None  # seed of the shuffle and of random draws
    window: Whole | None  # how many chunks are mixed; else the dataset's default
    epoch: Whole | None  # to begin with
    ram: Bytes | None  # the agent's memory for chunks
    threads: Whole | None  # the agent's threads that prepare samples
    slots: Whole | None  # batches in shared memory, including those you hold
    timeout: Seconds | None  # how long any call waits
    linger: Seconds | None  # how long a new agent outlives its last loader
    scope: str | None  # which agent of this machine
    agent: Address | None  # path of the leat command
    endpoint_url: str | None  # of an S3 server
    region: str | None  # of the bucket
    profile: str | None  # of ~/.aws
    anonymous: bool | None  # do not sign requests
    cache_dir: Address | None  # folder of the agent's cache on disk
    cache: Bytes | None  # how much of the disk that cache may take
    purpose: Literal["train", "warm"] | None  # what the batches are for: warm fills the cache on disk
    view: Blocks | str | None  # what is counted: samples, or blocks of tokens such as 'blocks=2048 shift=1'
    epoch_size: Whole | None  # samples of all ranks in an epoch; else as many as there are
    metrics: str | None  # where the agent serves its metrics for Prometheus: '127.0.0.1:9100'
    name: str | None  # what leat top, metrics and traces call this loader; else the end of the dataset's address
    share: Literal["on", "off"] | None  # decode once for all loaders of this machine that ask for the same samples
    draw_seed: Whole | None  # seed of random draws alone; else the seed
