"""A small S3 and web server on raw sockets that misbehaves on command, and remembers every request it got.

    server.objects["bucket/key"] = b"..."
    server.fault(status(503, "SlowDown"), times=3, method="GET")

A fault is a function (exchange) -> None that does with the connection whatever it likes; without one the request is
answered properly. One thread a connection; everything is over loopback.
"""

import contextlib
import hashlib
import socket
import ssl
import struct
import threading
import time
from collections import namedtuple
from email.utils import formatdate
from urllib.parse import parse_qsl, quote, unquote_to_bytes

MODIFIED = 1700000000

REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 301: "Moved", 307: "Temporary", 400: "Bad Request"}

Fault = namedtuple("Fault", "action method key match")


class Request:
    """What arrived: the head as text, the body as bytes, and when and on which connection."""

    def __init__(self, head, body, connection):
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = lines[0].split(" ", 2)
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.body = body
        self.connection = connection
        self.at = time.monotonic()
        target = self.target
        if "://" in target:  # as a proxy gets it
            target = "/" + target.split("://", 1)[1].partition("/")[2]
        path, _, query = target.partition("?")
        self.key = unquote_to_bytes(path.lstrip("/")).decode("utf-8", "surrogateescape")
        self.query = dict(parse_qsl(query, keep_blank_values=True))

    @property
    def range(self):
        """(first, last) of the Range header, or None."""
        text = self.headers.get("range", "")
        if not text.startswith("bytes="):
            return None
        first, _, last = text[6:].partition("-")
        return int(first), int(last)

    @property
    def range_bytes(self):
        first, last = self.range
        return last - first + 1

    @property
    def region(self):
        """The region of the signature, or None when the request is not signed."""
        scope = self.headers.get("authorization", "").partition("Credential=")[2]
        return scope.split("/")[2] if scope else None

    def __repr__(self):
        return f"<{self.method} {self.target} {self.headers.get('range', '')}>"


class Exchange:
    """One request and the connection to answer it on."""

    def __init__(self, server, connection, request):
        self.server = server
        self.connection = connection
        self.request = request
        self.keep = True  # the connection serves another request

    def send(self, data):
        self.connection.sendall(data)

    def head(self, code, headers):
        lines = [f"HTTP/1.1 {code} {REASONS.get(code, 'Whatever')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def answer(self, code, body=b"", headers=None):
        """A whole answer; a HEAD gets no body."""
        every = {"Content-Length": len(body), "Date": formatdate(self.server.now(), usegmt=True)}
        every.update(headers or {})
        self.head(code, {name: value for name, value in every.items() if value is not None})
        if self.request.method != "HEAD":
            self.send(body)

    def error(self, code, name, message="", more="", headers=None):
        body = f'<?xml version="1.0"?><Error><Code>{name}</Code><Message>{message}</Message>{more}</Error>'.encode()
        self.answer(code, body, {"Content-Type": "application/xml", **(headers or {})})

    def object_part(self):
        """(code, headers, body) of a proper answer to a GET or HEAD of an object that is there."""
        data = self.server.objects[self.request.key]
        headers = {
            "ETag": self.server.etag(self.request.key),
            "Last-Modified": formatdate(self.server.modified.get(self.request.key, MODIFIED), usegmt=True),
            "Accept-Ranges": "bytes",
        }
        if not self.request.range or self.request.method == "HEAD":
            return 200, headers, data
        first, last = self.request.range
        if first >= len(data):
            return 416, {"Content-Range": f"bytes */{len(data)}"}, b""
        last = min(last, len(data) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return 206, headers, data[first : last + 1]

    def reset(self):
        """Ends the connection with RST."""
        self.keep = False
        raw = self.connection
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()

    def close(self):
        self.keep = False
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)

    def wait_gone(self, timeout=60):
        """Waits until the other side has hung up (or the server stops): how a test sees that a slot was freed."""
        self.keep = False
        deadline = time.monotonic() + timeout
        self.connection.settimeout(0.05)
        while time.monotonic() < deadline and not self.server.stopping:
            try:
                if not self.connection.recv(65536):
                    return True
            except socket.timeout:
                continue
            except OSError:
                return True
        return False


class FaultyServer:
    """`objects` maps "bucket/key" to bytes. `requests` holds every request in the order they arrived."""

    def __init__(self, tls=None, host="127.0.0.1", port=0, clock_offset=0):
        self.objects = {}
        self.tags = {}  # keys whose ETag is not the MD5 of the bytes
        self.digests = {}  # what the others' ETags were made of, and the ETags
        self.modified = {}  # keys that were written while the server ran
        self.uploads = {}
        self.requests = []
        self.connections = 0
        self.faults = []
        self.clock_offset = clock_offset
        self.page_keys = 1000
        self.stopping = False
        self.lock = threading.Lock()
        self.threads = []
        self.open = set()
        self.tls = tls
        self.listener = socket.create_server((host, port), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.host = host
        self.listener.settimeout(0.1)
        self._spawn(self._accept)

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    def env(self, region="us-east-1"):
        """Variables that point an S3 client at this server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test-secret",
            "AWS_REGION": region,
        }

    def now(self):
        return time.time() + self.clock_offset

    def etag(self, key):
        data = self.objects[key]
        if key in self.tags:
            return self.tags[key]
        if self.digests.get(key, (None,))[0] is not data:
            self.digests[key] = data, f'"{hashlib.md5(data).hexdigest()}"'
        return self.digests[key][1]

    def fault(self, action, times=None, after=0, method=None, key=None, match=None):
        """Does `action` to requests that fit; `times` of them (None: all), leaving out the first `after`."""
        state = {"after": after, "left": times}

        def fits(request):
            if (method and request.method != method) or (key and request.key != key) or (match and not match(request)):
                return False
            if state["after"]:
                state["after"] -= 1
                return False
            if state["left"] is not None:
                if not state["left"]:
                    return False
                state["left"] -= 1
            return True

        self.faults.append(Fault(action, method, key, fits))

    def count(self, method=None, key=None):
        return len(self.of(method, key))

    def of(self, method=None, key=None):
        with self.lock:
            return [r for r in self.requests if (not method or r.method == method) and (not key or r.key == key)]

    def stop(self):
        self.stopping = True
        self.listener.close()
        with self.lock:
            left = list(self.open)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive(), "a thread of the test's server does not end"

    def _spawn(self, run, *args):
        thread = threading.Thread(target=run, args=args, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while not self.stopping:
            try:
                connection, _ = self.listener.accept()
            except socket.timeout:
                continue
            except OSError:
                return
            connection.settimeout(60)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.connections += 1
                number = self.connections
                self.open.add(connection)
            self._spawn(self._serve, connection, number)

    def _serve(self, connection, number):
        raw = connection
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            buffered = b""
            while not self.stopping:
                exchange, buffered = self._read(connection, number, buffered)
                if not exchange:
                    break
                self._respond(exchange)
                if not exchange.keep:
                    break
        except (OSError, ssl.SSLError, ValueError):
            pass  # the other side has hung up: that is its right
        finally:
            with self.lock:
                self.open.discard(raw)
            connection.close()

    def _read(self, connection, number, data):
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return None, b""
            data += piece
            if data[0] < 32:  # TLS, where none is spoken
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                return None, b""
        head, _, rest = data.partition(b"\r\n\r\n")
        request = Request(head, b"", number)
        length = int(request.headers.get("content-length", 0))
        body = bytearray(rest)
        while len(body) < length:
            piece = connection.recv(1 << 20)
            if not piece:
                return None, b""
            body += piece
        request.body = bytes(body[:length])
        with self.lock:
            self.requests.append(request)
        return Exchange(self, connection, request), bytes(body[length:])

    def _respond(self, exchange):
        with self.lock:
            action = next((f.action for f in self.faults if f.match(exchange.request)), None)
        (action or self.proper)(exchange)

    def proper(self, exchange):
        """The answer of a server without faults."""
        request = exchange.request
        if request.method in ("GET", "HEAD") and "list-type" in request.query:
            self._list(exchange)
        elif request.method in ("GET", "HEAD") and "uploadId" in request.query:
            self._list_parts(exchange)
        elif request.method in ("GET", "HEAD"):
            self._get(exchange)
        elif request.method == "PUT" and "uploadId" in request.query:
            self._put_part(exchange)
        elif request.method == "PUT":
            self.objects[request.key] = request.body
            self.modified[request.key] = self.now()
            exchange.answer(200, headers={"ETag": self.etag(request.key)})
        elif request.method == "POST":
            self._post(exchange)
        elif request.method == "DELETE":
            if "uploadId" in request.query:
                self.uploads.pop(request.query["uploadId"], None)
            else:
                self.objects.pop(request.key, None)
            exchange.answer(204, headers={"Content-Length": None})
        else:
            exchange.error(405, "MethodNotAllowed")

    def _get(self, exchange):
        request = exchange.request
        if request.key not in self.objects:
            exchange.error(404, "NoSuchKey")
        elif "if-match" in request.headers and request.headers["if-match"] != self.etag(request.key):
            exchange.error(412, "PreconditionFailed")
        else:
            code, headers, body = exchange.object_part()
            exchange.answer(code, body, headers)

    def _put_part(self, exchange):
        upload = self.uploads.get(exchange.request.query["uploadId"])
        if upload is None:
            exchange.error(404, "NoSuchUpload")
            return
        body = exchange.request.body
        upload[int(exchange.request.query["partNumber"])] = body
        exchange.answer(200, headers={"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def _list_parts(self, exchange):
        if exchange.request.query["uploadId"] not in self.uploads:
            exchange.error(404, "NoSuchUpload")
        else:
            exchange.answer(200, b"<ListPartsResult><IsTruncated>false</IsTruncated></ListPartsResult>")

    def _post(self, exchange):
        request = exchange.request
        if "uploads" in request.query:
            number = f"upload-{len(self.requests)}"
            self.uploads[number] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>"
            exchange.answer(200, text.encode())
            return
        parts = self.uploads.pop(request.query.get("uploadId"), None)
        if parts is None:
            exchange.error(404, "NoSuchUpload")
            return
        digests = b"".join(hashlib.md5(parts[n]).digest() for n in sorted(parts))
        self.modified[request.key] = self.now()
        self.tags[request.key] = f'"{hashlib.md5(digests).hexdigest()}-{len(parts)}"'
        self.objects[request.key] = b"".join(parts[n] for n in sorted(parts))
        text = (
            "<CompleteMultipartUploadResult><ETag>"
            + self.tags[request.key].replace('"', "&quot;")
            + "</ETag></CompleteMultipartUploadResult>"
        )
        exchange.answer(200, text.encode())

    def _list(self, exchange):
        query = exchange.request.query
        bucket = exchange.request.key.rstrip("/")
        prefix = query.get("prefix", "")
        delimiter = query.get("delimiter")
        start = query.get("continuation-token", "")
        with self.lock:
            names = [name[len(bucket) + 1 :] for name in self.objects if name.startswith(bucket + "/" + prefix)]
        entries = {}
        for name in names:
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                entries[prefix + rest.partition(delimiter)[0] + delimiter] = None
            else:
                entries[name] = bucket + "/" + name
        order = sorted((e for e in entries if e > start), key=lambda e: e.encode("utf-8", "surrogateescape"))
        page, more = order[: self.page_keys], len(order) > self.page_keys
        text = ["<ListBucketResult><EncodingType>url</EncodingType>"]
        for name in page:
            shown = quote(name.encode("utf-8", "surrogateescape"), safe="/~-._")
            if entries[name] is None:
                text.append(f"<CommonPrefixes><Prefix>{shown}</Prefix></CommonPrefixes>")
            else:
                etag = self.etag(entries[name]).replace('"', "&quot;")
                size = len(self.objects[entries[name]])
                text.append(
                    f"<Contents><Key>{shown}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified>"
                    f"<ETag>{etag}</ETag><Size>{size}</Size></Contents>"
                )
        text.append(f"<IsTruncated>{str(more).lower()}</IsTruncated>")
        if more:
            text.append(f"<NextContinuationToken>{page[-1]}</NextContinuationToken>")
        text.append("</ListBucketResult>")
        exchange.answer(200, "".join(text).encode(), {"Content-Type": "application/xml"})


# Faults.


def status(code, name="", message="", headers=None, more=""):
    """An S3 error document (an empty name: just the code)."""

    def act(exchange):
        if name:
            exchange.error(code, name, message, more, headers)
        else:
            exchange.answer(code, b"", headers)

    return act


def changed(edit):
    """A proper answer to a GET with something wrong: edit(code, headers, body) -> the same three."""

    def act(exchange):
        code, headers, body = edit(*exchange.object_part())
        exchange.answer(code, body, headers)

    return act


def truncated(n):
    """The head promises everything, then n bytes come and the connection ends."""

    def act(exchange):
        code, headers, body = exchange.object_part()
        exchange.head(code, {**headers, "Content-Length": len(body)})
        exchange.send(body[:n])
        exchange.close()

    return act


def reset(exchange):
    exchange.reset()


def reset_after(n):
    """n bytes of the body, then RST."""

    def act(exchange):
        code, headers, body = exchange.object_part()
        exchange.head(code, {**headers, "Content-Length": len(body)})
        exchange.send(body[:n])
        time.sleep(0.05)  # RST overtakes data that the other side has not read yet
        exchange.reset()

    return act


def lost_answer(exchange):
    """Does what was asked; the answer does not arrive."""
    exchange.send = lambda data: None
    exchange.server.proper(exchange)
    exchange.reset()


def black_hole(exchange):
    """Takes the request and never answers."""
    exchange.wait_gone()


def stalled(n):
    """n bytes of the body, then nothing."""

    def act(exchange):
        code, headers, body = exchange.object_part()
        exchange.head(code, {**headers, "Content-Length": len(body)})
        exchange.send(body[:n])
        exchange.wait_gone()

    return act


def dripping(exchange):
    """A byte a second."""
    code, headers, body = exchange.object_part()
    exchange.head(code, {**headers, "Content-Length": len(body)})
    exchange.keep = False
    exchange.connection.settimeout(1)
    for byte in body:
        exchange.send(bytes([byte]))
        if exchange.server.stopping:
            return
        with contextlib.suppress(socket.timeout):
            if not exchange.connection.recv(1):
                return


def garbage(data):
    def act(exchange):
        exchange.send(data)
        exchange.close()

    return act
