"""The endurance run: what goes down when, and what counts as flat."""

from itertools import pairwise

import pytest

from acuse_adapters.endure.memory import FEWEST_SAMPLES, weigh
from acuse_adapters.endure.schedule import BLOWS, Schedule

MEGABYTE = 1_000_000


def kills(seed: int, seconds: int) -> list[tuple[float, tuple[str, ...]]]:
    schedule = Schedule(seed, ("worker-2", "worker-3"), "relay-2")
    moments = [tenth / 10 for tenth in range(seconds * 10)]
    return [(moment, tuple(names)) for moment in moments if (names := schedule.killed(moment))]


def test_the_same_seed_kills_the_same_processes_at_the_same_moments() -> None:
    assert kills(7, 300) == kills(7, 300)
    assert kills(7, 300) != kills(8, 300)


def test_somebody_is_killed_every_few_seconds_one_or_both_workers_and_now_and_then_the_relay() -> None:
    killed = kills(7, 600)
    pauses = [later - earlier for (earlier, _), (later, _) in pairwise(killed)]
    assert min(pauses) >= 1.9
    assert max(pauses) <= 5.2
    together = [set(names) for _, names in killed]
    assert {"worker-2", "worker-3"} in together
    assert {"worker-2"} in together
    assert {"worker-3"} in together
    assert 0 < together.count({"relay-2"}) < len(together) / 3


def test_each_blow_falls_once_in_order_when_its_share_is_settled() -> None:
    schedule = Schedule(1, ("worker-2", "worker-3"), "relay-2")
    fallen = [blow.what for settled in range(101) for blow in [schedule.blow(settled, 100)] if blow]
    assert fallen == ["wipe", "restart", "wipe"]
    # and where much was settled between two looks, one after the other
    late = Schedule(1, ("worker-2", "worker-3"), "relay-2")
    assert [late.blow(100, 100) for _ in range(4)] == [*BLOWS, None]


@pytest.mark.parametrize(
    ("samples", "flat"),
    [
        ([50 * MEGABYTE] * 100, True),
        ([10 * MEGABYTE] * 20 + [50 * MEGABYTE] * 80, True),  # a start is no leak
        ([50 * MEGABYTE + number * MEGABYTE // 10 for number in range(100)], True),  # 12 %
        ([50 * MEGABYTE + number * MEGABYTE // 2 for number in range(100)], False),
        ([50 * MEGABYTE] * 99 + [500 * MEGABYTE], True),  # one peak is none either
        ([50 * MEGABYTE] * (FEWEST_SAMPLES - 1), None),
        ([50 * MEGABYTE], None),
    ],
)
def test_memory_is_flat_when_the_last_fifth_is_hardly_above_the_second(samples: list[int], flat: bool | None) -> None:
    memory = weigh("worker-1", samples)
    assert memory.flat is flat
    assert (memory.start, memory.last, memory.samples) == (samples[0], samples[-1], len(samples))
