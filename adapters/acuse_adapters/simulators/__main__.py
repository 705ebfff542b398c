"""`python -m acuse_adapters.simulators crm|ticketing|email --state DIR`: one simulator, until SIGTERM or SIGINT.

When it is ready it prints one JSON line: `{"simulator": "crm", "http": 40001}`; email also has `"smtp"` and `"imap"`,
and its `"http"` serves the control interface only.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from pydantic import ValidationError

from acuse_adapters.simulators.crm import Crm
from acuse_adapters.simulators.imap import imap_session
from acuse_adapters.simulators.listener import Listener
from acuse_adapters.simulators.mail import Mail
from acuse_adapters.simulators.plan import load_plan
from acuse_adapters.simulators.provider import Provider, guarded
from acuse_adapters.simulators.simulation import Simulation
from acuse_adapters.simulators.smtp import smtp_session
from acuse_adapters.simulators.ticketing import Ticketing
from acuse_adapters.simulators.wire import http_session

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_PARENT_POLL_SECONDS = 0.5
"""Where the kernel has no death signal: how soon an orphan notices."""


def main(arguments: list[str] | None = None) -> int:
    """Run a simulator; returns its exit code."""
    options = _parser().parse_args(arguments)
    parent = os.getppid()
    if options.die_with_parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        plan = load_plan(options.plan, options.seed)
        asyncio.run(_run(options, Simulation(options.simulator, options.state, plan), parent))
    except (ValidationError, OSError, RuntimeError) as error:
        sys.stderr.write(f"simulator {options.simulator}: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m acuse_adapters.simulators", description=__doc__)
    parser.add_argument("simulator", choices=["crm", "ticketing", "email"])
    parser.add_argument("--state", type=Path, required=True, help="folder of the ground truth; made if missing")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="HTTP; 0: any free port")
    parser.add_argument("--smtp-port", type=int, default=0)
    parser.add_argument("--imap-port", type=int, default=0)
    parser.add_argument("--plan", help="the word demo, JSON, or a JSON file; without it nothing misbehaves")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--die-with-parent", action="store_true")
    return parser


async def _run(options: argparse.Namespace, simulation: Simulation, parent: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watch = asyncio.create_task(_stop_as_orphan(parent, stop)) if options.die_with_parent else None
    doors = _doors(simulation)
    ports = {
        name: await door.open(options.host, port)
        for (name, door), port in zip(doors.items(), (options.port, options.smtp_port, options.imap_port), strict=False)
    }
    sys.stdout.write(json.dumps({"simulator": simulation.name, **ports}) + "\n")
    sys.stdout.flush()
    await stop.wait()
    if watch is not None:
        watch.cancel()
    for door in doors.values():
        await door.close()
    await simulation.close()


def _doors(simulation: Simulation) -> dict[str, Listener]:
    if simulation.name == "email":
        mail = Mail(simulation)
        return {
            "http": Listener(http_session(guarded(simulation, mail, bearer=False))),
            "smtp": Listener(smtp_session(simulation, mail)),
            "imap": Listener(imap_session(simulation, mail)),
        }
    provider: Provider = Crm(simulation) if simulation.name == "crm" else Ticketing(simulation)
    return {"http": Listener(http_session(guarded(simulation, provider, bearer=simulation.name == "crm")))}


async def _stop_as_orphan(parent: int, stop: asyncio.Event) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110  (the kernel has no event for it here)
        await asyncio.sleep(_PARENT_POLL_SECONDS)
    stop.set()


if __name__ == "__main__":
    raise SystemExit(main())
