"""What really happened, as the providers' own stores tell it. Acuse's tables have no say here."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from acuse_adapters.simulators.process import SimulatorProcess

__all__ = ["Effects", "Simulators", "effects"]

Simulators = Mapping[Literal["crm", "ticketing", "email"], SimulatorProcess]

Effects = Counter[tuple[str, str]]
"""How often each (kind, case) took effect."""


def effects(simulators: Simulators) -> Effects:
    """Count the effects of every case in the simulators' stores."""
    counted: Effects = Counter()
    counted.update(("case_closed", one["target"]) for one in simulators["crm"].effects() if one["kind"] == "case_closed")
    counted.update(
        ("email", one["target"].removeprefix("owner-of-").removesuffix("@example.test"))
        for one in simulators["email"].effects()
        if one["kind"] == "email"
    )
    # One effect per application, also when two of them made tickets with one subject. Effects first: a ticket's row is older.
    made = [one["id"] for one in simulators["ticketing"].effects() if one["kind"] == "ticket"]
    tickets = [row["ticket"] for row in simulators["ticketing"].table("tickets").values()]
    cases = {ticket["id"]: str(ticket["subject"]).split()[3] for ticket in tickets}
    counted.update(("ticket", cases[number]) for number in made)
    return counted
