"""Readers of decisions, and the command."""
