"""Calling an adapter: whatever happens in there becomes a pin, an outcome or a finding. Nothing else comes out."""

import asyncio
import traceback
from dataclasses import dataclass
from typing import Any

import structlog

from acuse.protocol import Ambiguous, Concerns, Finding, NotSent, Outcome, Unavailable
from acuse.protocol.finding import Absent, Found, RefusedBefore, TargetState
from acuse.protocol.outcome import Accepted, Health, Refused, health
from acuse_adapters.port import Adapter, AdapterAction, Ended, Operation, Phase, Pin

__all__ = ["Broken", "look_up", "prepare", "send", "take_cancellation"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Broken(NotSent):
    """Prepare failed by an error of its own, not by its provider. When that goes on, a person must look."""


async def prepare(
    adapter: Adapter, declared: AdapterAction[Any], operation: Operation[Any], seconds: float | None = None
) -> Pin | NotSent:
    """Run everything that may fail harmlessly, within `seconds`. Every failure is "not sent": nothing has left."""
    if declared.prepare_step is None:
        return operation.pin
    limit = declared.contract.deadline.total_seconds() if seconds is None else seconds
    try:
        async with asyncio.timeout(limit), adapter.channel(operation, declared, Phase.PREPARE, limit) as channel:
            return dict(await declared.prepare_step(adapter, operation, channel))
    except Ended as ended:
        if isinstance(ended.outcome, NotSent):
            return ended.outcome
        # Whatever it was, nothing was sent; it says of the provider what it says.
        concerns = Concerns.PROVIDER if health(ended.outcome) is Health.DOWN else Concerns.OPERATION
        return NotSent(f"prepare ended with {type(ended.outcome).__name__.lower()}", concerns=concerns)
    except TimeoutError:
        return NotSent(f"prepare took longer than {limit:.1f} s")
    except asyncio.CancelledError:
        take_cancellation()
        return NotSent("shut down before anything was sent", concerns=Concerns.OPERATION)
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001  # the edge to code that is not ours, sys.exit() included: one meaning for all
        _log.error("prepare_failed", operation=operation.id, provider=adapter.provider, **_trace(error))
        return Broken(f"prepare failed: {type(error).__name__}", concerns=Concerns.OPERATION)


async def send(adapter: Adapter, declared: AdapterAction[Any], operation: Operation[Any], seconds: float) -> Outcome:
    """Send once. An exception is ambiguous: a bug never becomes a refusal. Being shut down during the call is ambiguous too."""
    outcome: object = None
    try:
        async with asyncio.timeout(seconds), adapter.channel(operation, declared, Phase.SEND, seconds) as channel:
            outcome = await declared.send(adapter, operation, channel)
    except Ended as ended:
        outcome = outcome or ended.outcome
    except TimeoutError:
        outcome = outcome or Ambiguous(f"no answer within {seconds:.1f} s")
    except asyncio.CancelledError:
        take_cancellation()
        outcome = outcome or Ambiguous("the worker was shut down during the call", concerns=Concerns.OPERATION)
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001  # as above
        # The receipt may be in hand already: what fails while a connection is closed takes nothing back.
        _log.error(
            "send_failed", operation=operation.id, provider=adapter.provider, had_outcome=outcome is not None, **_trace(error)
        )
        outcome = outcome or Ambiguous(f"the adapter failed during the call: {type(error).__name__}")
    if isinstance(outcome, Accepted | Refused | NotSent | Ambiguous):
        return outcome
    return Ambiguous(f"the adapter answered with {type(outcome).__name__}, which is no outcome")


async def look_up(adapter: Adapter, declared: AdapterAction[Any], operation: Operation[Any]) -> Finding:
    """Find out what happened. Every failure says nothing."""
    if declared.look_up_step is None:
        return Unavailable("this action has no look-up")
    seconds = declared.contract.deadline.total_seconds()
    try:
        async with asyncio.timeout(seconds), adapter.channel(operation, declared, Phase.LOOK_UP, seconds) as channel:
            finding = await declared.look_up_step(adapter, operation, channel)
    except Ended as ended:
        return Unavailable(getattr(ended.outcome, "reason", "the look-up did not end well"))
    except TimeoutError:
        return Unavailable("the look-up took longer than the deadline")
    except asyncio.CancelledError:
        take_cancellation()
        return Unavailable("the worker was shut down during the look-up")
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001  # as above
        _log.error("look_up_failed", operation=operation.id, provider=adapter.provider, **_trace(error))
        return Unavailable(f"the look-up failed: {type(error).__name__}")
    if isinstance(finding, Found | TargetState | Absent | RefusedBefore | Unavailable):
        return finding
    return Unavailable(f"the look-up answered with {type(finding).__name__}, which is no finding")


def _trace(error: BaseException) -> dict[str, str]:
    # Where and what kind, but not its text: an error of an adapter may quote the payload.
    return {"error": type(error).__name__, "trace": "".join(traceback.format_tb(error.__traceback__))}


def take_cancellation() -> None:
    """Take the cancellation of the running task as dealt with: what follows (saving the outcome) must run to its end."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
