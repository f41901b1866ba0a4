"""A bucket in a box for a machine whose `leat` has none, as a wheel's: objects of a folder over HTTP, as far away and as slow as it
is told to be.

    python3 bench/plain_bucket.py DIR --latency 0.05 --bandwidth 1e9 --connection-bandwidth 50e6

Prints its URL and serves until it is ended. Reading only, without keys, on this machine only: what a Loader on a packed dataset
asks for, and no more. Everything else is refused, so that nobody takes it for `leat serve`.
"""

import argparse
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

PIECE = 1 << 20  # bytes between two looks at the clock


class Pace:
    """This many bytes a second, for all who share it."""

    def __init__(self, rate):
        self.rate, self.lock, self.free_at = rate, threading.Lock(), 0.0

    def wait_for(self, size):
        if not self.rate:
            return
        with self.lock:
            self.free_at = max(self.free_at, time.monotonic()) + size / self.rate
            until = self.free_at
        time.sleep(max(0, until - time.monotonic()))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.pace = Pace(self.server.connection_rate)

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def refuse(self, status, code):
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer(self, with_body):
        time.sleep(self.server.latency_s)
        asked = urlsplit(self.path)
        path = (self.server.root / unquote(asked.path).lstrip("/")).resolve()
        if asked.query:
            self.refuse(501, "NotImplemented")
            return
        try:
            if self.server.root not in path.parents:
                raise FileNotFoundError(path)
            file = open(path, "rb")
        except OSError:
            self.refuse(404, "NoSuchKey")
            return
        with file:
            self.give(file, with_body)

    def give(self, file, with_body):
        told = os.fstat(file.fileno())
        tag = f'"{told.st_ino:x}-{told.st_mtime_ns:x}-{told.st_size:x}"'
        wanted = self.headers.get("If-Match", tag)
        first, last = 0, told.st_size - 1
        ranged = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if ranged and ranged[1]:
            first, last = int(ranged[1]), min(last, int(ranged[2] or last))
        elif ranged:
            first = max(0, told.st_size - int(ranged[2] or 0))
        if wanted not in (tag, "*"):
            self.refuse(412, "PreconditionFailed")
            return
        if ranged and first > last:
            self.refuse(416, "InvalidRange")
            return
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("ETag", tag)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Last-Modified", self.date_time_string(int(told.st_mtime)))
        if ranged:
            self.send_header("Content-Range", f"bytes {first}-{last}/{told.st_size}")
        self.end_headers()
        self.wfile.flush()
        while with_body and first <= last:
            size = min(PIECE, last + 1 - first)
            self.pace.wait_for(size)
            self.server.pace.wait_for(size)
            first += os.sendfile(self.connection.fileno(), file.fileno(), first, size)

    def log_message(self, *args):
        pass


class Bucket(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder, latency_s=0.0, rate=0.0, connection_rate=0.0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = Path(folder).resolve()
        self.latency_s, self.pace, self.connection_rate = latency_s, Pace(rate), connection_rate
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """A client that went away is no error of ours."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--latency", type=float, default=0, help="seconds before each answer")
    parser.add_argument("--bandwidth", type=float, default=0, help="bytes per second, of all connections together")
    parser.add_argument("--connection-bandwidth", type=float, default=0, help="bytes per second, of each")
    options = parser.parse_args()
    bucket = Bucket(options.folder, options.latency, options.bandwidth, options.connection_bandwidth)
    print(bucket.url, flush=True)
    bucket.serve_forever()


if __name__ == "__main__":
    main()
