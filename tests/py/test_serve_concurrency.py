"""`leat serve`: many clients at the same names. Every answer is one that some order of the calls could have given."""

import hashlib
import http.client
import random
import threading

from s3 import all_keys, client

NAMES = ["a", "a/b", "a/b/c", "d", "d/e", "//", "f/../g", "h/"]


class Worker(threading.Thread):
    """Puts, gets, deletes and lists until told to stop; keeps the first thing that was wrong."""

    def __init__(self, server, number, rounds):
        super().__init__()
        self.server, self.number, self.rounds, self.wrong = server, number, rounds, None

    def call(self, connection, method, path, body=None, headers=None):
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def one(self, rng, connection):
        name = rng.choice(NAMES)
        path = "/bucket/" + name
        what = rng.random()
        if what < 0.35:
            body = f"{name}|{self.number}|{rng.random()}|".encode() * rng.randint(1, 2000)
            return self.call(connection, "PUT", path, body)[0] == 200
        if what < 0.7:
            status, headers, body = self.call(connection, "GET", path)
            if status == 404:
                return True
            whole = headers["ETag"].strip('"') == hashlib.md5(body).hexdigest()
            return status == 200 and whole and body.startswith(name.encode() + b"|")
        if what < 0.85:
            return self.call(connection, "DELETE", path)[0] == 204
        status, _, body = self.call(connection, "GET", "/bucket?list-type=2&max-keys=" + rng.choice("1359"))
        return status == 200 and body.count(b"<Key>") <= len(NAMES)

    def run(self):
        rng = random.Random(self.number)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            for i in range(self.rounds):
                if not self.one(rng, connection):
                    self.wrong = f"worker {self.number}, round {i}"
                    return
        except Exception as e:
            self.wrong = f"worker {self.number}: {e!r}"
        finally:
            connection.close()


def test_many_clients_put_get_delete_and_list_the_same_names(serve, bucket_dir):
    server = serve(bucket_dir)
    workers = [Worker(server, i, 120) for i in range(12)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.wrong for worker in workers if worker.wrong] == []
    s3 = client(server)
    left = all_keys(s3, "bucket")
    for key in left:
        body = s3.get_object(Bucket="bucket", Key=key)["Body"].read()
        assert body.startswith(key.encode() + b"|")
    for key in NAMES:
        s3.delete_object(Bucket="bucket", Key=key)
    assert all_keys(s3, "bucket") == []
    stats = server.stats()
    assert stats["requests"] == 12 * 120 + len(left) + len(NAMES) + 2
    assert server.stop() == 0
    assert [path.name for path in bucket_dir.rglob("*")] == ["bucket"]


def test_only_one_of_many_creates_an_object(serve, bucket_dir):
    server = serve(bucket_dir)
    for key in ["one", "x/../y"]:
        statuses = []

        def create(n, key=key, statuses=statuses):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("PUT", "/bucket/" + key, body=str(n).encode(), headers={"If-None-Match": "*"})
            answer = connection.getresponse()
            answer.read()
            statuses.append((answer.status, n))
            connection.close()

        threads = [threading.Thread(target=create, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [n for status, n in statuses if status == 200]
        assert len(winners) == 1
        assert sorted(status for status, _ in statuses) == [200] + [412] * 15
        assert client(server).get_object(Bucket="bucket", Key=key)["Body"].read() == str(winners[0]).encode()


def test_readers_see_the_old_or_the_new_object_never_a_mixture(serve, bucket_dir):
    server = serve(bucket_dir)
    s3 = client(server)
    s3.put_object(Bucket="bucket", Key="k", Body=b"0" * 2_000_000)
    stop = threading.Event()
    wrong = []

    def read():
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        while not stop.is_set():
            connection.request("GET", "/bucket/k")
            body = connection.getresponse().read()
            if len(set(body)) != 1 or len(body) % 1000:
                wrong.append(body[:20])
        connection.close()

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(30):
        s3.put_object(Bucket="bucket", Key="k", Body=str(i % 10).encode() * (1000 * (1 + i * 50)))
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_servers_can_share_a_folder(serve, bucket_dir):
    one, two = client(serve(bucket_dir)), client(serve(bucket_dir))
    one.put_object(Bucket="bucket", Key="k", Body=b"1")
    one.put_object(Bucket="bucket", Key="a//b", Body=b"2")
    assert two.get_object(Bucket="bucket", Key="k")["Body"].read() == b"1"
    assert all_keys(two, "bucket") == ["a//b", "k"]
    two.delete_object(Bucket="bucket", Key="k")
    two.put_object(Bucket="bucket", Key="c//d", Body=b"3")
    assert all_keys(one, "bucket") == ["a//b", "c//d"]


def test_a_killed_servers_half_written_files_are_removed_by_the_next(serve, bucket_dir):
    server = serve(bucket_dir)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("PUT", "/bucket/half")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders()
    connection.send(b"x" * 500_000)
    tmp = bucket_dir / "bucket" / ".leat-serve" / "tmp"
    while not (tmp.exists() and any(tmp.iterdir())):
        pass
    alive = serve(bucket_dir)
    assert all_keys(client(alive), "bucket") == []
    assert any(tmp.iterdir()), "the first server still writes it"
    server.process.kill()
    server.process.wait()
    connection.close()
    after = serve(bucket_dir)
    assert all_keys(client(after), "bucket") == []
    assert not any(tmp.iterdir())
