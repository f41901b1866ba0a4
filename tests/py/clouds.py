"""Google's and Azure's stores as their documents describe them, over loopback and in memory. The official
SDKs read and write the same servers beside Leat, which shows that these answer as the real ones do as far as they go.

    cloud = GoogleCloud()
    cloud.buckets["bucket"]["key"] = cloud.object(b"...")

`requests` holds what was asked; `tokens` maps each token that was handed out to when it ends; `fail` is a list of functions
(request) -> (code, headers, body) or None that come first; `lose` a list of functions (request) -> whether the connection
breaks after the work was done and before its answer.
"""

import base64
import hashlib
import hmac
import itertools
import json
import re
import threading
import time
import uuid
import zlib
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from sums import crc32c


def b64(data):
    return base64.b64encode(data).decode()


class Object:
    def __init__(self, data, number, encoding=None, md5=True):
        self.data = bytes(data)
        self.number = number
        self.encoding = encoding
        self.md5 = hashlib.md5(self.data).digest() if md5 else None
        self.modified = time.time()
        self.meta = {}  # headers that go with it

    @property
    def crc(self):
        return b64(crc32c(self.data).to_bytes(4, "big"))


class Request:
    def __init__(self, handler):
        split = urlsplit(handler.path)
        self.method = handler.command
        self.raw_path = split.path
        self.path = unquote(split.path, errors="surrogateescape")
        self.query_text = split.query
        self.query = dict(parse_qsl(split.query, keep_blank_values=True))
        self.headers = {k.lower(): v for k, v in handler.headers.items()}
        n = self.headers.get("content-length")
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            pieces = []
            while size := int(handler.rfile.readline().split(b";")[0], 16):
                pieces.append(handler.rfile.read(size))
                handler.rfile.readline()
            handler.rfile.readline()
            self.body = b"".join(pieces)
        else:
            self.body = handler.rfile.read(int(n or 0))

    def __repr__(self):
        return f"<{self.method} {self.path}?{self.query_text}>"


S3 = "xmlns='http://s3.amazonaws.com/doc/2006-03-01/'"


class Cloud:
    """What the servers share: a thread, the requests, versions, tokens."""

    def __init__(self):
        self.requests = []
        self.fail = []
        self.lose = []
        self.tokens = {}
        self.life = 3600
        self.skew = 0  # how far its clock is ahead
        self.open = False  # anybody may read and write
        self.page = 1000
        self.buckets = {}
        self.uploads = {}
        self.numbers = itertools.count(int(time.time() * 1e6))
        self.lock = threading.RLock()
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                request = Request(self)
                with cloud.lock:
                    cloud.requests.append(request)
                    code, headers, body = cloud.respond(request)
                    lost = [True for lose in cloud.lose if lose(request)]
                if lost:
                    self.close_connection = True
                    return
                self.send_response(code)
                length = headers.pop("Content-Length", None)
                for name, value in headers.items():
                    for one in value if isinstance(value, list) else [value]:
                        self.send_header(name, one)
                if code != 204:
                    self.send_header("Content-Length", length or str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

            def date_time_string(self, timestamp=None):
                return super().date_time_string(time.time() + cloud.skew)

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128  # a loader opens many connections at once: those that are dropped cost it seconds

        self.http = Server(("127.0.0.1", 0), Handler)
        self.port = self.http.server_port
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()

    def object(self, data, **more):
        return Object(data, next(self.numbers), **more)

    def token(self, who="token"):
        token = f"ya29.{who}-{next(self.numbers)}"
        self.tokens[token] = time.time() + self.life
        return token

    def token_answer(self, who, **more):
        return (
            200,
            {"Content-Type": "application/json"},
            json.dumps(
                {"access_token": self.token(who), "expires_in": self.life, "token_type": "Bearer", **more}
            ).encode(),
        )

    def bearer_is_good(self, request):
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return kind == "Bearer" and self.tokens.get(token, 0) > time.time()

    def respond(self, request):
        for fault in self.fail:
            answer = fault(request)
            if answer:
                return answer
        return self.serve(request)


def once(*answers):
    """A fault that happens as often as there are answers, each (code, headers, body)."""
    left = list(answers)
    return lambda request: left.pop(0) if left and "oauth" not in request.path else None


def cut_range(request, data, name="range"):
    """(code, body, headers) of a read."""
    text = request.headers.get(name) or request.headers.get("range", "")
    if not text.startswith("bytes="):
        return 200, data, {}
    first, _, last = text[6:].partition("-")
    first, last = int(first), min(int(last) if last else len(data) - 1, len(data) - 1)
    if first >= len(data):
        return 416, b"", {"Content-Range": f"bytes */{len(data)}"}
    return 206, data[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{len(data)}"}


def listed(keys, prefix, delimiter, after, most):
    """(entries, where the next page begins): entries are (key, is a prefix)."""
    seen = {}
    for key in sorted(keys, key=lambda k: k.encode("utf-8", "surrogateescape")):
        if not key.startswith(prefix):
            continue
        rest = key[len(prefix) :]
        folder = delimiter and delimiter in rest
        name = prefix + rest.split(delimiter)[0] + delimiter if folder else key
        seen.setdefault(name, bool(folder))
    names = [n for n in seen if not after or n > after]
    page = names[:most]
    return [(n, seen[n]) for n in page], page[-1] if len(names) > most else None


def xml_error(code, name, message=""):
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{name}</Code><Message>{message}</Message></Error>"
    return code, {"Content-Type": "application/xml"}, body.encode()


def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


class GoogleCloud(Cloud):
    """The XML interface (what Leat speaks), as much of the JSON one as google-cloud-storage needs, and the services that hand
    out tokens: OAuth's, the exchange for workload identity, impersonation, the metadata server."""

    def __init__(self):
        super().__init__()
        self.hmac = {}  # id -> secret
        self.public_key = None  # of the service account
        self.assertions = []
        self.forms = []
        self.rewrites = 1  # calls that a copy takes
        self.rewriting = {}

    def serve(self, r):
        if r.path.startswith(("/oauth", "/computeMetadata", "/subject")):
            return self.services(r)
        if not (self.open or self.bearer_is_good(r) or self.signed(r)):
            if "authorization" not in r.headers:
                return xml_error(403, "AccessDenied", "Anonymous caller does not have storage.objects.get access.")
            return xml_error(401, "AuthenticationRequired", "Invalid Credentials")
        for start in ("/download/storage/v1/b/", "/upload/storage/v1/b/", "/storage/v1/b/"):
            if r.path.startswith(start):
                return self.json_interface(r, r.raw_path[len(start) :])
        return self.xml_interface(r)

    def services(self, r):
        form = dict(parse_qsl(r.body.decode())) if r.body[:1] != b"{" else {}
        self.forms.append(form)
        if r.path == "/oauth/token":
            grant = form["grant_type"]
            if grant == "refresh_token":
                if form["refresh_token"] != "1//refresh" or form["client_secret"] != "hush":
                    return 400, {}, b'{"error": "invalid_grant", "error_description": "Bad Request 1//refresh"}'
                return self.token_answer("user")
            if grant.endswith("jwt-bearer"):
                return self.check_assertion(form["assertion"])
            if grant.endswith("token-exchange"):
                if form["subject_token"] != "subject-token":
                    return 400, {}, b'{"error": "invalid_grant"}'
                return self.token_answer("federated", issued_token_type="urn:ietf:params:oauth:token-type:access_token")
        if r.path == "/oauth/impersonate:generateAccessToken" and self.bearer_is_good(r):
            answer = {
                "accessToken": self.token("impersonated"),
                "expireTime": iso(time.time() + self.skew + self.life)[:-5] + "Z",
            }
            return 200, {}, json.dumps(answer).encode()
        if r.path == "/subject" and r.headers.get("x-ask") == "please":
            return 200, {}, b'{"value": "subject-token"}'
        if r.path.startswith("/computeMetadata/v1/") and r.headers.get("metadata-flavor") == "Google":
            if r.path.endswith("/token"):
                code, headers, body = self.token_answer("machine")
                return code, {"Metadata-Flavor": "Google", **headers}, body
            text = {"project/project-id": "project"}.get(r.path[len("/computeMetadata/v1/") :], "{}")
            if "service-accounts/default" in r.path:
                text = '{"email": "robot@project", "scopes": [], "aliases": ["default"]}'
            return 200, {"Metadata-Flavor": "Google", "Content-Type": "application/json"}, text.encode()
        return 404, {}, b"{}"

    def check_assertion(self, jwt):
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        head, claims, signature = jwt.split(".")
        decode = lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))  # noqa: E731
        self.public_key.verify(decode(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        self.assertions.append((json.loads(decode(head)), json.loads(decode(claims))))
        return self.token_answer("service")

    def signed(self, r):
        """GOOG4-HMAC-SHA256, computed again from the request as it arrived."""
        text = r.headers.get("authorization", "")
        if not text.startswith("GOOG4-HMAC-SHA256 "):
            return False
        parts = dict(p.strip().split("=", 1) for p in text.split(" ", 1)[1].split(","))
        who, day, region, service, last = parts["Credential"].split("/")
        names = parts["SignedHeaders"].split(";")
        query = "&".join(sorted(r.query_text.split("&"))) if r.query_text else ""
        lines = "".join(f"{n}:{' '.join(r.headers[n].split())}\n" for n in names)
        payload = r.headers["x-goog-content-sha256"]
        if payload not in ("UNSIGNED-PAYLOAD", hashlib.sha256(r.body).hexdigest()):
            return False
        canonical = "\n".join([r.method, r.raw_path, query, lines, parts["SignedHeaders"], payload])
        scope = f"{day}/{region}/{service}/{last}"
        signed = "\n".join(
            ["GOOG4-HMAC-SHA256", r.headers["x-goog-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()]
        )
        key = ("GOOG4" + self.hmac.get(who, "")).encode()
        for piece in (day, region, service, last):
            key = hmac.new(key, piece.encode(), hashlib.sha256).digest()
        return hmac.new(key, signed.encode(), hashlib.sha256).hexdigest() == parts["Signature"]

    def refused(self, r, there):
        """Whether a condition on the generation fails."""
        wanted = r.headers.get("x-goog-if-generation-match", r.query.get("ifGenerationMatch"))
        return wanted is not None and int(wanted) != (there.number if there else 0)

    def head_of(self, o):
        hashes = [f"crc32c={o.crc}"] + ([f"md5={b64(o.md5)}"] if o.md5 else [])
        head = {
            "ETag": f'"{o.md5.hex()}"' if o.md5 else '"CKih16GjycICEAE="',
            "x-goog-generation": str(o.number),
            "x-goog-metageneration": "1",
            "x-goog-hash": hashes,
            "x-goog-stored-content-length": str(len(o.data)),
            "x-goog-stored-content-encoding": o.encoding or "identity",
            "Last-Modified": formatdate(o.modified, usegmt=True),
            "Content-Type": "application/octet-stream",
        }
        if o.encoding:
            head["Content-Encoding"] = o.encoding
        return head | o.meta

    def copied(self, bucket, key, source):
        o = self.buckets[bucket][key] = self.object(source.data, encoding=source.encoding)
        o.meta = dict(source.meta)
        return o

    def xml_copy(self, r, bucket, key):
        name, _, source_key = unquote(r.headers["x-goog-copy-source"]).partition("/")
        source = self.buckets.get(name, {}).get(source_key)
        if not source:
            return xml_error(404, "NoSuchKey", "The specified key does not exist.")
        if r.headers.get("x-goog-copy-source-if-generation-match") != str(source.number):
            return xml_error(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
        o = self.copied(bucket, key, source)
        body = f"<CopyObjectResult><LastModified>{iso(o.modified)}</LastModified><ETag>x</ETag></CopyObjectResult>"
        return 200, {"x-goog-generation": str(o.number)}, body.encode()

    def rewrite(self, r, source_bucket, source_key, bucket, key):
        """Some of it with each call, as far as `rewrites` says."""
        source = self.buckets.get(source_bucket, {}).get(source_key)
        if not source or bucket not in self.buckets:
            return 404, {}, b'{"error": {"code": 404, "message": "no such object"}}'
        if r.query.get("ifSourceGenerationMatch", str(source.number)) != str(source.number):
            return 412, {}, b'{"error": {"code": 412, "message": "conditionNotMet"}}'
        token = r.query.get("rewriteToken")
        if token and token not in self.rewriting:
            return 400, {}, b'{"error": {"code": 400, "message": "Invalid rewrite token."}}'
        step = self.rewriting.pop(token) if token else 1
        answer = {"kind": "storage#rewriteResponse", "objectSize": str(len(source.data)), "done": step >= self.rewrites}
        if step < self.rewrites:
            token = f"token/{next(self.numbers)}+="
            self.rewriting[token] = step + 1
            answer |= {"rewriteToken": token, "totalBytesRewritten": str(step)}
        else:
            answer["resource"] = self.resource(bucket, key, self.copied(bucket, key, source))
            answer["totalBytesRewritten"] = str(len(source.data))
        return 200, {"Content-Type": "application/json"}, json.dumps(answer).encode()

    def store(self, bucket, key, data, r):
        if self.refused(r, self.buckets[bucket].get(key)):
            return xml_error(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
        for part in r.headers.get("x-goog-hash", "").split(","):
            kind, _, value = part.strip().partition("=")
            if kind == "crc32c" and value != b64(crc32c(data).to_bytes(4, "big")):
                return xml_error(400, "BadDigest", "The CRC32C you specified did not match what we received.")
        o = self.buckets[bucket][key] = self.object(data)
        return 200, self.head_of(o) | {"Content-Length": "0"}, b""

    def xml_interface(self, r):
        bucket, _, key = r.path.lstrip("/").partition("/")
        if any(n.startswith("x-amz-") for n in r.headers) and any(n.startswith("x-goog-") for n in r.headers):
            return xml_error(400, "ExcessHeaderValues", "x-amz- and x-goog- headers do not mix.")
        if bucket not in self.buckets:
            return xml_error(404, "NoSuchBucket", "The specified bucket does not exist.")
        there = self.buckets[bucket].get(key)
        if not key and r.method == "GET":
            return self.xml_list(r, bucket)
        if "uploads" in r.query or "uploadId" in r.query:
            return self.xml_upload(r, bucket, key)
        if r.method == "PUT" and "x-goog-copy-source" in r.headers:
            return self.xml_copy(r, bucket, key)
        if r.method == "PUT":
            return self.store(bucket, key, r.body, r)
        if not there:
            return xml_error(404, "NoSuchKey", "The specified key does not exist.")
        if self.refused(r, there):
            return xml_error(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
        if r.method == "DELETE":
            del self.buckets[bucket][key]
            return 204, {}, b""
        head = self.head_of(there)
        if there.encoding == "gzip" and "gzip" not in r.headers.get("accept-encoding", ""):
            del head["Content-Encoding"]  # Google unpacks it
            return 200, head, zlib.decompress(there.data, 31)
        code, body, more = cut_range(r, there.data)
        return code, head | more | ({"Content-Length": str(len(body))}), body

    def xml_list(self, r, bucket):
        prefix, delimiter = r.query.get("prefix", ""), r.query.get("delimiter")
        after = r.query.get("continuation-token") or r.query.get("start-after")
        entries, more = listed(self.buckets[bucket], prefix, delimiter, after, self.page)
        coded = (lambda k: quote(k, safe="/")) if r.query.get("encoding-type") == "url" else escape
        body = [
            "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>"
        ]
        body.append(f"<Name>{bucket}</Name><IsTruncated>{str(bool(more)).lower()}</IsTruncated>")
        if r.query.get("encoding-type") == "url":
            body.append("<EncodingType>url</EncodingType>")
        if more:
            body.append(f"<NextContinuationToken>{escape(more)}</NextContinuationToken>")
        for name, folder in entries:
            if folder:
                body.append(f"<CommonPrefixes><Prefix>{coded(name)}</Prefix></CommonPrefixes>")
                continue
            o = self.buckets[bucket][name]
            body.append(
                f"<Contents><Key>{coded(name)}</Key><Generation>{o.number}</Generation><MetaGeneration>1"
                f'</MetaGeneration><LastModified>{iso(o.modified)}</LastModified><ETag>"{hashlib.md5(o.data).hexdigest()}'
                f'"</ETag><Size>{len(o.data)}</Size></Contents>'
            )
        return 200, {"Content-Type": "application/xml"}, "".join(body + ["</ListBucketResult>"]).encode()

    def xml_upload(self, r, bucket, key):
        if r.method == "POST" and "uploads" in r.query:
            upload = f"upload-{next(self.numbers)}"
            self.uploads[upload] = {}
            body = f"<InitiateMultipartUploadResult {S3}><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return 200, {}, body.encode()
        upload = r.query["uploadId"]
        if upload not in self.uploads:
            return xml_error(404, "NoSuchUpload", "The requested upload was not found.")
        parts = self.uploads[upload]
        if r.method == "PUT":
            parts[int(r.query["partNumber"])] = r.body
            tag = hashlib.md5(r.body).hexdigest()
            crc = b64(crc32c(r.body).to_bytes(4, "big"))
            return 200, {"ETag": f'"{tag}"', "x-goog-hash": [f"crc32c={crc}"], "Content-Length": "0"}, b""
        if r.method == "DELETE":
            del self.uploads[upload]
            return 204, {}, b""
        if r.method == "GET":
            return 200, {}, f"<ListPartsResult><UploadId>{upload}</UploadId></ListPartsResult>".encode()
        del self.uploads[upload]
        o = self.object(b"".join(parts[n] for n in sorted(parts)), md5=False)
        self.buckets[bucket][key] = o
        body = '<CompleteMultipartUploadResult><ETag>"x-2"</ETag></CompleteMultipartUploadResult>'
        return 200, {"x-goog-generation": str(o.number)}, body.encode()

    def resource(self, bucket, key, o):
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": key,
            "size": str(len(o.data)),
            "generation": str(o.number),
            "metageneration": "1",
            "crc32c": o.crc,
            "etag": "CKih16GjycICEAE=",
            **({"md5Hash": b64(o.md5)} if o.md5 else {}),
        }

    def json_interface(self, r, rest):
        copy = re.fullmatch("([^/]+)/o/([^/]+)/rewriteTo/b/([^/]+)/o/([^/]+)", rest)
        if copy and r.method == "POST":
            return self.rewrite(r, *map(unquote, copy.groups()))
        bucket, _, after = rest.partition("/o")
        key = unquote(after.lstrip("/"))
        held = self.buckets.get(bucket)
        if held is None:
            return 404, {}, b'{"error": {"code": 404, "message": "no such bucket"}}'
        if r.method == "POST" and r.query["uploadType"] == "multipart":
            mark = b"--" + r.headers["content-type"].split("boundary=")[1].strip('"').encode()
            _, about, data, _ = r.body.split(mark)
            key = json.loads(about.split(b"\r\n\r\n", 1)[1])["name"]
            code, _, body = self.store(bucket, key, data.split(b"\r\n\r\n", 1)[1][:-2], r)
            return (
                (code, {}, body)
                if code != 200
                else (200, {}, json.dumps(self.resource(bucket, key, held[key])).encode())
            )
        if not key:
            names = sorted(k for k in held if k.startswith(r.query.get("prefix", "")))
            items = [self.resource(bucket, k, held[k]) for k in names]
            return 200, {"Content-Type": "application/json"}, json.dumps({"items": items}).encode()
        if key not in held:
            return 404, {}, b'{"error": {"code": 404, "message": "no such object"}}'
        if r.query.get("alt") == "media":
            code, body, more = cut_range(r, held[key].data)
            return code, self.head_of(held[key]) | more, body
        return 200, {"Content-Type": "application/json"}, json.dumps(self.resource(bucket, key, held[key])).encode()


class AzureCloud(Cloud):
    """Blob storage with path-style addresses as Azurite has them ("/account/container/key"), Microsoft's login and the
    identity service of machines."""

    account = "acct"
    key = b64(b"an account's key of some length, as it is")

    def __init__(self):
        super().__init__()
        self.blocks = {}
        self.committed = {}
        self.sas = None  # the text that is good
        self.forms = []
        self.refuse_shared = False
        self.polls = 0
        self.copy_ends = "success"
        self.endpoint = f"{self.url}/{self.account}"

    def etag(self, o):
        return f'"0x8D{o.number:X}"'

    def serve(self, r):
        if r.path.startswith("/tenant/oauth2/v2.0/token"):
            form = dict(parse_qsl(r.body.decode()))
            self.forms.append(form)
            good = form.get("client_secret") == "hush" or form.get("client_assertion") == "federated-token"
            return self.token_answer("azure") if good else (401, {}, b'{"error": "invalid_client"}')
        if r.path == "/metadata/identity/oauth2/token" and r.headers.get("metadata") == "true":
            until = str(int(time.time() + self.skew + self.life))
            return self.token_answer("machine", expires_on=until, resource=r.query["resource"])
        if r.path == "/app/identity" and r.headers.get("x-identity-header") == "app-secret":
            # As documented: when it ends, as text, and not how long it lives.
            until = str(int(time.time() + self.skew + self.life))
            said = {"access_token": self.token("app"), "expires_on": until, "resource": r.query["resource"]}
            return 200, {"Content-Type": "application/json"}, json.dumps({**said, "token_type": "Bearer"}).encode()
        if r.path == "/tenant/v2.0/.well-known/openid-configuration":  # what azure-identity asks before it begins
            place = self.url.replace("http:", "https:") + "/tenant/oauth2/v2.0"
            known = {
                "authorization_endpoint": place + "/authorize",
                "token_endpoint": place + "/token",
                "issuer": place,
            }
            return 200, {"Content-Type": "application/json"}, json.dumps(known).encode()
        refusal = self.refusal(r)
        if refusal:
            return self.error(*refusal)
        container, _, key = r.path.split("/", 2)[2].partition("/")
        if container not in self.buckets:
            return self.error(404, "ContainerNotFound")
        if r.query.get("restype") == "container":
            return self.list(r, container) if r.query.get("comp") == "list" else (200, {}, b"")
        return self.blob(r, container, key)

    def error(self, code, name):
        code, headers, body = xml_error(code, name, f"{name}\nRequestId:1\nTime:2")
        return code, headers | {"x-ms-error-code": name}, body

    def refusal(self, r):
        authorization = r.headers.get("authorization", "")
        if self.open or (self.sas and self.sas in r.query_text):
            return None
        if authorization.startswith("SharedKey "):
            if not self.refuse_shared and authorization == self.shared_key(r):
                return None
            return 403, "AuthenticationFailed"
        if authorization.startswith("Bearer "):
            return (
                None if self.bearer_is_good(r) and "x-ms-version" in r.headers else (401, "InvalidAuthenticationInfo")
            )
        return 403 if "sig" in r.query else 404, "AuthenticationFailed" if "sig" in r.query else "ResourceNotFound"

    def shared_key(self, r):
        """As the documents have it, from the request as it arrived."""
        h = r.headers
        length = h.get("content-length", "")
        first = ["content-encoding", "content-language"], ["content-md5", "content-type", "date", "if-modified-since"]
        lines = [r.method, *(h.get(n, "") for n in first[0]), "" if length == "0" else length]
        lines += [h.get(n, "") for n in first[1]]
        lines += [h.get(n, "") for n in ("if-match", "if-none-match", "if-unmodified-since", "range")]
        lines += [f"{n}:{h[n]}" for n in sorted(h) if n.startswith("x-ms-")]
        text = "\n".join(lines) + f"\n/{self.account}{r.raw_path}"
        text += "".join(f"\n{n.lower()}:{v}" for n, v in sorted(r.query.items()))
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        return f"SharedKey {self.account}:{b64(digest)}"

    def head_of(self, o):
        return {
            "ETag": self.etag(o),
            "Last-Modified": formatdate(o.modified, usegmt=True),
            "Content-Type": "application/octet-stream",
            "x-ms-blob-type": "BlockBlob",
            "x-ms-version": "2021-12-02",
            **({"Content-Encoding": o.encoding} if o.encoding else {}),
            **o.meta,
        }

    def copy(self, r, held, key):
        """Copy Blob within the account. `polls`: how many looks at it find it unfinished."""
        split = urlsplit(r.headers["x-ms-copy-source"])
        account, container, name = unquote(split.path).lstrip("/").split("/", 2)
        source = self.buckets.get(container, {}).get(name)
        if account != self.account or (self.sas and split.query != self.sas) or not source:
            return self.error(404, "CannotVerifyCopySource")
        if r.headers.get("x-ms-source-if-match", self.etag(source)) != self.etag(source):
            return self.error(412, "SourceConditionNotMet")
        if getattr(held.get(key), "polls", 0) > 0:
            return self.error(409, "PendingCopyOperation")
        o = held[key] = self.object(source.data, encoding=source.encoding, md5=source.md5 is not None)
        o.meta = dict(source.meta)
        o.polls = self.polls
        o.copy = {"x-ms-copy-id": str(uuid.UUID(int=o.number))}
        state = "pending" if o.polls else "success"
        shown = r.headers["x-ms-copy-source"].partition("?")[0].replace("%20", " ")  # not as it came
        o.copy_source = {"x-ms-copy-source": shown}
        return 202, {"ETag": self.etag(o), "x-ms-copy-status": state} | o.copy, b""

    def refused(self, r, there):
        if r.headers.get("if-none-match") == "*" and there:
            return 409, "BlobAlreadyExists"
        wanted = r.headers.get("if-match")
        if wanted and wanted != "*" and (not there or wanted != self.etag(there)):
            return 412, "ConditionNotMet"
        return None

    def blob(self, r, container, key):
        held = self.buckets[container]
        there = held.get(key)
        comp = r.query.get("comp")
        md5 = r.headers.get("content-md5")
        if md5 and md5 != b64(hashlib.md5(r.body).digest()):
            return self.error(400, "Md5Mismatch")
        blocks = self.blocks.setdefault((container, key), {})
        if r.method == "PUT" and comp == "block":
            blocks[r.query["blockid"]] = r.body
            return 201, {"Content-MD5": b64(hashlib.md5(r.body).digest())}, b""
        if r.method == "GET" and comp == "blocklist":
            if not blocks and not there:
                return self.error(404, "BlobNotFound")
            names = "".join(f"<Block><Name>{n}</Name><Size>{len(d)}</Size></Block>" for n, d in blocks.items())
            return 200, {}, f"<BlockList><UncommittedBlocks>{names}</UncommittedBlocks></BlockList>".encode()
        refusal = self.refused(r, there)
        if refusal:
            return self.error(*refusal)
        if r.method == "PUT" and comp == "blocklist":
            names = [n.decode() for n in re.findall(rb"<Latest>([^<]*)</Latest>", r.body)]
            latest = self.committed.get((container, key), {}) | blocks  # those of the object as it is count too
            if any(n not in latest for n in names):
                return self.error(400, "InvalidBlockList")
            data = b"".join(latest[n] for n in names)
            self.committed[container, key] = {n: latest[n] for n in names}
            blocks.clear()
            o = held[key] = self.object(data, md5=False)
            return 201, {"ETag": self.etag(o), "Last-Modified": formatdate(o.modified, usegmt=True)}, b""
        if r.method == "PUT" and "x-ms-copy-source" in r.headers:
            return self.copy(r, held, key)
        if r.method == "PUT":
            if r.headers.get("x-ms-blob-type") != "BlockBlob":
                return self.error(400, "MissingRequiredHeader")
            o = held[key] = self.object(r.body)
            head = {"ETag": self.etag(o), "Last-Modified": formatdate(o.modified, usegmt=True)}
            return 201, head | {"Content-MD5": b64(o.md5)}, b""
        if not there:
            return self.error(404, "BlobNotFound")
        if r.method == "DELETE":
            del held[key]
            return 202, {}, b""
        code, body, more = cut_range(r, there.data, "x-ms-range")
        if hasattr(there, "polls"):
            there.polls -= 1
            state = self.copy_ends if there.polls < 1 else "pending"
            more |= {"x-ms-copy-status": state} | there.copy | there.copy_source
        if code == 416:
            code_, headers, text = self.error(416, "InvalidRange")
            return code_, headers | more, text
        if there.md5:
            more["x-ms-blob-content-md5" if code == 206 else "Content-MD5"] = b64(there.md5)
        return code, self.head_of(there) | more | {"Content-Length": str(len(body))}, body

    def list(self, r, container):
        held = self.buckets[container]
        most = min(int(r.query.get("maxresults", 5000)), self.page)
        marker = unquote(r.query.get("marker", "")) or None
        entries, more = listed(held, r.query.get("prefix", ""), r.query.get("delimiter"), marker, most)
        out = [
            '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="x" ContainerName="c"><Blobs>'
        ]
        for name, folder in entries:
            shown = f"<Name>{escape(name)}</Name>"
            if any(ord(c) < 32 for c in name):
                shown = f'<Name Encoded="true">{quote(name)}</Name>'
            if folder:
                out.append(f"<BlobPrefix>{shown}</BlobPrefix>")
                continue
            o = held[name]
            out.append(
                f"<Blob>{shown}<Properties><Last-Modified>{formatdate(o.modified, usegmt=True)}</Last-Modified>"
                f"<Etag>{self.etag(o).strip(chr(34))}</Etag><Content-Length>{len(o.data)}</Content-Length>"
                f"<BlobType>BlockBlob</BlobType></Properties></Blob>"
            )
        out.append(f"</Blobs><NextMarker>{escape(quote(more)) if more else ''}</NextMarker></EnumerationResults>")
        return 200, {"Content-Type": "application/xml"}, "".join(out).encode()
