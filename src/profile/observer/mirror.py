"""Several machines, one report: lanes of the other machines come to the one of rank 0, through the store that the ranks share.

The first rank of every other machine reads all lanes of its folder, workers' too, and sends what is new twice a second; rank 0
writes the same lanes into its own folder. Rank 0 gives what is meant for it a name: a store that outlives its ranks has what was
meant for an earlier one, too. Times are moved to the clock of rank 0, to some milliseconds. Both are threads of their
own with connections of their own, and end with the process."""

import contextlib
import mmap
import os
import struct
import sys
import threading
import time

lanes = sys.modules["_leat_lane"]
life = sys.modules["_leat_observe"]._part("life")
KEY = f"{life.KEY}/lanes"
EVERY_S = 0.5
LAST_S = 5.0  # how long rank 0 waits at the end for what others still send
HEADER = 8 * lanes.HEADER_WORDS
RECORD = 8 * lanes.RECORD_WORDS
BLOB = 4 << 20


def start(torch):
    """Where there are several machines, begins to send or to receive."""
    dist = torch.distributed
    world, local = dist.get_world_size(), int(os.environ.get("LOCAL_WORLD_SIZE") or 0)
    if not local or world <= local:
        return
    rank, nodes = dist.get_rank(), world // local
    store = (
        dist.distributed_c10d._get_default_store().clone()
    )  # a connection of its own: nobody waits for another's call
    if rank == 0:
        lanes.put(lanes.W_EXPECT, world)  # steps are compared once all have told of them
        _run(Receiver(store, nodes), "leat-receive")
    elif int(os.environ.get("LOCAL_RANK") or -1) == 0:
        _run(Sender(store, rank // local), "leat-send")


def _run(part, name):
    thread = threading.Thread(target=part.run, name=name, daemon=True)
    thread.start()

    def finish():
        part.ending.set()
        thread.join(LAST_S + 1)

    lanes.finishers.append(finish)


class Sender:
    def __init__(self, store, node):
        self.store, self.node = store, node
        self.ending = threading.Event()
        self.maps, self.sent, self.number = {}, {}, 0
        self.receiver = ""

    def run(self):
        with contextlib.suppress(Exception):  # the store is gone: so is the job
            while not self.ending.wait(EVERY_S):
                self.send(False)
            time.sleep(0.05)
            self.send(True)

    def send(self, last):
        receiver = life.look(self.store, KEY)
        if receiver != self.receiver:  # an earlier one's name, until now: this one has heard nothing yet
            self.receiver, self.sent, self.number = receiver, {}, 0
        if not receiver:
            return
        parts, names = [], os.listdir(lanes.folder)
        for name in set(self.maps).difference(names):  # its thread has ended, and the profiler has taken it away
            self.maps.pop(name).close()
        for name in sorted(names):
            if name.startswith("lane-") and (row := self.take(name)) is not None:
                parts.append(row)
        if parts or last:
            blob = struct.pack("=QQQ", lanes.now(), last, len(parts)) + b"".join(parts)
            self.store.set(f"{KEY}/{receiver}/{self.node}/{self.number}", blob)
            self.number += 1

    def take(self, name):
        if name not in self.maps:
            fd = os.open(os.path.join(lanes.folder, name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                self.maps[name] = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
            finally:
                os.close(fd)
        view, sent = self.maps[name], self.sent.get(name, 0)
        words = struct.unpack_from(f"={lanes.HEADER_WORDS}Q", view)
        head, state = words[lanes.W_HEAD], words[lanes.W_STATE]
        if (head, state) == self.sent.get((name, "seen")):
            return None
        room = words[lanes.W_CAPACITY]
        first = max(sent, head - room // 2)  # older ones may be overwritten while they are read
        head = min(head, first + BLOB // RECORD)
        rows = [view[HEADER + RECORD * (i % room) :][:RECORD] for i in range(first, head)]
        self.sent[name] = head
        self.sent[name, "seen"] = (head, state)
        data = b"".join(rows)
        return struct.pack("=QQQ", len(rows), first - sent, 0) + view[:HEADER] + data


class Receiver:
    def __init__(self, store, nodes):
        self.store, self.open = store, dict.fromkeys(range(1, nodes), 0)
        self.ending = threading.Event()
        self.lanes, self.offset = {}, {}
        self.name = os.urandom(8).hex()

    def run(self):
        try:
            self.store.set(KEY, self.name)
            self.receive_all()
        except Exception as error:  # the store is gone
            lanes.note(f"records of other machines ended early: {error!r}")
        finally:
            lanes.put(lanes.W_EXPECT, 0)

    def receive_all(self):
        until = None
        while self.open:
            got = [self.receive(node) for node in list(self.open)]
            if self.ending.is_set():
                until = until or time.monotonic() + LAST_S
                if time.monotonic() > until:
                    return
            if not any(got):
                time.sleep(0.05) if until else self.ending.wait(EVERY_S)

    def receive(self, node):
        key = f"{KEY}/{self.name}/{node}/{self.open[node]}"
        if not self.store.check([key]):
            return False
        blob = self.store.get(key)
        self.store.delete_key(key)
        self.open[node] += 1
        sent, last, count = struct.unpack_from("=QQQ", blob)
        # The least difference is the one with the least delay.
        self.offset[node] = min(self.offset.get(node, 1 << 62), lanes.now() - sent)
        at = 24
        for _ in range(count):
            rows, missed, _ = struct.unpack_from("=QQQ", blob, at)
            self.write(node, blob[at + 24 : at + 24 + HEADER], blob[at + 24 + HEADER :][: rows * RECORD], missed)
            at += 24 + HEADER + rows * RECORD
        if last:
            del self.open[node]
        return True

    def write(self, node, header, rows, missed):
        words = struct.unpack(f"={lanes.HEADER_WORDS}Q", header)
        name = f"{node}.{words[lanes.W_PID]}-{words[lanes.W_TID]}"
        if name not in self.lanes:
            self.lanes[name] = lanes.Lane(lanes.folder, name, words[lanes.W_CAPACITY])
        lane, offset = self.lanes[name], self.offset[node]
        own = (lanes.W_CAPACITY, lanes.W_HEAD, lanes.W_TAIL, lanes.W_NODE, lanes.W_DROPPED, lanes.W_STATE)
        for word, value in enumerate(words):
            if word not in own:
                lane.words[word] = value
        lane.words[lanes.W_NODE] = node
        for at in range(0, len(rows), RECORD):
            begin, end, what, value, extra = struct.unpack_from("=5Q", rows, at)
            if what >> 16 & 0xFFFF & lanes.DEVICE and what & 0xFF <= lanes.FETCH:
                lane.put(begin, end, what, value, extra)
            else:
                lane.put(begin + offset, end + offset, what, value, extra)
        lane.words[lanes.W_DROPPED] += missed
        lane.words[lanes.W_STATE] = words[lanes.W_STATE]
        if words[lanes.W_STATE] != lanes.RUNNING and words[lanes.W_ROLE] == 2:
            del self.lanes[name]  # the profiler takes it away
