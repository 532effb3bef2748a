"""A recorded watch of 392 lines, with relists, duplicates, a 410 and a queue that moves: what must be held when.

The recording is of a cluster in which Kueue decides; the checkpoints say what its writes amount to. The ledger decides
too, and sooner: twice it has reserved quota that Kueue reserves in the next act. So what is compared is what the
recorded objects have confirmed, and what the ledger is ahead with must be confirmed at the next checkpoint.
"""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledger.fold import Fold
from ledger.ledger import Ledger
from ledger.objects.workload import is_true
from ledger.workloads import WorkloadState
from topics.sources import read_events

DATA = Path(__file__).parent / "data"
LINES = gzip.decompress((DATA / "watch-stream.jsonl.gz").read_bytes()).splitlines(keepends=True)
EXPECTED = json.loads(gzip.decompress((DATA / "watch-stream.expected.json.gz").read_bytes()))
ACTS = [checkpoint["act"] for checkpoint in EXPECTED["checkpoints"]]


def events_up_to(line: int) -> list[bytes]:
    return list(read_events(io.BytesIO(b"".join(LINES[:line]))))


def at_each_checkpoint() -> Iterator[tuple[str, Ledger, dict[str, Any]]]:
    """The act, the ledger after it, and what each ClusterQueue must hold."""
    fold = Fold()
    done = 0
    for checkpoint in EXPECTED["checkpoints"]:
        events = events_up_to(checkpoint["afterLine"])
        for offset in range(done, len(events)):
            assert fold.apply(events[offset], offset=offset).rejections == []
        done = len(events)
        yield checkpoint["act"], fold.clusters["east"], checkpoint["clusterQueues"]


def is_confirmed(workload: WorkloadState) -> bool:
    return workload.reservation is not None and workload.reservation.echoed


def is_ahead(workload: WorkloadState) -> bool:
    """Reserved by the ledger's own decision, which no object has shown yet."""
    return workload.reservation is not None and not workload.reservation.echoed


def amounts(ledger: Ledger, workloads: list[WorkloadState]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for workload in workloads:
        assert workload.reservation is not None
        for number, amount in workload.reservation.usage.items():
            total["/".join(ledger.state.numbers.names[number])] += amount
    return {name: amount for name, amount in total.items() if amount}


def confirmed(ledger: Ledger, queue: str) -> dict[str, Any]:
    """What the recorded objects say of one ClusterQueue, in the words of the checkpoints."""
    state = ledger.state
    workloads = list(state.workloads.values())
    reserving = [each for each in workloads if is_confirmed(each) and each.reservation.cluster_queue == queue]
    admitted = [each for each in reserving if each.reservation.admitted]
    waiting = [
        each
        for each in workloads
        if (each.reservation is None and state.is_waiting(each) and ledger_queue(ledger, each) == queue)
        or (is_ahead(each) and each.reservation.cluster_queue == queue)
    ]
    return {
        "cohort": state.forest.queues[queue].source.spec.cohort_name,
        "reservation": amounts(ledger, reserving),
        "usage": amounts(ledger, admitted),
        "pending": len(waiting),
        "reserving": len(reserving),
        "admitted": len(admitted),
    }


def ledger_queue(ledger: Ledger, workload: WorkloadState) -> str | None:
    queue = ledger.state.queue_of(workload)
    return None if queue is None else queue.name


def test_every_checkpoint_is_met() -> None:
    for act, ledger, queues in at_each_checkpoint():
        found = {name: confirmed(ledger, name) for name in queues}
        assert (act, found) == (act, queues)


def test_what_the_ledger_decides_first_the_recording_confirms_in_the_next_act() -> None:
    ahead: dict[str, dict[str, dict[str, int]]] = {}
    confirmed_in: dict[str, dict[str, dict[str, int]]] = {}
    for act, ledger, _ in at_each_checkpoint():
        for workload in ledger.state.workloads.values():
            if workload.reservation is not None:
                kept = ahead if is_ahead(workload) else confirmed_in
                kept.setdefault(act, {})["/".join(workload.key)] = amounts(ledger, [workload])
    assert {act: sorted(workloads) for act, workloads in ahead.items()} == {
        "F": ["team-vision/job-big-render-98f09"],
        "O": ["team-speech/hp-search-07", "team-vision/job-thumbs-518bb"],
    }
    for act, workloads in ahead.items():
        after = confirmed_in[ACTS[ACTS.index(act) + 1]]
        assert {name: after.get(name) for name in workloads} == workloads


def test_usage_in_the_table_is_what_the_workloads_hold() -> None:
    for _, ledger, _ in at_each_checkpoint():
        held: dict[str, list[WorkloadState]] = {}
        for workload in ledger.state.workloads.values():
            if workload.reservation is not None and workload.reservation.charged:
                held.setdefault(workload.reservation.cluster_queue, []).append(workload)
        usage = {name: amounts for name, amounts in ledger.usage().items() if amounts}
        assert usage == {name: amounts(ledger, workloads) for name, workloads in held.items()}


def test_the_workloads_that_are_left_are_as_the_recording_left_them() -> None:
    *_, (_, ledger, _) = at_each_checkpoint()
    found = []
    for key, workload in sorted(ledger.state.workloads.items()):
        if is_true(workload.workload, "Finished"):
            state = "finished"
        elif workload.reservation is None:
            state = "pending"
        else:
            state = "admitted" if workload.reservation.admitted else "reserved"
        found.append(
            {
                "workload": "/".join(key),
                "uid": workload.uid,
                "resourceVersion": str(workload.workload.metadata.resource_version),
                "state": state,
                "holdsQuota": workload.reservation is not None,
            }
        )
    assert found == EXPECTED["finalWorkloads"]
