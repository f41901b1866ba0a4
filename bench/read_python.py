"""read_python.py CLIENT BUCKET CONNECTIONS: what read_objects does, with Python's clients, and the same JSON. The clock
starts after the imports and the listing.

get_object        boto3, get_object()["Body"].read() in this many threads
download_fileobj  boto3's own transfers in parallel, with a TransferConfig of this many threads
s3torchconnector  s3torchconnector's client in this many threads
"""

import io
import json
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config


def boto3_client(connections):
    return boto3.client("s3", config=Config(s3={"addressing_style": "path"}, max_pool_connections=2 * connections))


def get_object_reader(bucket, connections):
    client = boto3_client(connections)
    return lambda key: len(client.get_object(Bucket=bucket, Key=key)["Body"].read())


def download_fileobj_reader(bucket, connections):
    client = boto3_client(connections)
    config = TransferConfig(max_concurrency=connections)

    def read(key):
        into = io.BytesIO()
        client.download_fileobj(bucket, key, into, Config=config)
        return into.tell()

    return read


def s3torchconnector_reader(bucket, connections):
    from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client

    client = MountpointS3Client(
        region=os.environ["AWS_REGION"],
        user_agent_prefix="leat-bench",
        throughput_target_gbps=100.0,
        part_size=8 << 20,
        endpoint=os.environ["AWS_ENDPOINT_URL"],
        force_path_style=True,
    )
    return lambda key: sum(len(piece) for piece in client.get_object(bucket, key))


READERS = {
    "get_object": get_object_reader,
    "download_fileobj": download_fileobj_reader,
    "s3torchconnector": s3torchconnector_reader,
}


def main():
    kind, bucket, connections = sys.argv[1], sys.argv[2], int(sys.argv[3])
    read = READERS[kind](bucket, connections)
    pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [entry["Key"] for page in pages for entry in page["Contents"]]
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.monotonic()
    with ThreadPoolExecutor(connections) as pool:
        total = sum(pool.map(read, keys))
    seconds = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    result = {
        "bytes": total,
        "seconds": seconds,
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
