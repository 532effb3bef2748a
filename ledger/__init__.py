"""The rules of the quota ledger: a pure, deterministic fold of events into decisions."""
