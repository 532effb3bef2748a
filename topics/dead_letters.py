"""The dead letters: what was rejected, why, whether it would pass now, and putting it back into the log.

A letter's place is that of the rejected record, `PARTITION/OFFSET` of `quota.events`. Resubmitting writes the record,
of a BATCH only the members that were rejected (the others were folded then), and a note in `quota.deadletter` in one
transaction, so that a letter is put back once however often the command is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiokafka import AIOKafkaProducer

from ledger.events import Event, InvalidRecord, Rejection, decode_event
from topics.admin import partitions_of
from topics.codec import HEADER_OFFSET, HEADER_PARTITION, DeadLetter, RejectedMember, decode_dead_letter
from topics.reader import read_to_end
from topics.settings import Settings
from topics.topic import MAX_DEAD_LETTER_BYTES, Topics

HEADER_RESUBMITTED: Final = "resubmitted"
"""A note: the letter with this place was put back."""

EXCERPT_BYTES: Final = 400


class CannotResubmit(ValueError):
    """The letter, or its replacement, cannot be put back; the message says why."""


@dataclass(frozen=True)
class Letter:
    """A dead letter and what became of it."""

    letter: DeadLetter
    key: bytes | None
    timestamp: int
    resubmitted: bool

    @property
    def place(self) -> str:
        return f"{self.letter.partition}/{self.letter.offset}"

    def document(self) -> dict[str, Any]:
        """For JSON: everything, the bytes as text where they are text."""
        value = self.letter.value
        found: dict[str, Any] = {
            "place": self.place,
            "cluster": self.letter.cluster,
            "topic": self.letter.topic,
            "partition": self.letter.partition,
            "offset": self.letter.offset,
            "resubmitted": self.resubmitted,
            "rejections": [msgspec.to_builtins(each) for each in self.letter.rejections],
        }
        try:
            found["value"] = None if value is None else value.decode()
        except UnicodeDecodeError:
            found["valueBase64"] = value
        return found


async def dead_letters(settings: Settings, *, cluster: str | None = None) -> list[Letter]:
    """All letters in the order of their places."""
    topics = Topics.of(settings)
    count = await partitions_of(settings, topics.dead_letters)
    found: list[tuple[DeadLetter, bytes | None, int]] = []
    put_back: set[tuple[int, int]] = set()
    for partition in range(count):
        async for records in read_to_end(settings, topics.dead_letters.name, partition):
            for record in records:
                headers = dict(record.headers)
                if HEADER_RESUBMITTED in headers:
                    put_back.add((int(headers[HEADER_PARTITION]), int(headers[HEADER_OFFSET])))
                else:
                    found.append((decode_dead_letter(record.value, record.headers), record.key, record.timestamp))
    letters = [
        Letter(letter, key, timestamp, (letter.partition, letter.offset) in put_back)
        for letter, key, timestamp in found
        if cluster is None or letter.cluster == cluster
    ]
    return sorted(letters, key=lambda each: (each.letter.partition, each.letter.offset))


def letter_at(letters: Iterable[Letter], place: str) -> Letter:
    for letter in letters:
        if letter.place == place:
            return letter
    raise CannotResubmit(f"there is no dead letter of {place}; `quota-ledger deadletters list` names them")


def rejections_now(letter: Letter) -> tuple[RejectedMember, ...]:
    """What this version of the ledger says to the record; nothing where it would pass."""
    return rejections_of(letter.letter.value, letter.key)


def rejections_of(value: bytes | None, key: bytes | None) -> tuple[RejectedMember, ...]:
    try:
        event = decode_event(value or b"", key=key)
    except InvalidRecord as problem:
        return (RejectedMember(0, problem.path, problem.reason),)
    return tuple(
        RejectedMember(member.index, member.path, member.reason)
        for member in event.members
        if isinstance(member, Rejection)
    )


def explanation(letter: Letter) -> list[str]:
    """Every reason with the part of the record that it is about, and what would happen today."""
    lines = [f"{letter.letter.topic} {letter.place}, cluster {letter.letter.cluster}"]
    for each in letter.letter.rejections:
        where = f"member {each.index}, " if is_batch(letter.letter.value) else ""
        lines.append(f"  {where}{each.path or 'the record'}: {each.reason}")
        found = value_at(letter.letter.value, each)
        if found is not None:
            lines.append(f"    there: {found}")
    now = rejections_now(letter)
    if letter.resubmitted:
        lines.append("  it was put back already")
    elif not now:
        lines.append(f"  this version accepts it: quota-ledger deadletters resubmit {letter.place}")
    else:
        lines.append("  this version rejects it as well; put a corrected record back with")
        lines.append(f"    quota-ledger deadletters resubmit {letter.place} --with FILE")
    return lines


def is_batch(value: bytes | None) -> bool:
    found = _plain(value)
    return isinstance(found, dict) and isinstance(found.get("events"), list)


def value_at(value: bytes | None, rejected: RejectedMember) -> str | None:
    """What the record holds where the rejection points; None where that cannot be said."""
    at = _plain(value)
    if isinstance(at, dict) and isinstance(at.get("events"), list):
        events = at["events"]
        at = events[rejected.index] if rejected.index < len(events) else None
    for step in rejected.path.replace("[", ".[").split("."):
        if not step:
            continue
        try:
            at = at[int(step[1:-1])] if step.startswith("[") and isinstance(at, list) else at[step.strip("[]")]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    if at is None or not rejected.path:
        return None
    text = msgspec.json.encode(at).decode(errors="replace")
    return text if len(text) <= EXCERPT_BYTES else text[:EXCERPT_BYTES] + " ..."


def _plain(value: bytes | None) -> Any:
    try:
        return msgspec.json.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def corrected(letter: Letter, replacement: bytes | None) -> bytes:
    """The record to be put back: the replacement, or the original; of a BATCH its rejected members only."""
    value = replacement if replacement is not None else letter.letter.value
    if value is None:
        raise CannotResubmit(f"the record of {letter.place} has no value: there is nothing to put back")
    if replacement is None and is_batch(value):
        event = _plain(value)
        indexes = [each.index for each in letter.letter.rejections]
        event["events"] = [event["events"][index] for index in indexes if index < len(event["events"])]
        value = msgspec.json.encode(event)
    problems = rejections_of(value, letter.key)
    if problems:
        first = problems[0]
        raise CannotResubmit(
            f"the record for {letter.place} would be rejected again: {first.path or 'the record'}: {first.reason}"
        )
    event = decode_event(value, key=letter.key)
    if isinstance(event, Event) and letter.letter.cluster != event.cluster and letter.key:
        raise CannotResubmit(
            f"the record for {letter.place} is of cluster {event.cluster}, not {letter.letter.cluster}"
        )
    return value


async def resubmit(settings: Settings, letters: Sequence[tuple[Letter, bytes]]) -> None:
    """Put records back, each with its note, in one transaction."""
    topics = Topics.of(settings)
    producer = AIOKafkaProducer(
        **settings.client(),
        transactional_id=f"{settings.group_id}-deadletters",
        max_request_size=MAX_DEAD_LETTER_BYTES,
    )
    await producer.start()
    try:
        async with producer.transaction():
            for letter, value in letters:
                partition = letter.letter.partition
                await producer.send_and_wait(topics.events.name, value, key=letter.key, partition=partition)
                await producer.send_and_wait(
                    topics.dead_letters.name,
                    None,
                    key=letter.key,
                    partition=partition,
                    headers=[
                        (HEADER_RESUBMITTED, b"1"),
                        (HEADER_PARTITION, b"%d" % partition),
                        (HEADER_OFFSET, b"%d" % letter.letter.offset),
                    ],
                )
    finally:
        await producer.stop()
