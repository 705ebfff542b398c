"""A small backend of a host: it closes onboarding cases, by a person or by an agent, and may be killed at any moment."""
