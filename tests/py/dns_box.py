"""A private network with a name server that can be told what to answer.

    unshare -rmn python dns_box.py SCENARIO LEAT FOLDER

In there are only loopback, a name server on port 53 and the servers of the scenario. Prints what came of it as JSON.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from faulty_server import FaultyServer, truncated

NAME = "bucket.test"
DATA = bytes(range(256)) * 400


class NameServer:
    """Answers A queries with `address`; None: SERVFAIL, "": NXDOMAIN; `silent`: not at all."""

    def __init__(self):
        self.address = None
        self.silent = False
        self.queries = 0
        self.fail_first = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            query, sender = self.socket.recvfrom(4096)
            self.queries += 1
            if not self.silent:
                self.socket.sendto(self.answer(query), sender)

    def answer(self, query):
        end = query.index(b"\0", 12) + 5
        question, kind = query[12:end], struct.unpack(">H", query[end - 4 : end - 2])[0]
        address = None if self.queries <= self.fail_first else self.address
        code = 2 if address is None else 3 if address == "" else 0
        records = b""
        if address and kind == 1:
            records = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, 1 if records else 0, 0, 0)
        return head + question + records


def set_up(folder):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    files = {
        "/etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n",
        "/etc/hosts": "127.0.0.1 localhost\n",
        "/etc/nsswitch.conf": "hosts: files dns\n",
    }
    for n, (path, text) in enumerate(files.items()):
        source = os.path.join(folder, f"etc-{n}")
        with open(source, "w") as f:
            f.write(text)
        subprocess.run(["mount", "--bind", source, path], check=True)


def run(leat, port, *options, stop_after=None):
    env = {"AWS_ENDPOINT_URL": f"http://{NAME}:{port}", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    env.update({n: v for n, v in os.environ.items() if n.endswith("SAN_OPTIONS")})
    process = subprocess.Popen(
        [leat, "cat", *options, "s3://bucket/key"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if stop_after:
        while not stop_after():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=100)  # a silent name server is asked for longer than that
    return {"status": process.returncode, "stderr": stderr.decode(), "right": stdout == DATA}


def recovers(leat, names):
    """As in a pod's first seconds: at first nothing can be resolved."""
    server = FaultyServer()
    server.objects["bucket/key"] = DATA
    names.address = "127.0.0.1"
    names.fail_first = 12
    return run(leat, server.port)


def moved(leat, names):
    """The host goes away in the middle of an answer and comes back under another address."""
    first = FaultyServer(host="127.0.0.2")
    first.objects["bucket/key"] = DATA
    second = FaultyServer(host="127.0.0.3", port=first.port)
    second.objects["bucket/key"] = DATA

    def leave(exchange):
        names.address = "127.0.0.3"
        first.listener.close()
        truncated(1000)(exchange)

    first.fault(leave, method="GET")
    names.address = "127.0.0.2"
    result = run(leat, first.port)
    result["first"] = [r.method for r in first.requests]
    result["second"] = [(r.method, r.range) for r in second.requests]
    return result


def silent(leat, names):
    names.silent = True
    return run(leat, 80, stop_after=lambda: names.queries)


def unknown(leat, names):
    names.address = ""
    return run(leat, 80, "--timeout", "2s")


if __name__ == "__main__":
    set_up(sys.argv[3])
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2], NameServer())))
    sys.stdout.flush()
    os._exit(0)
