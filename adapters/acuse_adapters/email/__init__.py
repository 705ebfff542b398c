"""Email: its action, importable by a backend that only stages. The adapter is in `adapter`."""

from acuse_adapters.email.action import ACTIONS, SendEmail

__all__ = ["ACTIONS", "SendEmail"]
