"""The Hugging Face Hub as its documents and its own library describe it, over loopback and in memory, with the host that
keeps large files beside it. huggingface_hub reads the same server beside Leat, which shows that this answers as the real
one does as far as it goes.

    hub = Hub()
    repo = hub.add("datasets/owner/name")
    repo.commit({"data/a.tar": b"...", "README.md": b"..."})

Files of `large` bytes or more are kept elsewhere (LFS): `resolve` redirects to `hub.store`, whose addresses are signed for
`signed_for` seconds. Others are answered by the Hub itself, after a redirect to itself when `caches` is set.
"""

import hashlib
import hmac
import json
import time
from urllib.parse import quote, unquote

from clouds import Cloud, cut_range


def git_name(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repo:
    def __init__(self):
        self.commits = {}
        self.refs = {}
        self.private = self.gated = False
        self.moved_to = None

    def commit(self, files, ref="main"):
        """All files of a new commit; its name."""
        text = repr(sorted((k, hashlib.sha1(v).hexdigest()) for k, v in files.items())) + str(len(self.commits))
        name = hashlib.sha1(text.encode()).hexdigest()
        self.commits[name] = dict(files)
        self.refs[ref] = name
        return name


def refusal(code, name, message=""):
    headers = {"Content-Type": "application/json", "X-Error-Code": name, "X-Error-Message": message or name}
    return code, headers, json.dumps({"error": message or name}).encode()


class Elsewhere(Cloud):
    """The host of large files: signed addresses, ranges, an ETag of its own; no token may ever come here."""

    def __init__(self, hub):
        super().__init__()
        self.hub = hub

    def sign(self, name, ends):
        return hmac.new(b"store", f"{name}{ends}".encode(), hashlib.sha256).hexdigest()

    def address(self, name):
        ends = int(time.time() * 1000 + self.hub.signed_for * 1000)
        filler = "x" * 900  # as long as the real ones are
        return f"{self.url}/repos/ab/{name}?Expires={ends}&Policy={filler}&Signature={self.sign(name, ends)}"

    def serve(self, r):
        name = r.path.rsplit("/", 1)[1]
        ends = r.query.get("Expires", "0")
        if "authorization" in r.headers:
            return 400, {}, b"<Error><Code>InvalidArgument</Code></Error>"
        if r.query.get("Signature") != self.sign(name, ends) or int(ends) < time.time() * 1000:
            return 403, {"Content-Type": "text/xml"}, b"<Error><Code>AccessDenied</Code></Error>"
        data = self.hub.large_files[name]
        code, body, more = cut_range(r, data)
        etag = f'"{hashlib.md5(data).hexdigest()}-2"'
        return code, {"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": "binary/octet-stream", **more}, body


class Hub(Cloud):
    def __init__(self):
        super().__init__()
        self.repos = {}
        self.users = {}  # token -> names of gated and private repositories that it may read
        self.large = 1000
        self.signed_for = 60
        self.caches = True
        self.large_files = {}
        self.store = Elsewhere(self)

    def stop(self):
        self.store.stop()
        super().stop()

    def add(self, name):
        self.repos[name] = Repo()
        return self.repos[name]

    def serve(self, r):
        path = r.raw_path.lstrip("/")
        if path.startswith("api/resolve-cache/"):
            kind, owner, name, commit, key = path.split("/", 6)[2:]
            return self.file(r, self.repos[f"{kind}/{owner}/{name}"], commit, unquote(key), cached=True)
        api = path.startswith("api/")
        parts = path[4 * api :].split("/")
        if parts[0] not in ("datasets", "models", "spaces"):
            parts.insert(0, "models")
        name, what = "/".join(parts[:3]), parts[3:]
        repo = self.repos.get(name)
        refused = self.refuse(r, name, repo)
        if refused:
            return refused
        if repo.moved_to:
            there = r.raw_path.replace(name.split("/", 1)[1], repo.moved_to, 1)
            return 307, {"Location": there + ("?" + r.query_text if r.query_text else "")}, b""
        revision = unquote(what[1]) if len(what) > 1 else "main"
        commit = revision if revision in repo.commits else repo.refs.get(revision)
        if not commit:
            return refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if api and (not what or what[0] == "revision"):
            about = {"_id": "1", "id": name.split("/", 1)[1], "sha": commit, "private": repo.private, "tags": []}
            if "expand" not in r.query:
                about["siblings"] = [{"rfilename": key} for key in sorted(repo.commits[commit])]
            return 200, {"Content-Type": "application/json"}, json.dumps(about).encode()
        if api and what[0] == "tree":
            return self.tree(r, repo, name, commit, unquote("/".join(what[2:])))
        if what and what[0] == "resolve":
            key = unquote("/".join(what[2:]))
            data = repo.commits[commit].get(key)
            if self.caches and data is not None and len(data) < self.large:
                there = f"/api/resolve-cache/{name}/{commit}/{quote(key)}?etag=%22{git_name(data)}%22"
                return 307, {"Location": there, "X-Repo-Commit": commit}, b"Temporary Redirect"
            return self.file(r, repo, commit, key)
        return 404, {}, b"Cannot GET"

    def refuse(self, r, name, repo):
        token = r.headers.get("authorization", "").removeprefix("Bearer ")
        if token and token not in self.users:
            return refusal(401, "", "Invalid credentials in Authorization header")
        allowed = name in self.users.get(token, ())
        if not repo or (repo.private and not allowed):
            return refusal(404 if token else 401, "RepoNotFound", "Repository not found")
        if repo.gated and not allowed and not r.path.startswith("/api/"):
            return refusal(403 if token else 401, "GatedRepo", f"Access to {name} is restricted.")
        return None

    def tree(self, r, repo, name, commit, folder):
        files = repo.commits[commit]
        lead = folder + "/" if folder else ""
        if folder and not any(k.startswith(lead) for k in files):
            return refusal(404, "EntryNotFound", f"{folder} does not exist")
        rows = {}
        for key in files:
            if not key.startswith(lead):
                continue
            rest = key[len(lead) :].split("/")
            for i in range(1, len(rest)):
                rows[lead + "/".join(rest[:i])] = None
            rows[key] = files[key]
        if r.query.get("recursive", "false").lower() not in ("true", "1"):
            rows = {k: v for k, v in rows.items() if "/" not in k[len(lead) :]}
        names = sorted(rows, key=lambda k: (rows[k] is not None, k))  # folders first, as the Hub shows them
        at = int(r.query.get("cursor", "0"))
        found = []
        for key in names[at : at + self.page]:
            data = rows[key]
            row = {"type": "file", "oid": git_name(data or b""), "size": len(data or b""), "path": key}
            if data is None:
                row = {"type": "directory", "oid": hashlib.sha1(key.encode()).hexdigest(), "size": 0, "path": key}
            elif len(data) >= self.large:
                row["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
                row["oid"] = git_name(b"version https://git-lfs.github.com/spec/v1\n" + row["lfs"]["oid"].encode())
            found.append(row)
        head = {"Content-Type": "application/json"}
        if at + self.page < len(names):
            query = f"recursive={r.query.get('recursive', 'false')}&limit={self.page}&cursor={at + self.page}"
            head["Link"] = f'<{self.url}{r.raw_path}?{query}>; rel="next"'
        return 200, head, json.dumps(found).encode()

    def file(self, r, repo, commit, key, cached=False):
        data = repo.commits[commit].get(key)
        if data is None:
            return refusal(404, "EntryNotFound", "Entry not found")
        head = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if len(data) >= self.large and not cached:
            name = hashlib.sha256(data).hexdigest()
            self.large_files.setdefault(name, data)
            head |= {
                "X-Linked-Size": str(len(data)),
                "X-Linked-ETag": f'"{name}"',
                "Location": self.store.address(name),
            }
            head["Link"] = f'<{self.url}/api/xet-read-token>; rel="xet-auth"'
            return 302, head, b"Found. Redirecting"
        code, body, more = cut_range(r, data)
        return code, head | {"ETag": f'"{git_name(data)}"', "Content-Type": "text/plain"} | more, body
