"""What ranks say to each other in torch's store, each time they live. torchrun's store outlives the ranks that it starts again, with
all that they have said: what an earlier life has left must not be taken for an answer."""

import os
import time

KEY = "leat/profile"


def look(store, key):
    """What stands there now, "" for nothing."""
    return store.get(key).decode() if store.check([key]) else ""


def until(good, deadline, whom):
    """good() as soon as it is something. Asks now and then: torch's own wait cannot be interrupted."""
    pause = 0.001
    while not (found := good()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{whom} did not answer in time: is it profiled, too?")
        time.sleep(pause)
        pause = min(1.5 * pause, 0.1)
    return found


def begin(store, rank, world, seconds):
    """A name that all ranks know, and only those that live now: rank 0 waits until each of them has repeated its word, and each
    until rank 0 has repeated its own."""
    own, deadline = os.urandom(8).hex(), time.monotonic() + seconds
    if rank == 0:
        store.set(f"{KEY}/hello", own)
        for r in range(1, world):

            def repeated(r=r):
                said = look(store, f"{KEY}/hello/{r}")
                return said if said.startswith(own) else ""

            store.set(f"{KEY}/life/{r}", until(repeated, deadline, f"rank {r}"))
        return f"{KEY}/{own}"
    heard = [""]

    def answered():
        hello = look(store, f"{KEY}/hello")
        if hello != heard[0]:  # it may have been an earlier rank 0's
            heard[0] = hello
            store.set(f"{KEY}/hello/{rank}", f"{hello}/{own}")
        said = look(store, f"{KEY}/life/{rank}")
        return said.partition("/")[0] if said.endswith(own) else ""

    return f"{KEY}/{until(answered, deadline, 'rank 0')}"
