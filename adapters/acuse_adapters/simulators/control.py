"""The control interface below `/_sim`: what tests and demonstrations ask of a simulator. No client may use it.

GET  /_sim/health             {"simulator", "ok"}
GET  /_sim/store              {"effects": [...], "requests": [...], "pending": n, "reads": n}
GET  /_sim/tables/{name}      {"rows": {key: row}}: cases, notes, tickets, comments, keys, messages
GET  /_sim/plan               the plan in force
POST /_sim/plan               a FaultPlan, which replaces it
POST /_sim/hold               {"phase": "before_apply" | "after_apply", "marker"?, "kind"?, "skip"?}
GET  /_sim/held?timeout=s     {"held": [{"marker", "phase", "request"}]}, as soon as there is one
POST /_sim/release            {"marker"?, "disarm"?} -> {"released": n}
POST /_sim/clock              {"seconds": n} moves the simulator's clock forward
POST /_sim/cases/{account}/{case}   CRM only: somebody else changes a case
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, ValidationError

from acuse_adapters.simulators.gate import Hold
from acuse_adapters.simulators.plan import FaultPlan, with_seed
from acuse_adapters.simulators.simulation import Simulation
from acuse_adapters.simulators.wire import Answer, BadRequest, Request

__all__ = ["control"]


class _Release(BaseModel):
    model_config = ConfigDict(extra="forbid")

    marker: str | None = None
    disarm: bool = False


class _Advance(BaseModel):
    model_config = ConfigDict(extra="forbid")

    seconds: NonNegativeFloat


async def control(simulation: Simulation, request: Request) -> Answer:
    """Answer a request below `/_sim`; raises BadRequest when its body does not fit."""
    try:
        return _change(simulation, request) if request.method == "POST" else await _look(simulation, request)
    except ValidationError as error:
        raise BadRequest(f"{request.path}: {error}") from error


async def _look(simulation: Simulation, request: Request) -> Answer:
    match request.segments[1:]:
        case ("health",):
            return Answer(200, {"simulator": simulation.name, "ok": True})
        case ("store",):
            return Answer(200, {**simulation.truth.report(), "pending": simulation.pending, "reads": simulation.reads})
        case ("tables", name):
            return Answer(200, {"rows": simulation.truth.table(name)})
        case ("plan",):
            return Answer(200, simulation.plan.model_dump(mode="json"))
        case ("held",):
            return Answer(200, {"held": await simulation.gate.wait_held(_seconds(request))})
        case _:
            return Answer(404, {"error": "not_found", "reason": "GET health, store, tables/{name}, plan or held"})


def _change(simulation: Simulation, request: Request) -> Answer:
    body = request.json_object()
    match request.segments[1:]:
        case ("plan",):
            simulation.replace_plan(with_seed(FaultPlan.model_validate(body), simulation.plan.seed))
        case ("hold",):
            simulation.gate.arm(Hold.model_validate(body))
        case ("release",):
            release = _Release.model_validate(body)
            return Answer(200, {"released": simulation.gate.release(release.marker, disarm=release.disarm)})
        case ("clock",):
            simulation.advance(_Advance.model_validate(body).seconds)
        case _:
            return Answer(404, {"error": "not_found", "reason": "POST plan, hold, release or clock"})
    return Answer(200, {"ok": True})


def _seconds(request: Request) -> float:
    try:
        return float(request.query.get("timeout", "0"))
    except ValueError as error:
        raise BadRequest("timeout: must be a number of seconds") from error
