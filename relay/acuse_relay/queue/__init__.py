"""The port to the broker, its implementation on Redis, and its fake."""

from acuse_relay.queue.port import Message, Queue, QueueUnavailable

__all__ = ["Message", "Queue", "QueueUnavailable"]
