"""Measurements. Each prints the machine, every run's spread, and nothing that a second run would not show again."""
