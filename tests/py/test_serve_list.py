"""`leat serve`: listings, against a model in a few lines."""

import http.client
import os
import random
import resource
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree

import pytest
from command_tools import as_nobody, needs_root, started
from s3 import all_keys, client, error_of

NS = "{http://s3.amazonaws.com/doc/2006-03-01/}"


def fetch(server, bucket="bucket", **arguments):
    """One page without boto3: (keys, prefixes, root element)."""
    query = urllib.parse.urlencode({"list-type": "2", "encoding-type": "url", **arguments})
    with urllib.request.urlopen(f"{server.url}/{bucket}?{query}", timeout=60) as answer:
        root = ElementTree.fromstring(answer.read())
    keys = [urllib.parse.unquote(e.findtext(NS + "Key")) for e in root.iter(NS + "Contents")]
    prefixes = [urllib.parse.unquote(e.findtext(NS + "Prefix")) for e in root.iter(NS + "CommonPrefixes")]
    return keys, prefixes, root


def walk(server, **arguments):
    """All pages: (keys, prefixes, number of pages)."""
    keys, prefixes, root = fetch(server, **arguments)
    pages = 1
    while root.findtext(NS + "IsTruncated") == "true":
        assert int(root.findtext(NS + "KeyCount")) == int(arguments.get("max-keys", 1000))
        token = root.findtext(NS + "NextContinuationToken")
        more, more_prefixes, root = fetch(server, **arguments, **{"continuation-token": token})
        keys += more
        prefixes += more_prefixes
        pages += 1
    return keys, prefixes, pages


def model(keys, prefix="", delimiter="", after=""):
    """What S3 lists, by bytes: (keys, prefixes)."""
    out, prefixes = [], []
    for key in sorted(k.encode() for k in keys):
        if not key.startswith(prefix.encode()) or key <= after.encode():
            continue
        at = key.find(delimiter.encode(), len(prefix.encode())) if delimiter else -1
        if at < 0:
            out.append(key.decode())
            continue
        common = key[: at + len(delimiter.encode())].decode()
        if not prefixes or prefixes[-1] != common:
            prefixes.append(common)
    return out, prefixes


def some_key(rng):
    parts = ["a", "b", "ab", "a.b", "a-b", "a0", "A", "ü", " ", "zz", "..", ""]
    return "/".join(rng.choice(parts) for _ in range(rng.randint(1, 4))) or "x"


def test_listings_equal_the_model_whatever_is_asked(serve, bucket_dir):
    rng = random.Random(7)
    server = serve(bucket_dir)
    s3 = client(server)
    keys = {some_key(rng) for _ in range(100)}
    for key in keys:
        s3.put_object(Bucket="bucket", Key=key, Body=b"")
    prefixes = ["", "a", "a/", "a/b", "b/", "/", "//", "ü", "none", "a/a/", "..", "a.b/"]
    for _ in range(120):
        prefix, delimiter = rng.choice(prefixes), rng.choice(["", "/", "/", "a", "b/", "//", "ü"])
        asked = {"prefix": prefix, "max-keys": rng.choice([1, 2, 7, 1000])}
        if delimiter:
            asked["delimiter"] = delimiter
        got_keys, got_prefixes, _ = walk(server, **asked)
        assert (got_keys, got_prefixes) == model(keys, prefix, delimiter), asked


def test_start_after_need_not_be_a_key(serve, bucket_dir):
    rng = random.Random(8)
    server = serve(bucket_dir)
    s3 = client(server)
    keys = {some_key(rng) for _ in range(60)}
    for key in keys:
        s3.put_object(Bucket="bucket", Key=key, Body=b"")
    for _ in range(100):
        after, prefix = some_key(rng), rng.choice(["", "", "a", "a/"])
        expected = model(keys, prefix, "", after)[0]
        assert walk(server, prefix=prefix, **{"start-after": after})[0] == expected, (prefix, after)


def test_puts_and_deletes_show_at_once_also_inside_a_listing(serve, bucket_dir):
    rng = random.Random(9)
    server = serve(bucket_dir)
    s3 = client(server)
    keys = set()
    for _ in range(60):
        key = some_key(rng)
        if key in keys and rng.random() < 0.6:
            s3.delete_object(Bucket="bucket", Key=key)
            keys.remove(key)
        else:
            s3.put_object(Bucket="bucket", Key=key, Body=b"")
            keys.add(key)
        first, _, root = fetch(server, **{"max-keys": 3})
        assert first == model(keys)[0][:3]
        late = "~" + some_key(rng)
        s3.put_object(Bucket="bucket", Key=late, Body=b"")
        if root.findtext(NS + "IsTruncated") == "true":
            token = root.findtext(NS + "NextContinuationToken")
            rest, _, _ = fetch(server, **{"continuation-token": token})
            assert rest == model(keys | {late}, after=first[-1])[0]
        s3.delete_object(Bucket="bucket", Key=late)


def test_changes_made_in_the_folder_show_at_the_next_listing(serve, bucket_dir):
    server = serve(bucket_dir)
    root = bucket_dir / "bucket"
    for i in range(40):
        (root / f"d{i % 4}").mkdir(exist_ok=True)
        (root / f"d{i % 4}" / f"f{i}").write_bytes(b"")
        assert fetch(server)[0] == sorted(str(p.relative_to(root)) for p in root.rglob("f*"))
    for path in sorted(root.rglob("f*")):
        path.unlink()
        assert fetch(server)[0] == sorted(str(p.relative_to(root)) for p in root.rglob("f*"))
    (root / "d0").rename(root / "e0")
    (root / "e0" / "new").write_bytes(b"")
    assert fetch(server)[0] == ["e0/new"]


def test_empty_folders_are_no_keys_and_no_prefixes(serve, bucket_dir):
    server = serve(bucket_dir)
    (bucket_dir / "bucket" / "empty" / "inside").mkdir(parents=True)
    (bucket_dir / "bucket" / "full").mkdir()
    (bucket_dir / "bucket" / "full" / "f").write_bytes(b"")
    assert fetch(server)[:2] == (["full/f"], [])
    assert fetch(server, delimiter="/")[:2] == ([], ["full/"])


def test_names_that_are_no_text_are_listed_and_can_be_read(serve, bucket_dir):
    server = serve(bucket_dir)
    name = b"bad\xff\xfename"
    with open(os.fsencode(bucket_dir / "bucket") + b"/" + name, "wb") as f:
        f.write(b"x")
    url = f"{server.url}/bucket?list-type=2&encoding-type=url"
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert b"<Key>bad%FF%FEname</Key>" in answer.read()
    with urllib.request.urlopen(f"{server.url}/bucket?list-type=2", timeout=30) as answer:
        ElementTree.fromstring(answer.read())
    with urllib.request.urlopen(f"{server.url}/bucket/bad%FF%FEname", timeout=30) as answer:
        assert answer.read() == b"x"


def test_arguments_that_cannot_be_meant_are_refused(serve, bucket_dir):
    s3 = client(serve(bucket_dir))
    for bad in [{"MaxKeys": -1}, {"ContinuationToken": "nonsense"}, {"ContinuationToken": "k1"}]:
        assert error_of(s3.list_objects_v2, Bucket="bucket", **bad) == ("InvalidArgument", 400), bad
    assert s3.list_objects_v2(Bucket="bucket", MaxKeys=0)["KeyCount"] == 0


def make_files(folder, n, per_folder):
    for i in range(n):
        if i % per_folder == 0:
            sub = folder / f"{i // per_folder:05d}" if per_folder < n else folder
            sub.mkdir(exist_ok=True)
        os.close(os.open(sub / f"{i:07d}.bin", os.O_CREAT | os.O_WRONLY))


@pytest.mark.parametrize("per_folder", [2500, 100])
def test_many_keys_list_page_by_page(serve, bucket_dir, per_folder):
    n = 2500
    make_files(bucket_dir / "bucket", n, per_folder)
    server = serve(bucket_dir)
    keys, _, pages = walk(server)
    assert (len(keys), pages) == (n, 3)
    assert keys == sorted(keys)


@pytest.mark.long
@pytest.mark.parametrize("per_folder", [1_000_000, 1000])
def test_a_million_keys(serve, bucket_dir, per_folder):
    n = 1_000_000
    make_files(bucket_dir / "bucket", n, per_folder)
    server = serve(bucket_dir)
    began = time.monotonic()
    seen, last, root, arguments = 0, "", None, {}
    while root is None or root.findtext(NS + "IsTruncated") == "true":
        keys, _, root = fetch(server, **arguments)
        arguments = {"continuation-token": root.findtext(NS + "NextContinuationToken")}
        assert last < keys[0]
        last = keys[-1]
        seen += len(keys)
    took = time.monotonic() - began
    with open(f"/proc/{server.process.pid}/status") as status:
        peak_kb = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(f"{n} keys, {per_folder} a folder: {took:.1f} s, {peak_kb / 1024:.0f} MiB at most")
    assert seen == n
    assert peak_kb < 300 * 1024


def test_boto3_pages_through_everything(serve, bucket_dir):
    make_files(bucket_dir / "bucket", 2500, 100)
    s3 = client(serve(bucket_dir))
    assert len(all_keys(s3, "bucket")) == 2500
    assert len(all_keys(s3, "bucket", Prefix="00003/")) == 100


def test_a_list_without_descriptors_is_an_error_and_never_shorter(serve, bucket_dir):
    for i in range(20):
        (bucket_dir / "bucket" / f"{i}").touch()
    (bucket_dir / "bucket" / "folder" / "deeper").mkdir(parents=True)
    (bucket_dir / "bucket" / "folder" / "deeper" / "x").touch()
    server = serve(bucket_dir)
    s3 = client(server)
    s3.put_object(Bucket="bucket", Key="no//path", Body=b"")
    uploads = [s3.create_multipart_upload(Bucket="bucket", Key="k")["UploadId"] for _ in range(2)]
    os.utime(bucket_dir / "bucket", (1e9, 1e9))  # one that has just changed is read again
    pid = server.process.pid
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(target, what):
        connection.request("GET", target)
        answer = connection.getresponse()
        return answer.status, answer.read().count(what)

    calls = [
        ("/bucket?list-type=2", b"<Key>", 22),
        ("/bucket?list-type=2&delimiter=/", b"<CommonPrefixes>", 2),
        (f"/bucket/k?uploadId={uploads[0]}", b"<UploadId>", 1),
    ]
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    assert [ask(target, what) for target, what, _ in calls] == [(200, n) for _, _, n in calls]
    used = {int(n) for n in os.listdir(f"/proc/{pid}/fd")}
    free = [n for n in range(max(used) + 20) if n not in used]
    for limit in free[:8]:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))
        for target, what, n in calls:
            assert ask(target, what) in [(503, 0), (200, n)], f"{target} with {free.index(limit)} to spare"
    assert [ask(target, what) for target, what, _ in calls] == [(200, n) for _, _, n in calls]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[0], hard))
    assert [ask(target, what) for target, what, _ in calls] == [(503, 0)] * len(calls)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    connection.close()


@needs_root
def test_what_may_not_be_read_is_listed_all_the_same(shared_bin, clean_env, shm_path):
    (shm_path / "bucket").mkdir()
    for name in ("a", "b", "c"):
        (shm_path / "bucket" / name).write_text(name)
    (shm_path / "bucket" / "b").chmod(0o600)
    env = {**clean_env, "HOME": str(shm_path)}
    command = ["serve", "--read-only", shm_path]
    with started(shared_bin, env, *command, preexec_fn=as_nobody, stdout=subprocess.PIPE) as process:
        url = process.stdout.readline().decode().strip()
        with urllib.request.urlopen(f"{url}/bucket?list-type=2", timeout=60) as answer:
            assert answer.read().count(b"<Key>") == 3
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/bucket/b", timeout=60)
        assert refused.value.code == 403
