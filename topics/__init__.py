"""The log: sources of events, Kafka topics, the worker that folds them, producers."""
