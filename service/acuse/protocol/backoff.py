"""How long to wait before the next try. Pure: whoever schedules adds the jitter."""

from datetime import timedelta

__all__ = ["backoff"]


def backoff(tries: int, *, first: timedelta, longest: timedelta) -> timedelta:
    """Return `first` doubled for each earlier try, at most `longest`."""
    doublings = min(max(tries, 0), 30)  # 2^30 s is beyond any `longest`; keeps the arithmetic small
    return min(first * (1 << doublings), longest)
