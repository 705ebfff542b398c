"""The result of a run: lines for people, JSON for machines, JUnit for CI."""

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

from acuse_adapters.faults.judge import Result
from acuse_adapters.faults.skipped import skipped

__all__ = ["as_json", "as_junit"]


def as_json(results: Sequence[Result], seconds: float, seed: int) -> dict[str, Any]:
    """Return `cells`, `wrong`, `skipped` with reasons, `seconds`, `seed` and every result."""
    return {
        "seed": seed,
        "cells": len(results),
        "wrong": sum(bool(result.wrong) for result in results),
        "seconds": round(seconds, 1),
        "skipped": [
            {"boundary": one.boundary, "fault": one.fault, "contract": one.contract, "reason": one.reason} for one in skipped()
        ],
        "results": [
            {
                "cell": result.cell.name,
                "window": result.cell.window.value,
                "calls": result.calls,
                "objects": result.objects,
                "state": result.state,
                "verdict": result.verdict,
                "seconds": round(result.seconds, 1),
            }
            for result in results
        ],
    }


def as_junit(results: Sequence[Result], seconds: float) -> str:
    """Return one test suite with a case per cell."""
    wrong = sum(bool(result.wrong) for result in results)
    suite = ET.Element(
        "testsuite", name="acuse faults", tests=str(len(results)), failures=str(wrong), errors="0", time=f"{seconds:.1f}"
    )
    for result in results:
        case = ET.SubElement(
            suite, "testcase", classname=f"faults.{result.cell.row.boundary}", name=result.cell.name, time=f"{result.seconds:.1f}"
        )
        if result.wrong:
            failure = ET.SubElement(case, "failure", message=result.verdict)
            failure.text = "".join(character for character in result.log if character.isprintable() or character in "\n\t")
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
