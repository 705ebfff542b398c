"""Acuse."""
