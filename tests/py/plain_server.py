"""A plain web server for tests: files under paths, and as much about their versions as it is set to state."""

import hashlib
import re
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VALIDATORS = ("none", "weak", "date", "etag")


class PlainServer:
    """`files`: {path: bytes}. `validator`: what answers state about an object's version. `dates`: {path: seconds}."""

    def __init__(self, validator="none", files=None):
        self.validator = validator
        self.files = dict(files or {})
        self.dates = {}
        self.requests = []  # (method, path, range)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def version(self, path):
        """The headers that tell one version of a file from another."""
        tag = hashlib.md5(self.files[path]).hexdigest()
        date = formatdate(self.dates.get(path, 1_600_000_000), usegmt=True)
        return {
            "none": {},
            "weak": {"ETag": 'W/"same"'},
            "date": {"Last-Modified": date},
            "etag": {"ETag": f'"{tag}"'},
        }[self.validator]

    def answer(self, to):
        self.requests.append((to.command, to.path, to.headers.get("Range")))
        data = self.files.get(to.path)
        if data is None:
            self.send(to, 404, {}, b"")
            return
        head = self.version(to.path)
        held = to.headers.get("If-Match")
        since = to.headers.get("If-Unmodified-Since")
        if (held and held != head.get("ETag")) or (since and since != head.get("Last-Modified")):
            self.send(to, 412, {}, b"")
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", to.headers.get("Range") or "")
        if not asked:
            self.send(to, 200, head, data)
            return
        first, last = int(asked[1]), min(int(asked[2]), len(data) - 1)
        part = data[first : last + 1]
        self.send(to, 206, {**head, "Content-Range": f"bytes {first}-{last}/{len(data)}"}, part)

    @staticmethod
    def send(to, code, head, body):
        to.send_response(code)
        for name, value in {**head, "Content-Length": str(len(body))}.items():
            to.send_header(name, value)
        to.end_headers()
        if to.command != "HEAD":
            to.wfile.write(body)

    def reads(self):
        """GETs so far."""
        return sum(method == "GET" for method, _, _ in self.requests)
