"""The backend's own tables. They stand beside the ledger in one database, so that one transaction reaches both."""

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = ["AgentRun", "Base", "Case", "Receipt"]


class Base(DeclarativeBase):
    """What `create_all` makes."""


class Case(Base):
    """An onboarding case."""

    __tablename__ = "backend_case"

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str]  # an email address
    status: Mapped[str] = mapped_column(default="open")  # open -> closing (asked for) -> closed (the CRM said so)


class Receipt(Base):
    """What the backend was told of an operation, as of its version."""

    __tablename__ = "backend_receipt"

    operation_id: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int]
    case_id: Mapped[str] = mapped_column(index=True)
    action: Mapped[str]
    state: Mapped[str]
    result_id: Mapped[str | None]


class AgentRun(Base):
    """A run that somebody asked for. What happens in it is in the journal; this says which runs there are."""

    __tablename__ = "backend_run"

    id: Mapped[str] = mapped_column(primary_key=True)
    case_id: Mapped[str]
    task: Mapped[str]
    ended: Mapped[str | None]  # finished, exhausted, cancelled; none: it is to be carried on
    said: Mapped[str | None]  # the agent's last words
