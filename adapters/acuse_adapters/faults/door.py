"""Strikes at the provider's door: nobody is there, or somebody who never answers."""

from dataclasses import dataclass

from acuse_adapters.engine import Moment
from acuse_adapters.faults.site import Site
from acuse_adapters.faults.stuck import until
from acuse_adapters.simulators.fault import Fault as Misbehaviour

__all__ = ["AtLookUp", "AtPort"]


@dataclass(frozen=True)
class AtPort:
    """The provider's door: nobody listens there, or somebody who never answers; later it is as it should be."""

    refuse: bool = False

    def __call__(self, site: Site) -> None:
        line = site.provider_line(refuse=self.refuse, deaf=not self.refuse)
        site.stage()
        site.relay()
        name, _ = site.worker()
        if self.refuse:
            until(lambda: site.row().attempts > 0 or site.row().handovers > 0 or site.row().due_at is not None, f"{name} knocks")
            line.open()
            return
        until(line.heard.is_set, f"{name} connects")
        until(lambda: site.row().due_at is not None or site.row().held is not None, f"{name} gives up")
        line.deaf = False


@dataclass(frozen=True)
class AtLookUp:
    """The provider carries the request out and does not answer, and then answers no look-up either, until `looks` were made."""

    looks: int
    script: tuple[Misbehaviour | None, ...] = (Misbehaviour.DROP_REPLY,)

    def __call__(self, site: Site) -> None:
        line = site.look_up_line()
        site.stage()
        site.relay()
        name, _ = site.worker(Moment.ANSWERED)
        until(lambda: site.is_held(name), f"{name} has no answer")
        site.interfere()
        line.deaf = True
        site.go(name)
        # What is taken for an absence may settle or requeue it meanwhile.
        until(lambda: site.looks() >= self.looks or site.row().status not in {"dispatching", "unknown"}, f"{name} looks")
        line.deaf = False
