"""Providers that misbehave on purpose: a CRM, a ticketing system and a mail server, each a process of its own.

They speak real protocols (HTTP, SMTP, IMAP), follow a seeded plan of faults per request, and their own store is the
ground truth about what took effect: an effect counted twice there is a double, an effect missing there is a loss.

    python -m acuse_adapters.simulators crm --state DIR [--plan demo|FILE|JSON] [--seed N]

From Python: `acuse_adapters.simulators.process.SimulatorProcess`.
"""
