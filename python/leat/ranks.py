"""Which rank of which world this is, on which node, and whether all ranks mean the same.

Asked before the first batch and not earlier: a loader may be built before the process group is.
"""

from __future__ import annotations

import collections
import functools
import itertools
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from leat import _core
from leat import job as jobs
from leat.errors import Error, InvalidError, NetworkError, TimeoutError

PARTING_S = 5.0

# Ranks know each other's loaders by their numbers: every rank opens the same ones in the same order. Not by their addresses:
# ranks that read different datasets have to meet to be told so.
_opened: collections.Counter[str] = collections.Counter()

_ABSENT = "rank {} has not opened the same loader"

importing_main = False  # in a transform worker that imports the user's program
IMPORTED = (
    "transform workers import the program that defines the transform, and it opens a loader when it is imported: put what it does "
    'under if __name__ == "__main__":, or define the transform in a module of its own'
)


def _variable(name: str) -> int | None:
    text = os.environ.get(name, "")
    if text and not text.isdigit():
        raise InvalidError(f"the environment's {name}={text!r} is not a whole number")
    return int(text) if text else None


def _distributed() -> Any:
    """torch.distributed when it is initialised, else None. Another thread may be importing torch at this moment."""
    module = getattr(sys.modules.get("torch"), "distributed", None)
    try:
        return module if module is not None and module.is_available() and module.is_initialized() else None
    except AttributeError:
        return None


def rank_and_world() -> tuple[int, int]:
    """torch.distributed when it is initialised, else the environment, else the only rank."""
    group = _distributed()
    if group is not None:
        return group.get_rank(), group.get_world_size()
    rank, world = _variable("RANK"), _variable("WORLD_SIZE")
    if world is None and rank is None:
        return 0, 1
    if world is None or (rank is None and world > 1):
        there, missing = ("RANK", "WORLD_SIZE") if world is None else ("WORLD_SIZE", "RANK")
        raise InvalidError(
            f"the environment has {there}={os.environ[there]} and no {missing}: set both, initialise "
            "torch.distributed before the first batch, or give rank= and world_size="
        )
    return rank or 0, world


def job() -> str | None:
    """What the next loader has in common with those of other ranks of its job, for the agent of a machine; None where
    nothing says so."""
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID")
    texts = [os.environ.get(name, "") for name in (*names, "MASTER_ADDR", "MASTER_PORT")]
    return "/".join([*texts, str(_opened["agent"])]) if any(texts) else None


def settings(explicit: bool, world: int | None, share: str = "off") -> list[tuple[str, str]]:
    """What is known when a loader is built. The agent begins to fetch for the rank this seems to be; join() puts that right
    where it turns out otherwise."""
    if explicit and world == 1:
        return []  # validation on one rank, say: it is nobody else's business
    found = []
    text = job()
    if text is not None:
        found.append(("job", text))
    if explicit:
        return found
    if text is not None and _variable("LOCAL_WORLD_SIZE"):
        found.append(("local_world_size", str(_variable("LOCAL_WORLD_SIZE"))))
    try:
        rank, world = rank_and_world()
    except InvalidError:
        return found  # said at the first batch, unless there is a process group by then
    if share.startswith(jobs.ETCD) or (share == "auto" and jobs.several_machines()):
        return found  # what is fetched where is decided when all have met
    return [*found, ("rank", str(rank)), ("world_size", str(world))]


def count(found: list[tuple[str, str]]) -> None:
    """A loader was built with these settings: the next one of its job is another."""
    _opened["agent"] += any(name == "job" for name, _ in found)


def refuse_import() -> None:
    """A program that is imported must not begin to train."""
    if importing_main:
        raise InvalidError(IMPORTED)


def refuse_workers(pid: int | None = None) -> None:
    """Inside several DataLoader workers each would deliver everything. Inside one, a loader that was made by process `pid`
    would move on while the original, from which each epoch's worker is made again, stays where it is."""
    torch = sys.modules.get("torch")
    data = getattr(getattr(torch, "utils", None), "data", None)
    ask = getattr(data, "get_worker_info", None)  # another thread may be importing torch at this moment
    info = ask() if ask is not None else None
    if info is not None and info.num_workers > 1:
        raise InvalidError(
            f"a Loader inside {info.num_workers} DataLoader workers would deliver every sample {info.num_workers} "
            "times: iterate over the loader itself, or use num_workers=0. The agent has threads of its own"
        )
    if info is not None and pid not in (None, os.getpid()):
        raise InvalidError(
            "a Loader inside a DataLoader worker would deliver the same epoch again and again, because the worker is made "
            "again for each: iterate over the loader itself, or use num_workers=0. The agent has threads of its own"
        )


class Exchange:
    """Texts of all ranks, through the store that torch.distributed was initialised with. It is the same for every
    backend, moves no tensors and has deadlines."""

    # A store, what its ranks call what they say there, and how often they have met.
    _life: tuple[Any, str, Iterator[int]] = (None, "", iter(()))

    def __init__(self, rank: int, world: int, store: Any, timeout_s: float) -> None:
        self.rank = rank
        self.world = world
        self.store = store
        self._prefix = "leat"
        self._timeout_s = timeout_s
        life = Exchange._life
        if life[0] is not store:
            life = Exchange._life = (store, self._begin_life(), itertools.count())
        _, name, number = life
        self._prefix = f"leat/{name}/{next(number)}"

    def _begin_life(self) -> str:
        """A name that all ranks know, of what they say to each other from now on. torchrun's store outlives the ranks that it
        starts again, with all that they have said, and so what counts is only what answers something new: rank 0 waits until each
        rank has repeated its word, and each rank until rank 0 has repeated its."""
        own = secrets.token_hex(8)
        if self.rank == 0:
            self._set("hello", own)
            for r in range(1, self.world):
                answer = self._get(f"hello/{r}", _ABSENT.format(r), lambda text: text.startswith(own))
                self._set(f"life/{r}", answer)
            return own
        heard = [""]

        def is_ours(text: str) -> bool:
            hello = self._look("hello")
            if hello != heard[0]:  # it may have been an earlier rank 0's
                heard[0] = hello
                self._set(f"hello/{self.rank}", f"{hello}/{own}")
            return text.endswith(own)

        return self._get(f"life/{self.rank}", _ABSENT.format(0), is_ours).partition("/")[0]

    def _ask(self, call: str, *args: Any) -> Any:
        try:
            return getattr(self.store, call)(*args)
        except RuntimeError as error:  # torch has several kinds, all of this family
            why = str(error).partition("\n")[0]
            raise NetworkError(f"the store of torch.distributed does not answer: rank 0 has ended? ({why})") from None

    def _poll(self, there: Callable[[], bool], deadline: float) -> bool:
        """Waits by asking now and then: torch's own wait cannot be interrupted, and warns when nothing has come."""
        pause, longest = 0.001, min(0.5, max(0.01, self.world / 20000))  # some ten thousand questions a second at most
        while not there():
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, longest)
        return True

    def _is(self, name: str) -> bool:
        return bool(self._ask("check", [f"{self._prefix}/{name}"]))

    def _look(self, name: str) -> str:
        """What stands there now, "" for nothing."""
        return str(self._ask("get", f"{self._prefix}/{name}").decode()) if self._is(name) else ""

    def _get(self, name: str, missing: str, good: Callable[[str], bool] | None = None) -> str:
        """What stands there as soon as something does, or something that is good."""
        deadline = time.monotonic() + self._timeout_s
        if not self._poll(lambda: good(self._look(name)) if good else self._is(name), deadline):
            raise TimeoutError(f"{missing} within {self._timeout_s:.0f} s: it hangs, has ended, or opens other loaders")
        return self._look(name)

    def _set(self, name: str, text: str) -> None:
        self._ask("set", f"{self._prefix}/{name}", text)

    def gather(self, name: str, text: str, judge: Callable[[list[str]], str]) -> str:
        """Every rank gives a text; judge, on rank 0, makes one answer of all of them, which every rank gets."""
        self._set(f"{name}/{self.rank}", text)
        if self.rank == 0:
            texts = [text] + [self._get(f"{name}/{r}", _ABSENT.format(r)) for r in range(1, self.world)]
            self._set(f"{name}/answer", judge(texts))
        return self._get(f"{name}/answer", _ABSENT.format(0))

    def part(self) -> None:
        """The last word: rank 0 has the store, and may end when it has nothing more to do, so it waits until all others have
        had their answers."""
        self._set(f"parted/{self.rank}", "")
        deadline = time.monotonic() + PARTING_S
        if self.rank == 0:
            all(self._poll(functools.partial(self._is, f"parted/{r}"), deadline) for r in range(1, self.world))


def _meet(timeout_s: float) -> Exchange:
    from torch.distributed import distributed_c10d

    group = _distributed()
    return Exchange(group.get_rank(), group.get_world_size(), distributed_c10d._get_default_store(), timeout_s)


def _node() -> str:
    """This machine, as far as agents go: ranks with the same text share one."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            boot = f.read().strip()
    except OSError:
        boot = ""
    parts = [socket.gethostname(), boot, os.environ.get("LEAT_RUNTIME_DIR", ""), os.environ.get("LEAT_SCOPE", "")]
    return "/".join(parts)


def _number_nodes(texts: list[str]) -> str:
    seen: dict[str, int] = {}
    return json.dumps([seen.setdefault(text, len(seen)) for text in texts])


def _judge(texts: list[str]) -> str:
    """What differs between rank 0 and another, "" for nothing."""
    answers = [json.loads(text) for text in texts]
    for rank, answer in enumerate(answers):
        if "error" in answer:
            return f"rank {rank} could not open its loader: {answer['error']}"
    for rank, answer in enumerate(answers):
        try:
            _core.compare(answers[0]["agreement"], answer["agreement"], f"rank {rank}")
        except Error as error:
            return str(error).replace("(here ", "(rank 0: ")
    return ""


def join(
    core: _core.Loader,
    timeout_s: float,
    rank: int | None = None,
    world: int | None = None,
    share: str = "off",
    scope: str = "",
) -> None:
    """Makes a loader that rank of that world, of torch.distributed's or of the environment's; then all ranks compare what
    they are about to read."""
    refuse_workers()
    given = rank is not None
    group = _distributed()
    if rank is None or world is None:
        rank, world = rank_and_world()
    same = group is not None and (rank, world) == (group.get_rank(), group.get_world_size())
    exchange = _meet(timeout_s) if same and world > 1 else None
    nodes = None
    if exchange is not None and not given:
        nodes = json.loads(exchange.gather("nodes", _node(), _number_nodes))
        if share == "auto" and len(set(nodes)) > 1:
            jobs.meet(core, exchange, nodes, scope)
    if share.startswith(jobs.ETCD):
        jobs.meet_in_etcd(core, exchange, nodes, share)
    try:
        if not given:
            core.join(rank, world, nodes)
        answer = {"agreement": core.agreement()} if exchange is not None else None
    except Error as error:
        if exchange is not None:  # or the others would wait for this rank
            exchange.gather("agreement", json.dumps({"error": str(error)}), _judge)
            exchange.part()
        raise
    if exchange is not None:
        difference = exchange.gather("agreement", json.dumps(answer), _judge)
        exchange.part()
        if difference:
            raise InvalidError(difference)
