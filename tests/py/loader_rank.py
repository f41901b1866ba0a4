"""A rank as a process of its own: reads what to do as JSON from its argument, prints a line of JSON for each batch.

Keys of the job: "loader" (arguments of leat.Loader), "fields" (names out of FIELDS), "epochs" or "batches" (when to
end), "state" (to begin at), "sleep" (between batches, in seconds), "go" (a line from standard input before each batch).
"""

import json
import sys
import time
import zlib

import leat

FIELDS = {
    "x": lambda: leat.image("png").random_resized_crop(16).flip(),
    "fast": lambda: leat.image("png").random_resized_crop(16).flip().fast(),
    "gray": lambda: leat.image("png").random_resized_crop(16).gray(),
    "whole": lambda: leat.image("png").resize((16, 16)),
    "y": lambda: leat.int("cls"),
    "png": lambda: leat.bytes("png"),
    "bin": lambda: leat.bytes("bin"),
    "key": leat.key,
    "index": leat.index,
    "tokens": lambda: leat.tokens("tokens"),
    "valid": leat.valid,
}


def plain(name, values):
    """Something JSON can carry: numbers as they are, a checksum for each image or blob, keys as text."""
    if name in ("x", "fast", "gray", "whole"):
        return [zlib.crc32(image.tobytes()) for image in values]
    if name in ("png", "bin"):
        return [zlib.crc32(value) for value in values]
    return values.tolist()


def say(**line):
    print(json.dumps(line), flush=True)


def main():
    job = json.loads(sys.argv[1])
    names = job.get("fields", ["x", "y", "index", "valid"])
    fields = {name: FIELDS[name]() for name in names}
    with leat.Loader(fields=fields, as_numpy=True, as_dict=True, **job["loader"]) as loader:
        if "state" in job:
            loader.load_state_dict(job["state"])
        say(open=True, state=loader.state_dict(), agent=loader.stats()["agent_pid"])
        left = job.get("batches", -1)
        for _ in range(job.get("epochs", 1)):
            for batch in loader:
                say(epoch=loader.epoch, **{name: plain(name, batch[name]) for name in names}, state=loader.state_dict())
                left -= 1
                if left == 0:
                    break
                time.sleep(job.get("sleep", 0))
                if job.get("go") and not sys.stdin.readline():
                    break
            if left == 0:
                break
        say(end=True, state=loader.state_dict(), stats=loader.stats())


if __name__ == "__main__":
    try:
        main()
    except leat.Error as error:
        say(error=type(error).__name__, text=str(error))
        sys.exit(3)
