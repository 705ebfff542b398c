"""The version of a contract whose figures come from settings."""

from datetime import timedelta

__all__ = ["contract_version"]


def contract_version(base: str, **figures: timedelta | None) -> str:
    """Return a version that tells contracts with other figures apart: `2026-11 deadline20 flight120`, in seconds.

    It is stored on each attempt, and must say by which figures the attempt was judged.
    """
    return " ".join([base, *(f"{name}{value.total_seconds():g}" for name, value in figures.items() if value is not None)])
