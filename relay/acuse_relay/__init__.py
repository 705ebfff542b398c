"""Moves committed outbox messages to Dramatiq queues, and hands over again what nobody works on any more."""
