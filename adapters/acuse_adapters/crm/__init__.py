"""The CRM: its actions, importable by a backend that only stages. The adapter is in `adapter`."""

from acuse_adapters.crm.action import ACTIONS, CloseCase, LogNote

__all__ = ["ACTIONS", "CloseCase", "LogNote"]
