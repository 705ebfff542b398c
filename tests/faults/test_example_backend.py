"""The example of a backend, as its reader starts it: with one command, and killed with everything that belongs to it."""

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from crew import until
from processes import MARK, Started, leftovers, started

from acuse.embedded.port import choose_port

EXAMPLE = Path(__file__).parents[2] / "examples" / "backend"

# Two starts of servers, providers and processes: seconds on a quiet machine, and it is not always quiet.
pytestmark = pytest.mark.timeout(400)


class Backend:
    """One start of the example, and what a client and the providers see."""

    def __init__(self, process: Started, port: int) -> None:
        self.process, self.url = process, f"http://127.0.0.1:{port}"
        process.says("what really happened", 90)
        self._providers = re.findall(r"(http://\S+)/_sim/store", process.out)
        until(self.answers, "the backend answers", 90)

    def call(self, method: str, path: str, body: object = None, url: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-Person": "ann"}
        request = urllib.request.Request((url or self.url) + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def answers(self) -> bool:
        with suppress(urllib.error.URLError, ConnectionError):
            return self.call("GET", "/approvals") is not None
        return False

    def case(self) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", "/cases/case-1")
        return found

    def truth(self) -> list[str]:
        """What took effect at the CRM and the mail server, by their own account."""
        stores = [self.call("GET", "/_sim/store", url=one) for one in self._providers]
        return [effect["kind"] for store in stores for effect in store["effects"]]

    def kill(self) -> None:
        """End the launcher and every process of this start by SIGKILL: servers, providers, relay, worker, backend."""
        for process in [process for process in psutil.process_iter() if self._is_mine(process)]:
            with suppress(psutil.Error):
                process.kill()
        self.process.ends()
        until(lambda: leftovers(self.process) == [], "everything is dead", 30)

    def kill_alone(self, word: str) -> None:
        """End a process of this start, known by a word of its command line."""
        for command, process in self.process.commands():
            if word in command:
                process.kill()

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get(MARK) == self.process.mark)
        except psutil.Error:
            return False


@contextmanager
def backend(state: Path, port: int) -> Iterator[Backend]:
    with started("--state", state, "--port", str(port), script=EXAMPLE) as process:
        one = None
        try:
            one = Backend(process, port)
            yield one
        finally:
            if one is None or process.process.poll() is None:
                process.send(signal.SIGTERM)
                process.process.wait(60)


def test_a_backend_that_is_killed_as_a_whole_goes_on_and_doubles_nothing(tmp_path: Path) -> None:
    port = choose_port(tmp_path / "no-port")
    # Given an agent's run that closed a case, and would send an email, which nobody has approved yet
    with backend(tmp_path / "state", port) as first:
        first.call("PUT", "/cases/case-1", {"owner": "dana@example.org"})
        first.call("POST", "/runs", {"case": "case-1"})
        [asked] = until(lambda: first.call("GET", "/approvals"), "a person is asked", 90)
        until(lambda: first.case()["status"] == "closed", "the backend hears that the case is closed", 90)
        assert (asked["action"], asked["payload"]["to"]) == ("email.send.v1", "dana@example.org")
        assert first.truth() == ["case_closed"]
        # When everything is killed, and started again
        first.kill()
    with backend(tmp_path / "state", port) as second:
        # Then the same question waits, and no other
        assert second.call("GET", "/approvals") == [asked]
        # And what is asked for again, by a client that has not heard of it, is what was asked for
        second.call("POST", "/runs", {"case": "case-1"})
        second.call("POST", "/cases/case-1/close")
        # When the backend is killed alone, too, and relay and worker with what they have in hand; and a person says yes
        second.kill_alone("examples.backend.serve")
        second.kill_alone("run")
        for name in ("acuse", "backend"):
            second.process.says(f"{name} has ended; it is started again")
        until(second.answers, "the backend answers again", 90)
        assert second.call("POST", f"/approvals/{asked['approval_id']}", {"approve": True})["state"] == "granted"
        until(lambda: second.call("GET", "/runs/close-case-1")["ended"], "the run comes to its end", 90)
        # Then the run has come to its end, and the world has one closed case and one email
        run = second.call("GET", "/runs/close-case-1")
        assert (run["ended"], "email.send.v1 for case-1 is confirmed" in run["said"]) == ("finished", True), run
        assert second.truth() == ["case_closed", "email"]
        until(lambda: [one["state"] for one in second.case()["receipts"]] == ["confirmed"] * 2, "both receipts", 60)
    assert leftovers(second.process) == []
    assert "Traceback" not in second.process.err
