"""A search that shows an object late: that it finds nothing yet says nothing."""

from datetime import timedelta
from typing import Any

import pytest
from bench import Bench
from scripted_provider import contract, lose_reply, vanish

from acuse.protocol import Absent, Consistency, Finding, Found, Lookup, Marker, State, vendor
from acuse_adapters.port import Operation

LAG = timedelta(seconds=30)
LAGGING = contract(
    marker=Marker(where="note.ref"),
    lookup=Lookup(by="ref", consistency=Consistency.EVENTUAL, visible_within=vendor(LAG)),
    max_in_flight=timedelta(seconds=1),
)


class Search:
    """Says nothing of the object until the test lets it appear; `content_matches`: whether what then appears is all ours."""

    def __init__(self, content_matches: bool = True) -> None:
        self.visible = False
        self._content_matches = content_matches

    async def __call__(self, operation: Operation[Any]) -> Finding:
        return Found("N-1", content_matches=self._content_matches) if self.visible else Absent()


@pytest.mark.case("R065")
@pytest.mark.invariant(7)
@pytest.mark.parametrize("ours", [True, False], ids=["all ours", "with other content"])
async def test_an_object_that_a_search_shows_late_is_waited_for_and_not_made_again(bench: Bench, ours: bool) -> None:
    # Given an object that was made, a reply that was lost, and a search that lags by half a minute
    bench.promise(LAGGING)
    bench.provider.on_look_up = search = Search(content_matches=ours)
    one = bench.stage()
    bench.provider.will(lose_reply)
    await bench.carry(one)

    # When it is looked for again and again within that time
    for _ in range(4):
        bench.pass_time(one, 7)
        await bench.again(one)

        # Then it stays in doubt
        assert (bench.state(one), bench.row(one).held) == (State.UNKNOWN, None)
    assert len(bench.provider.reads) == 4

    # And when the object appears it is confirmed; under our marker with other content it is for a person
    search.visible = True
    bench.pass_time(one, 7)
    await bench.again(one)
    row = bench.row(one)
    assert (row.status, row.result_id) == (("confirmed", "N-1") if ours else ("unknown", None))
    assert (row.held is None) is ours
    assert (bench.provider.called(one), bench.provider.made(one)) == (1, 1)


@pytest.mark.case("R065")
@pytest.mark.invariant(7)
async def test_only_two_reads_past_the_lag_free_it_to_be_sent_again(bench: Bench) -> None:
    bench.promise(LAGGING)
    bench.provider.on_look_up = Search()
    one = bench.stage()
    bench.provider.will(vanish)
    await bench.carry(one)

    bench.pass_time(one, LAG.total_seconds() + 60)

    # When it was looked for once past the lag, then it stays in doubt
    await bench.again(one)
    assert (bench.state(one), bench.row(one).held) == (State.UNKNOWN, None)

    # And when there was another look well before that one, it is absent, and is sent once more
    earlier = bench.ask("select clock_timestamp() - interval '20 s'")
    await bench.book().record(one, "lookup", "another worker's", 1, Absent(), earlier)
    await bench.again(one)
    assert bench.state(one) is State.PREPARED
    await bench.carry(one)
    assert (bench.state(one), bench.provider.called(one), bench.provider.made(one)) == (State.CONFIRMED, 2, 1)
