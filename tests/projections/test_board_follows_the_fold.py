"""What the decisions tell of queues is what the fold knows, after every event of random lives."""

from __future__ import annotations

import pytest

from ledger.decisions import decode_decision
from ledger.fold import Fold
from ledger.ledger import Ledger
from projections.status import Board
from tests.properties.random_worlds import RandomWorld
from tests.properties.test_random_lives import play
from tests.simulation.simulation import Tally, generate

Counts = dict[str, tuple[bool, int, int, int]]


def of_the_fold(ledger: Ledger) -> Counts:
    """Active, waiting, reserving and admitted, for every ClusterQueue."""
    return {
        name: (
            queue.active,
            len(list(queue.pending)),
            len(queue.holders),
            sum(holder.reservation is not None and holder.reservation.admitted for holder in queue.holders.values()),
        )
        for name, queue in ledger.state.forest.queues.items()
    }


def of_the_board(board: Board) -> Counts:
    found: Counts = {}
    for name, queue in board.queues.items():
        document = board.cluster_queue(name)
        assert document is not None
        assert queue.active is not None
        status = document["status"]
        counts = (status["pendingWorkloads"], status["reservingWorkloads"], status["admittedWorkloads"])
        found[name] = (queue.active["status"] == "True", *counts)
    return found


def follow(records: list[bytes]) -> None:
    fold, boards = Fold(), dict[str, Board]()
    for offset, record in enumerate(records):
        for each in fold.apply(record, offset=offset).decisions:
            boards.setdefault(each.cluster, Board()).apply(decode_decision(each.value))
        for name, ledger in fold.clusters.items():
            if not ledger._syncing:
                assert of_the_board(boards.get(name, Board())) == of_the_fold(ledger), f"{offset}: {record!r}"


@pytest.mark.parametrize("seed", range(12))
def test_counts_from_decisions_are_those_of_the_fold_in_random_lives(seed: int) -> None:
    follow(play(seed, block=seed % 4 == 0, fair=seed % 3 == 0).records)


@pytest.mark.parametrize("seed", range(8))
def test_counts_from_decisions_are_those_of_the_fold_in_random_worlds(seed: int) -> None:
    follow(RandomWorld(seed).run(60).world.records)


@pytest.mark.parametrize("seed", range(8))
def test_counts_from_decisions_are_those_of_the_fold_in_simulated_clusters(seed: int) -> None:
    follow(generate(seed, Tally()))
