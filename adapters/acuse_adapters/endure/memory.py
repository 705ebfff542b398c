"""The memory of processes that live for the whole run, and the rule by which it is flat."""

import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Final

__all__ = ["ALLOWED_GROWTH", "Memory", "sampled", "weigh"]

ALLOWED_GROWTH: Final = 0.20
"""Between the median of the second fifth of the samples and that of the last fifth."""

FEWEST_SAMPLES: Final = 50
"""A process that was looked at less often did not live long enough to be judged; the first fifth, its start, does not count."""

SAMPLE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of one process, in bytes. flat: None if it did not live long enough to be judged."""

    process: str
    samples: int
    start: int
    median: int
    last: int
    growth: float | None

    @property
    def flat(self) -> bool | None:
        """Whether it grew no more than is allowed."""
        return None if self.growth is None else self.growth <= ALLOWED_GROWTH


def weigh(process: str, samples: Sequence[int]) -> Memory:
    """Judge the samples of one process, at least one."""
    fifth = len(samples) // 5
    growth = None
    if len(samples) >= FEWEST_SAMPLES:
        growth = median(samples[-fifth:]) / median(samples[fifth : 2 * fifth]) - 1
    return Memory(process, len(samples), samples[0], int(median(samples)), samples[-1], growth)


@contextmanager
def sampled(pids: Mapping[str, int]) -> Iterator[dict[str, list[int]]]:
    """Sample these processes during the block; what is yielded fills, by name."""
    samples: dict[str, list[int]] = defaultdict(list)
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_SECONDS):
            seen = _resident(list(pids.values()))
            for name, pid in pids.items():
                if pid in seen:
                    samples[name].append(seen[pid])

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()


def _resident(pids: Sequence[int]) -> dict[int, int]:
    """Bytes by process id; one that has ended is missing."""
    asked = ["ps", "-o", "pid=,rss=", "-p", ",".join(map(str, pids))]  # the same on Linux and macOS, in units of 1,024 bytes
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return {int(pid): int(size) * 1024 for pid, size in (line.split() for line in said.splitlines())}
