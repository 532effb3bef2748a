"""A small broker that speaks Kafka's protocol, for development and tests: one node, one process, one folder.

It exists because none that pip installs keeps transactions over a kill: what a producer was told is written, is in a
file before it is told so, and a transaction that was decided is finished at the next start. It knows what this
project's clients ask for (aiokafka's versions of the protocol), no replication, no authentication, no quotas.
"""
