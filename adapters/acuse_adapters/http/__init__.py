"""HTTP for adapters: a client that sends once, and the one place where statuses and failures become outcomes."""

from acuse_adapters.http.adapter import HttpAdapter
from acuse_adapters.http.channel import Http
from acuse_adapters.http.reply import Reply

__all__ = ["Http", "HttpAdapter", "Reply"]
