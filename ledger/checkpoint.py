"""A ledger as bytes and back (design 8): what a worker loads instead of folding the log from its start.

Nothing is listed by hand. A fresh ledger is the frame: its own objects are filled, what hangs on them is made anew, and
every slot of every object is carried. So a slot that is added is carried too, and what cannot be carried (a function,
an open file, a class from elsewhere) is refused when it is saved, not lost. The bytes name the classes, their slots and
the fields of every struct; `load` refuses bytes of another shape with `OtherSchema`, because a guess about a missing
slot would be a second history: the log is folded again instead.

Objects of one class stand together, and each slot is a column of numbers of values (`ledger/carried.py`).

The same state gives the same bytes: maps and sets are written in the order of their keys, but for the few whose order
means something. Maps whose order matters are `OrderedDict`s or named in `_ORDERED`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import repeat
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import msgspec

from ledger.carried import (
    CHUNK,
    FIXED,
    INLINE,
    Damaged,
    NotCarried,
    Numbering,
    OtherSchema,
    OwnBytes,
    Values,
    class_named,
    fields_of,
    is_carried_class,
    is_number,
    is_short,
    name_of,
    without_classes,
)
from ledger.decisions import RULES_VERSION
from ledger.devices.index import DeviceIndex
from ledger.devices.snapshot import load_index, save_index
from ledger.ledger import Ledger
from ledger.objects.kinds import kinds

__all__ = [
    "Damaged",
    "NotCarried",
    "OtherSchema",
    "hash_of_state",
    "load",
    "save",
    "shape_of_objects",
    "slots_of",
]

VERSION: Final = 2
"""Grows when the bytes mean something else although no class changed."""

_SHAPED: Final = ("ledger.objects.", "ledger.devices.objects", "ledger.devices.snapshot")
_MAGIC: Final = b"quota-ledger checkpoint "
_FIRST_LINE: Final = _MAGIC + b"%d" % VERSION

_PLAIN: Final = 0
_ONE_PLAIN: Final = 1
_NUMBERS: Final = 2
_ONE_NUMBER: Final = 3
"""What a slot's column is: values as they are or their numbers, one for each object or the same for all."""

_CALLABLE: Final = (FunctionType, MethodType, BuiltinFunctionType)

_ORDERED: Final = frozenset({"State.told"})
"""Maps whose order means something: what is told first."""

_OWN_BYTES: Final[OwnBytes] = {DeviceIndex: (save_index, load_index)}
"""Parts that know their own canonical bytes."""

_HEAPS: Final[dict[str, Callable[[Any], Any]]] = {
    "FairPendingQueue._heads_of": lambda queue: _active_by_local_queue(queue),
    "PendingQueue._heads": lambda queue: sorted(g.active[0] for g in queue._classes.values() if g.active),
    "Timers._heap": lambda timers: sorted((at, key) for key, at in timers._deadlines.items()),
}
"""Heaps with lazy removal: what counts is what they must hold, not how it lies nor what is left over in them."""

_FORGOTTEN: Final[dict[str, Callable[[], Any]]] = {
    "DeviceRoom._nodes": dict,
    "DeviceRoom._refusals": dict,
    "DeviceRoom._users": dict,
    "Node.potential_known": dict,
    "Node.lendable": type(None),
    "Recorder.largest_holders": dict,
    "State.dirty_rows": set,
}
"""Answers that are remembered and can be computed again, and rows for whoever drains them: no part of the state.

A question that somebody asked the ledger must not change its bytes.
"""


class _Body(msgspec.Struct, array_like=True, frozen=True):
    """`runs` make `values` values, the objects among them empty; `batches` fill the objects: the number of the class,
    how many of its objects, and a column for each slot."""

    rules: int
    cluster: str
    shape: str
    classes: list[tuple[str, list[str]]]
    frame: int
    values: int
    runs: list[list[Any]]
    batches: list[tuple[int, int, list[tuple[int, Any]]]]


def save(ledger: Ledger) -> bytes:
    """The state of one cluster between two events. Equal states give equal bytes."""
    return _Writer(ledger).write()


def load(value: bytes) -> Ledger:
    """The ledger that was saved; folding goes on from there as if it had never stopped.

    Raises Damaged where the bytes are no checkpoint, OtherSchema where another version wrote them.
    """
    return _Reader(value).read()


def hash_of_state(saved: bytes) -> str:
    """BLAKE2b-256 of the state in its canonical bytes."""
    return blake2b(saved, digest_size=32).hexdigest()


def shape_of_objects() -> str:
    """A digest over the fields of every struct that objects are made of: a new field changes it."""
    kinds()
    found = sorted(
        f"{kind.__module__}.{kind.__qualname__}({','.join(kind.__struct_fields__)})"
        for kind in _structs(msgspec.Struct)
        if kind.__module__.startswith(_SHAPED)
        # not those that decoders make as they need them
        and getattr(sys.modules[kind.__module__], kind.__qualname__, None) is kind
    )
    return blake2b("\n".join(found).encode(), digest_size=16).hexdigest()


def _structs(base: type[Any]) -> Iterator[type[Any]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _structs(kind)


def slots_of(kind: type[Any], thing: object) -> list[str]:
    """The names under which an object keeps its state, ascending."""
    names = {name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ()) if not name.startswith("__")}
    names.update(getattr(thing, "__dict__", ()))
    return sorted(_mangled(kind, name) for name in names)


def _mangled(kind: type[Any], name: str) -> str:
    return name if not name.startswith("__") or name.endswith("__") else f"_{kind.__name__.lstrip('_')}{name}"


def _frame(ledger: Ledger) -> list[object]:
    """The objects that every ledger is built of from the start, found where a fresh one has them."""
    fresh: list[object] = [Ledger(ledger.cluster)]
    found: list[object] = [ledger]
    seen = {id(fresh[0])}
    for model, thing in zip(fresh, found, strict=False):  # both grow while they are walked
        for name in slots_of(type(model), model):
            part = getattr(model, name, None)
            if _is_part(type(part)) and id(part) not in seen:
                seen.add(id(part))
                fresh.append(part)
                found.append(getattr(thing, name))
    return found


def _active_by_local_queue(queue: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for state in queue:
        if queue.is_active(state):
            found.setdefault(state.local_queue, []).append(state.heap_key)
    return found


def _is_part(kind: type[Any]) -> bool:
    return kind not in _OWN_BYTES and is_carried_class(kind)


def _is_wiring(value: object) -> bool:
    """Functions, and containers of functions: the frame has them already."""
    if isinstance(value, _CALLABLE):
        return True
    if type(value) is dict:
        return bool(value) and all(isinstance(each, _CALLABLE) for each in value.values())
    return isinstance(value, tuple) and bool(value) and all(isinstance(each, _CALLABLE) for each in value)


class _Slots:
    """The slots of one class as they are written."""

    def __init__(self, kind: type[Any], thing: object) -> None:
        self.names = slots_of(kind, thing)
        self.getters: list[Callable[[Any], Any]] = [attrgetter(name) for name in self.names]
        full = [[f"{base.__name__}.{slot}" for base in kind.__mro__] for slot in self.names]
        self.ordered = frozenset(i for i, of in enumerate(full) if not _ORDERED.isdisjoint(of))
        self.heaps = {i: _HEAPS[name] for i, of in enumerate(full) for name in of if name in _HEAPS}
        self.forgotten = {i: _FORGOTTEN[name] for i, of in enumerate(full) for name in of if name in _FORGOTTEN}


class _Writer:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._numbering = Numbering(_OWN_BYTES)
        self._slots: dict[type[Any], _Slots] = {}
        self._batches: list[tuple[int, int, list[tuple[int, Any]]]] = []

    def write(self) -> bytes:
        numbering = self._numbering
        frame = _frame(self._ledger)
        for thing in frame:
            numbering.number(thing)
        for thing in frame:
            self._batch(type(thing), [thing], wired=True)
        while numbering.found:
            kind, things = numbering.found.popitem(last=False)
            if hasattr(things[0], "__dict__"):
                raise NotCarried(f"{kind.__qualname__} has no __slots__: what it has could not be compared on loading")
            for start in range(0, len(things), CHUNK):
                self._batch(kind, things[start : start + CHUNK], wired=False)
        body = _Body(
            RULES_VERSION,
            self._ledger.cluster,
            shape_of_objects(),
            [
                (name_of(kind), self._slots[kind].names if kind in self._slots else fields_of(kind))
                for kind in numbering.classes
            ],
            len(frame),
            numbering.count,
            numbering.runs,
            self._batches,
        )
        return b"%b\n%b" % (_FIRST_LINE, _encoder.encode(body))

    def _batch(self, kind: type[Any], things: list[Any], *, wired: bool) -> None:
        slots = self._slots.get(kind)
        if slots is None:
            slots = self._slots[kind] = _Slots(kind, things[0])
        number = self._numbering.class_number(kind)
        columns = [self._column(slots, place, things, wired=wired) for place in range(len(slots.names))]
        self._batches.append((number, len(things), columns))

    def _column(self, slots: _Slots, place: int, things: list[Any], *, wired: bool) -> tuple[int, Any]:
        if place in slots.forgotten:
            return self._packed([slots.forgotten[place]() for _ in things])
        if place in slots.heaps:
            return self._packed(list(map(slots.heaps[place], things)))
        values = list(map(slots.getters[place], things))
        if wired:
            values = [None if _is_wiring(value) else value for value in values]
        if place in slots.ordered:
            return _NUMBERS, self._numbering.maps_as_they_are(values)
        return self._packed(values)

    def _packed(self, values: list[Any]) -> tuple[int, Any]:
        kinds = set(map(type, values))
        if any(map(is_number, kinds)):
            values = without_classes(values)
            kinds = set(map(type, values))
        if kinds <= INLINE and (int not in kinds or all(is_short(value) for value in values if type(value) is int)):
            if kinds == {type(None)} or (len(kinds) == 1 and float not in kinds and len(set(values)) == 1):
                return _ONE_PLAIN, values[0]
            if int not in kinds or 2 * len(set(values)) > len(values):
                return _PLAIN, values
        numbers = self._numbering.numbers(values)
        if numbers.count(numbers[0]) == len(numbers):
            return _ONE_NUMBER, numbers[0]
        return _NUMBERS, numbers


_BROKEN: Final = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.DecodeError,
)


class _Reader:
    def __init__(self, value: bytes) -> None:
        first, _, rest = value.partition(b"\n")
        if not first.startswith(_MAGIC):
            raise Damaged("these are no bytes of a checkpoint")
        if first != _FIRST_LINE:
            version = first.removeprefix(_MAGIC).decode(errors="replace")[:20]
            raise OtherSchema(f"the checkpoint has version {version}, this ledger reads {VERSION}")
        try:
            self._body = _body_decoder.decode(rest)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise Damaged(f"these are no bytes of a checkpoint: {problem}") from None
        body = self._body
        if body.rules != RULES_VERSION:
            raise OtherSchema(
                f"the checkpoint was made by version {body.rules} of the rules, these are {RULES_VERSION}"
            )
        if body.shape != shape_of_objects():
            raise OtherSchema("the objects of the checkpoint have other fields than those of this version")
        if body.values > len(rest) + len(FIXED):
            raise Damaged("the checkpoint promises more values than it has bytes")
        self._classes = [class_named(name) for name, _ in body.classes]
        for kind, (_, fields) in zip(self._classes, body.classes, strict=True):
            if not is_carried_class(kind) and fields_of(kind) != fields:
                raise OtherSchema(f"{kind.__name__} has other fields than in the checkpoint")

    def read(self) -> Ledger:
        body = self._body
        ledger = Ledger(body.cluster)
        frame = _frame(ledger)
        if len(frame) != body.frame:
            raise OtherSchema(f"a ledger was made of {body.frame} parts, now of {len(frame)}")
        values = Values(self._classes, frame, body.values, _OWN_BYTES)
        try:
            for run in body.runs:
                values.read(run)
            for number, (index, _, columns) in enumerate(body.batches[: len(frame)]):
                self._fill_part(number, frame[number], index, columns, values)
            empty = {kind: iter(things) for kind, things in values.objects.items()}
            for index, count, columns in body.batches[len(frame) :]:
                kind = self._classes[index]
                things = [next(empty[kind]) for _ in range(count)]
                self._check_slots(kind, things[0], index)
                for slot, column in zip(body.classes[index][1], columns, strict=True):
                    _consume(map(getattr(kind, slot).__set__, things, _unpacked(column, count, values)))
            if any(next(left, None) is not None for left in empty.values()):
                raise Damaged("the checkpoint has objects without content")
        except (*_BROKEN, StopIteration) as problem:
            raise Damaged(f"the checkpoint does not hold together: {type(problem).__name__}: {problem}") from None
        return ledger

    def _fill_part(self, number: int, thing: Any, index: int, columns: list[tuple[int, Any]], values: Values) -> None:
        kind = self._classes[index]
        if type(thing) is not kind:
            raise OtherSchema(f"part {number} was a {kind.__name__}, now a {type(thing).__name__}")
        self._check_slots(kind, thing, index)
        for slot, column in zip(self._body.classes[index][1], columns, strict=True):
            if not _is_wiring(getattr(thing, slot, None)):
                (value,) = _unpacked(column, 1, values)
                setattr(thing, slot, value)

    def _check_slots(self, kind: type[Any], thing: object, index: int) -> None:
        has, had = slots_of(kind, thing), self._body.classes[index][1]
        if has != had:
            changed = ", ".join(sorted(set(has) ^ set(had)))
            raise OtherSchema(f"{kind.__name__} has other slots than in the checkpoint: {changed}")


def _unpacked(column: tuple[int, Any], count: int, values: Values) -> Iterable[Any]:
    tag, content = column
    if tag == _ONE_PLAIN:
        return repeat(content, count)
    if tag == _ONE_NUMBER:
        return values.of([content] * count)
    found: list[Any] = content if tag == _PLAIN else values.of(content)
    if len(found) != count:
        raise Damaged(f"a slot has {len(found)} values for {count} objects")
    return found


def _consume(steps: Iterable[Any]) -> None:
    deque(steps, maxlen=0)


_encoder = msgspec.msgpack.Encoder()
_body_decoder = msgspec.msgpack.Decoder(_Body)
