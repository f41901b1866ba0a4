"""The machines of a job: who they are, and where each serves what it has fetched.

Membership is torch's: its store carries one text, made on the machine of rank 0, to all ranks, and each gives it to the agent
of its machine. When torchrun starts its workers again, on the same machines or others, there is another process group, and so
another text with secrets of its own.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from leat.errors import Error, InvalidError

if TYPE_CHECKING:
    from leat import _core
    from leat.ranks import Exchange

CHOICES = ("auto", "off")
PORT_PATIENCE_S = 5.0  # an earlier membership may hold a fixed port for a moment

_log = logging.getLogger("leat")
_met: tuple[Any, ...] = ()  # the process group's store, nodes and scope that _members is of
_members = ""


def choose(given: str | None) -> str:
    """What the user said, the environment, or the default."""
    text = given if given is not None else os.environ.get("LEAT_JOB") or "auto"
    if text not in CHOICES:
        raise InvalidError(f"job={text!r} is not one of: {', '.join(CHOICES)}")
    return text


def several_machines() -> bool:
    """Whether the launcher says that the job has more than this one: then what this rank will read is not known before all
    have met."""
    pairs = (("LOCAL_WORLD_SIZE", "WORLD_SIZE"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"))
    for here, all_of_them in pairs:
        local, world = os.environ.get(here, ""), os.environ.get(all_of_them, "")
        if local.isdigit() and world.isdigit() and int(local) < int(world):
            return True
    steps = os.environ.get("SLURM_STEP_NUM_NODES") or os.environ.get("SLURM_NNODES", "")
    return steps.isdigit() and int(steps) > 1 and "SLURM_PROCID" in os.environ


def name() -> str:
    """What the launcher calls the job, the same after a restart; "" where it has no name of its own."""
    run = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if run and run != "none":
        return f"torchrun {run}"[:79]
    slurm = os.environ.get("SLURM_JOB_ID", "")
    return f"slurm {slurm}"[:79] if slurm else ""


def _own_address(towards: str, port: int) -> str:
    """The address of this machine on the way to another; nothing is sent."""
    family, _, _, _, where = socket.getaddrinfo(towards, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.connect(where)
        return str(s.getsockname()[0])


def address() -> tuple[str, int]:
    """Where the others can reach this machine: LEAT_JOB_ADDRESS, else its address on the way to rank 0."""
    said = os.environ.get("LEAT_JOB_ADDRESS", "")
    host, _, port = said.rpartition(":") if said.count(":") == 1 or "]" in said else (said, "", "")
    if port and not port.isdigit():
        raise InvalidError(f"LEAT_JOB_ADDRESS={said!r} is not an address, a port after ':', or both")
    host = host.strip("[]")
    if host:
        return str(ipaddress.ip_address(socket.getaddrinfo(host, None)[0][4][0])), int(port or 0)
    master = os.environ.get("MASTER_ADDR", "")
    found = _own_address(master or socket.gethostname(), 9)
    local = master in ("localhost", "127.0.0.1", "::1")
    if ipaddress.ip_address(found).is_loopback and not local:
        found = _own_address("192.0.2.1", 9)  # a host that calls itself 127.0.1.1: the way out has an address
    return found, int(port or 0)


def _ask(core: _core.Loader, ask: str, **more: Any) -> Any:
    return json.loads(core.confer(json.dumps({"ask": ask, **more})))


def _card(core: _core.Loader) -> dict[str, str]:
    """Where this machine's agent can serve, or why it cannot."""
    deadline = time.monotonic() + PORT_PATIENCE_S
    host = ""
    while True:
        try:
            host, port = address()
            return {"address": _ask(core, "card", address=host, port=port)["address"], "problem": ""}
        except (Error, OSError, ValueError) as error:
            if isinstance(error, Error) and "in use" in str(error) and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            return {"address": "", "problem": f"{socket.gethostname()}: {error}"}


def _gather_cards(core: _core.Loader, nodes: list[int], texts: list[str]) -> str:
    """On rank 0: the members, made of all cards; "" when there are not two machines that could share."""
    cards: dict[int, dict[str, str]] = {}
    counts: dict[int, int] = {}
    for node, text in zip(nodes, texts):
        counts[node] = counts.get(node, 0) + 1
        if text:
            cards[node] = json.loads(text)
    machines = [[cards[node]["address"], counts[node]] for node in sorted(counts)]
    problems = [card["problem"] for card in cards.values() if card["problem"]]
    made: Any = None
    if sum(bool(where) for where, _ in machines) > 1:
        try:
            made = _ask(core, "make", job=name(), nodes=machines)
        except Error as error:
            problems.append(str(error))
    return json.dumps({"members": made, "problems": problems})


def meet(core: _core.Loader, exchange: Exchange, nodes: list[int], scope: str) -> None:
    """All ranks of a job on several machines: they tell each other where they serve, and their agents begin to."""
    global _met, _members
    key = (exchange.store, tuple(nodes), scope)
    if _met and _met[0] is key[0] and _met[1:] == key[1:]:
        if _members:
            core.share(_members)
        return
    node = nodes[exchange.rank]
    lead = nodes.index(node) == exchange.rank
    card = json.dumps(_card(core)) if lead else ""
    answer = json.loads(exchange.gather("cards", card, lambda texts: _gather_cards(core, nodes, texts)))
    problems = list(answer["problems"])
    text = json.dumps(answer["members"], separators=(",", ":")) if answer["members"] else ""
    if text:
        problem = ""
        try:
            if lead:
                problem = _ask(core, "join", node=node, members=answer["members"])["problem"]
        except Error as error:
            problem = str(error)
        problem = f"{socket.gethostname()}: {problem}" if problem else ""
        # nobody asks a machine that is not ready
        told = exchange.gather("doors", problem, lambda texts: json.dumps([t for t in texts if t]))
        problems += json.loads(told)
        core.share(text)
    if exchange.rank == 0:
        for line in problems:
            _log.warning("the machines of this job do not share all that they fetch: %s", line)
    _met, _members = key, text
