"""The commands of `quota-ledger`, a module each."""
