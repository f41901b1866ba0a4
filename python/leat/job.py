"""The machines of a job: who they are, and where each serves what it has fetched.

Membership is torch's: its store carries one text, made on the machine of rank 0, to all ranks, and each gives it to the agent
of its machine. When torchrun starts its workers again, on the same machines or others, there is another process group, and so
another text with secrets of its own.

Or it is etcd's (job="etcd://…"): then the agents see to it, machines come and go at any time, and ranks tell each other only
what they are assigned by.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import logging
import os
import re
import socket
import ssl
import time
import urllib.parse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from leat.errors import Error, InvalidError

if TYPE_CHECKING:
    from leat import _core
    from leat.ranks import Exchange

CHOICES = ("auto", "off")
ETCD = ("etcd://", "etcds://")
HOST = re.compile(r"(\[[\da-fA-F:.]+\]|[\w.-]+)(:\d+)?")
ETCD_PATIENCE_S = 10.0  # to enter; the agent goes on trying
SIGHT_PATIENCE_S = 5.0  # to see all others in it
PORT_PATIENCE_S = 5.0  # an earlier membership may hold a fixed port for a moment

_log = logging.getLogger("leat")
_met: tuple[Any, ...] = ()  # the process group's store, nodes and scope that _members is of
_members = ""


def choose(given: str | None) -> str:
    """What the user said, the environment, or the default."""
    text = given if given is not None else os.environ.get("LEAT_JOB") or "auto"
    if text.startswith(ETCD):
        service(text)
    elif text not in CHOICES:
        raise InvalidError(f"job={_shown(text)!r} is not one of: {', '.join(CHOICES)}, etcd://HOST:2379/NAME")
    return text


def _short(text: str, most: int) -> str:
    """At most this many characters; what would be cut off stays apart by its hash."""
    if len(text) <= most:
        return text
    return f"{text[: most - 17]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _certificates() -> dict[str, str]:
    """etcdctl's own variables. The agent reads these files, later and in another folder: what cannot be read is an error now."""
    found = {name: os.environ.get(f"ETCDCTL_{name}", "") for name in ("CACERT", "CERT", "KEY")}
    found = {name: os.path.abspath(path) if path else "" for name, path in found.items()}
    if bool(found["CERT"]) != bool(found["KEY"]):
        raise InvalidError(
            "ETCDCTL_CERT and ETCDCTL_KEY name a certificate and its key: one is there, the other is not"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    wrong = ""
    try:
        for name, path in found.items():
            wrong = f"ETCDCTL_{name}={path}"
            if path and not os.path.isdir(path):
                with open(path, "rb"):
                    pass
        if found["CACERT"]:
            wrong = f"ETCDCTL_CACERT={found['CACERT']}"
            folder = os.path.isdir(found["CACERT"])
            context.load_verify_locations(**{"capath" if folder else "cafile": found["CACERT"]})
        if found["CERT"]:
            wrong = f"ETCDCTL_CERT={found['CERT']} with ETCDCTL_KEY={found['KEY']}"
            context.load_cert_chain(found["CERT"], found["KEY"], password="")  # without one it would be asked for
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidError(f"{wrong} cannot be used for etcd: {reason}") from error
    return {"ca": found["CACERT"], "cert": found["CERT"], "key": found["KEY"]}


def _shown(text: str) -> str:
    """Without a password, wherever that ends: one that is not written as it should be has slashes and more in it."""
    return re.sub(r"(//|^).*@", r"\1…@", text)


def service(text: str) -> dict[str, Any]:
    """What an agent is told of the etcd that etcd://[USER:PASSWORD@]HOST[:PORT][,HOST…]/NAME means. Certificates and users that
    are not in it come from etcdctl's own variables."""
    scheme, _, rest = text.partition("://")
    authority, _, name = rest.partition("/")
    said, _, several = authority.rpartition("@")
    user, _, password = (said or os.environ.get("ETCDCTL_USER", "")).partition(":")
    if said:
        user, password = urllib.parse.unquote(user), urllib.parse.unquote(password)
    name = name.strip("/")
    where = f"@{urllib.parse.quote(zone(), safe='')}" if zone() else ""  # another zone is another membership
    hosts = several.split(",")
    if not name or not all(map(HOST.fullmatch, hosts)) or "?" in name or "#" in name:
        raise InvalidError(
            f"job={_shown(text)!r} is not etcd://HOST:PORT/NAME, with a name that is this job's alone; an IPv6 address stands in "
            "brackets, and what is no letter or digit of a password is written as %XX"
        )
    found = [host if re.search(r":\d+$", host) else f"{host}:2379" for host in hosts]
    return {
        "hosts": ",".join(found),
        "tls": scheme == "etcds",
        "prefix": f"/leat/{urllib.parse.quote(name, safe='')}{where}",
        "user": user,
        "password": password or os.environ.get("ETCDCTL_PASSWORD", ""),
        **(_certificates() if scheme == "etcds" else {}),
    }


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
        return _short(f"torchrun {run}", 79)
    slurm = os.environ.get("SLURM_JOB_ID", "")
    return _short(f"slurm {slurm}", 79) if slurm else ""


def _own_address(towards: str, port: int) -> str:
    """The address of this machine on the way to another; nothing is sent."""
    family, _, _, _, where = socket.getaddrinfo(towards, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.connect(where)
        return str(s.getsockname()[0])


def address(towards: str = "") -> tuple[str, int]:
    """Where the others can reach this machine: LEAT_JOB_ADDRESS, else its address on the way to a host, or to rank 0."""
    said = os.environ.get("LEAT_JOB_ADDRESS", "")
    host, _, port = said.rpartition(":") if said.count(":") == 1 or "]" in said else (said, "", "")
    if port and not port.isdigit():
        raise InvalidError(f"LEAT_JOB_ADDRESS={said!r} is not an address, a port after ':', or both")
    host = host.strip("[]")
    if host:
        return str(ipaddress.ip_address(socket.getaddrinfo(host, None)[0][4][0])), int(port or 0)
    master = towards or os.environ.get("MASTER_ADDR", "")
    found = _own_address(master or socket.gethostname(), 9)
    local = master in ("localhost", "127.0.0.1", "::1")
    if ipaddress.ip_address(found).is_loopback and not local:
        found = _own_address("192.0.2.1", 9)  # a host that calls itself 127.0.1.1: the way out has an address
    return found, int(port or 0)


def zone() -> str:
    """Machines share with those of the same zone only: traffic between zones is paid for, or slow."""
    return _short(os.environ.get("LEAT_JOB_ZONE", ""), 63)


def _write(what: Any) -> str:
    """As short as the agent writes it, which knows what fits into a message."""
    return json.dumps(what, separators=(",", ":"))


def _ask(core: _core.Loader, ask: str, **more: Any) -> Any:
    return json.loads(core.confer(_write({"ask": ask, **more})))


def _card(core: _core.Loader) -> dict[str, str]:
    """Where this machine's agent can serve, or why it cannot."""
    deadline = time.monotonic() + PORT_PATIENCE_S
    host = ""
    while True:
        try:
            host, port = address()
            bound = _ask(core, "card", address=host, port=port)["address"]
            return {"address": bound, "problem": "", "zone": zone()}
        except (Error, OSError, ValueError) as error:
            if isinstance(error, Error) and "in use" in str(error) and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            return {"address": "", "problem": f"{socket.gethostname()}: {error}", "zone": zone()}


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
            zones = [cards[node]["zone"] for node in sorted(counts)]
            more = {"zones": zones} if any(zones) else {}
            made = _ask(core, "make", job=name(), nodes=machines, room=len(_write(more)))
            made.update(more)
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
    text = _write(answer["members"]) if answer["members"] else ""
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


def _enter(core: _core.Loader, etcd: dict[str, Any]) -> dict[str, Any]:
    """This machine's agent enters the job; what came of it."""
    deadline = time.monotonic() + ETCD_PATIENCE_S
    card: dict[str, Any] = {"address": "", "in": False, "problem": ""}
    try:
        host, port = address(re.sub(r":\d+$", "", etcd["hosts"].split(",")[0]).strip("[]"))
        while not card["in"] and time.monotonic() < deadline:
            card = _ask(core, "etcd", etcd=etcd, address=host, port=port, set=core.version[:16])
            if card["problem"]:
                break
            time.sleep(0 if card["in"] else 0.02)
        if not card["in"] and not card["problem"]:
            card["problem"] = f"etcd at {etcd['hosts']} has not let this machine in within {ETCD_PATIENCE_S:.0f} s"
    except (Error, OSError, ValueError) as error:
        card["problem"] = str(error)
    if card["problem"]:
        card["problem"] = f"{socket.gethostname()}: {card['problem']}"
    card.pop("roster", None)  # all ranks are told of all cards
    return {**card, "zone": zone()}


def _see(core: _core.Loader, etcd: dict[str, Any], own: str, others: list[str]) -> list[str]:
    """Waits until the agent knows that they are there; the list of the job's machines."""
    deadline = time.monotonic() + SIGHT_PATIENCE_S
    while True:
        host, _, port = own.rpartition(":")
        answer = _ask(
            core, "etcd", etcd=etcd, address=host.strip("[]"), port=int(port), set=core.version[:16], wants=others
        )
        if not answer["missing"] or time.monotonic() > deadline:
            return list(answer["roster"])
        time.sleep(0.02)


def _near(own: dict[str, Any], cards: Iterable[dict[str, Any]]) -> list[str]:
    """The machines that this one will see: those of its zone that are in."""
    return [card["address"] for card in cards if card["in"] and card["zone"] == own["zone"]]


def _make_world(core: _core.Loader, etcd: dict[str, Any], nodes: list[int], texts: list[str]) -> str:
    """On rank 0: what ranks are assigned by. Nothing where its own machine is not in the job."""
    cards = {node: json.loads(text) for node, text in zip(nodes, texts) if text}
    world = [[cards[node]["address"] if cards[node]["in"] else "", nodes.count(node)] for node in sorted(cards)]
    roster: list[str] = []
    problems = [card["problem"] for card in cards.values() if card["problem"]]
    if cards[nodes[0]]["in"]:
        try:
            roster = _see(core, etcd, cards[nodes[0]]["address"], _near(cards[nodes[0]], cards.values()))
        except Error as error:  # the others wait for this answer
            problems.append(f"{socket.gethostname()}: {error}")
    return json.dumps(
        {"world": world if roster else [], "roster": roster, "problems": problems, "cards": list(cards.values())}
    )


def meet_in_etcd(core: _core.Loader, exchange: Exchange | None, nodes: list[int] | None, url: str) -> None:
    """The agents enter the job. The ranks of a world, if they know each other, agree on what they are assigned by and wait until
    all their machines have seen each other, so that none fetches what is another's."""
    etcd = service(url)
    if exchange is None or nodes is None:
        card = _enter(core, etcd)
        core.share(json.dumps({"etcd": etcd, "address": card["address"]}))
        problems = [card["problem"]] if card["problem"] else []
    else:
        node = nodes[exchange.rank]
        lead = nodes.index(node) == exchange.rank
        card = _enter(core, etcd) if lead else {}
        mine = json.dumps(card) if lead else ""
        answer = json.loads(exchange.gather("etcd", mine, lambda texts: _make_world(core, etcd, nodes, texts)))
        world = answer["world"]
        problems = answer["problems"] if exchange.rank == 0 else []
        if lead and card["in"] and world:
            try:
                _see(core, etcd, card["address"], _near(card, answer["cards"]))
            except Error as error:  # the others wait for this rank
                problems = [*problems, f"{socket.gethostname()}: {error}"]
        where = json.loads(exchange.gather("seen", card.get("address", ""), json.dumps))
        text = {"etcd": etcd, "address": next(a for n, a in zip(nodes, where) if n == node)}
        core.share(_write({**text, "roster": answer["roster"], "world": world} if world else text))
    for line in problems:
        _log.warning("the machines of this job do not share all that they fetch: %s", line)
