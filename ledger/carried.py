"""Values as columns of numbers and back: the body of a checkpoint (`ledger/checkpoint.py`).

Every value that does not change gets a number, and equal ones the same: texts, amounts, tuples, structs. What consists
of others is a row of their numbers, so it is written once, and rows of one kind stand together as columns, which are
read by a few loops that the interpreter runs fast. What changes (maps, lists, sets) is written once for each content
and copied for each place it is in; a tuple that holds something that changes is written for each place. Objects get a
number when they are first seen and are filled in the end, so they may refer to each other in circles.

The numbers depend on the values alone, not on which of them are one object in memory: groups are taken in the order of
their types' names, and within a group in the order of first appearance.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec

PACKAGE: Final = "ledger."

INTEGERS: Final = 0
FLOATS: Final = 1
TEXTS: Final = 2
BYTES: Final = 3
LARGE: Final = 4
"""Integers beyond 64 bits, as text."""
NUMBERS: Final = 5
"""Integers with a class of their own, such as quantities."""
MEMBERS: Final = 6
"""Of an enumeration, by name."""
TUPLES: Final = 7
NAMED: Final = 8
STRUCTS: Final = 9
MAPS: Final = 10
LISTS: Final = 11
SETS: Final = 12
FROZEN_SETS: Final = 13
DEQUES: Final = 14
ORDERED_MAPS: Final = 15
COUNTERS: Final = 16
OWN: Final = 17
"""Parts that know their own bytes."""
OBJECTS: Final = 18

INLINE: Final = frozenset({type(None), bool, int, float})
"""Types whose values stand in a slot's column as they are."""
_ATOMS: Final = INLINE | {str, bytes}
FIXED: Final[tuple[Any, ...]] = (None, False, True)
"""The first numbers."""

CHUNK: Final = 1_024
"""Values whose columns are made together: few enough to stay in the processor's cache."""
_SAMPLE: Final = 64
_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**63 - 1

OwnBytes = Mapping[type[Any], tuple[Callable[[Any], bytes], Callable[[bytes], Any]]]

Numbers = list[int]
"""Of values; one below zero says that a copy of the content ~number belongs there."""


class OtherSchema(Exception):
    """The bytes were written by a version of the ledger whose state had another shape."""


class Damaged(Exception):
    """The bytes are no checkpoint."""


class NotCarried(TypeError):
    """The state holds something that a checkpoint cannot carry: a defect of the ledger, found when it is saved."""


def is_carried_class(kind: type[Any]) -> bool:
    """Plain classes of this package: objects with an identity, whose slots change."""
    return (
        kind.__module__.startswith(PACKAGE)
        and not issubclass(kind, msgspec.Struct | tuple | Enum | int | str | BaseException)
        and kind is not type
    )


def is_number(kind: type[Any]) -> bool:
    """Integers with a class of their own; outside structs they are carried as plain ones."""
    return kind is not bool and kind is not int and issubclass(kind, int) and not issubclass(kind, Enum)


def is_short(value: int) -> bool:
    """Whether it has 64 bits at most."""
    return _SMALLEST <= value <= _LARGEST


def without_classes(values: list[Any]) -> list[Any]:
    """The same with plain integers."""
    return [int(value) if is_number(type(value)) else value for value in values]


def name_of(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def class_named(name: str) -> type[Any]:
    """A class of this package by name; nothing is imported for the sake of a checkpoint, and nothing is called."""
    module, _, qualified = name.partition(":")
    found: Any = sys.modules.get(module) if module.startswith(PACKAGE) else None
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or found.__module__ != module:
        raise OtherSchema(f"the checkpoint holds a {name}, which this version does not know")
    return found


def fields_of(kind: type[Any]) -> list[str]:
    """The fields of a struct or named tuple, in their order; none of another class."""
    found: Iterable[str] = getattr(kind, "__struct_fields__", ()) or getattr(kind, "_fields", ())
    return list(found)


class Numbering:
    """Gives values their numbers. `runs` are what a reader makes them of, in the order of the numbers."""

    def __init__(self, own: OwnBytes) -> None:
        self.runs: list[list[Any]] = []
        self.classes: dict[type[Any], int] = {}
        self.found: OrderedDict[type[Any], list[Any]] = OrderedDict()
        """Objects that have a number, and whose slots are still to be written."""
        self._own = own
        self._next = len(FIXED)
        self._scalars: dict[object, dict[Any, int]] = {}
        self._rows: dict[object, dict[tuple[int, ...], int]] = {}
        self._objects: dict[int, int] = {}
        self._structs: dict[int, int] = {}
        self._single: set[int] = set()
        self._kinds: dict[type[Any], Callable[[list[Any], bool], Numbers]] = {
            type(None): lambda values, frozen: [0] * len(values),
            bool: lambda values, frozen: [1 + value for value in values],
            int: self._integers,
            float: self._floats,
            str: lambda values, frozen: self._scalar(TEXTS, values),
            bytes: lambda values, frozen: self._scalar(BYTES, values),
            tuple: self._tuples,
            frozenset: self._frozen_sets,
            dict: self._maps,
            list: lambda values, frozen: self._contents(LISTS, values, None, frozen=frozen),
            set: lambda values, frozen: self._contents(SETS, list(map(in_order, values)), None, frozen=frozen),
            deque: lambda values, frozen: self._contents(DEQUES, list(map(list, values)), None, frozen=frozen),
            OrderedDict: lambda values, frozen: self.maps_as_they_are(values, ORDERED_MAPS, frozen=frozen),
            Counter: lambda values, frozen: self._maps(values, frozen, COUNTERS),
        }

    def number(self, thing: object) -> int:
        """Of an object that is there before everything else."""
        number, self._next = self._next, self._next + 1
        self._objects[id(thing)] = number
        return number

    @property
    def count(self) -> int:
        """How many values have a number."""
        return self._next

    def numbers(self, values: list[Any], *, frozen: bool = False) -> Numbers:
        """The numbers of values of any types. In a struct nothing changes: `frozen`."""
        if len(values) > 1 and type(values[0]) in _ATOMS and len(set(map(id, values))) == 1:
            return self.numbers(values[:1], frozen=frozen) * len(values)
        kinds = set(map(type, values))
        if not frozen and any(map(is_number, kinds)):
            values = without_classes(values)
            kinds = set(map(type, values))
        if len(kinds) == 1:
            return self._of(kinds.pop())(values, frozen)
        some: Iterable[int]
        if len(kinds) == 2 and type(None) in kinds:
            (kind,) = kinds - {type(None)}
            some = iter(self._of(kind)([value for value in values if value is not None], frozen))
            return [0 if value is None else next(some) for value in values]
        found = [0] * len(values)
        for kind in sorted(kinds - {type(None)}, key=name_of):
            places = [place for place, value in enumerate(values) if type(value) is kind]
            some = self._of(kind)([values[place] for place in places], frozen)
            for place, number in zip(places, some, strict=True):
                found[place] = number
        return found

    def maps_as_they_are(self, values: list[Any], tag: int = MAPS, *, frozen: bool = False) -> Numbers:
        """Maps whose order means something."""
        return self._contents(
            tag, [list(value) for value in values], [list(value.values()) for value in values], frozen=frozen
        )

    def class_number(self, kind: type[Any]) -> int:
        return self.classes.setdefault(kind, len(self.classes))

    def _of(self, kind: type[Any]) -> Callable[[list[Any], bool], Numbers]:
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = self._handler(kind)
        return found

    def _handler(self, kind: type[Any]) -> Callable[[list[Any], bool], Numbers]:
        if issubclass(kind, Enum):
            head = (MEMBERS, self.class_number(kind))
            return lambda values, frozen: self._scalar(head, [value.name for value in values])
        if issubclass(kind, int):
            number = (NUMBERS, self.class_number(kind))
            return lambda values, frozen: self._scalar(
                number, [int(value) if is_short(value) else str(int(value)) for value in values], list(map(int, values))
            )
        if issubclass(kind, msgspec.Struct):
            return self._structs_of(kind)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            head = (NAMED, self.class_number(kind))
            return lambda values, frozen: self._composites(head, len(fields_of(kind)), values, frozen=frozen)
        if kind in self._own:
            write, head = self._own[kind][0], (OWN, self.class_number(kind))
            return lambda values, frozen: self._made([*head, [write(value) for value in values]], len(values))
        if is_carried_class(kind):
            return lambda values, frozen: self._things(kind, values)
        raise NotCarried(f"{kind.__module__}.{kind.__qualname__} is nothing that a checkpoint can carry")

    def _made(self, run: list[Any], count: int) -> Numbers:
        self.runs.append(run)
        first, self._next = self._next, self._next + count
        return list(range(first, self._next))

    # What stands for itself

    def _scalar(self, head: Any, values: list[Any], keys: list[Any] | None = None) -> Numbers:
        """`keys` tell values apart where they themselves do not."""
        table = self._scalars.setdefault(head, {})
        asked = values if keys is None else keys
        numbers = list(map(table.get, asked))
        if None not in numbers:
            return numbers  # type: ignore[return-value]
        new = {key: value for key, value, number in zip(asked, values, numbers, strict=True) if number is None}
        run = [*head] if isinstance(head, tuple) else [head]
        table.update(zip(new, self._made([*run, list(new.values())], len(new)), strict=True))
        return [table[key] for key in asked]

    def _integers(self, values: list[Any], frozen: bool) -> Numbers:
        if is_short(min(values)) and is_short(max(values)):
            return self._scalar(INTEGERS, values)
        numbers = iter(self._scalar(INTEGERS, list(filter(is_short, values))))
        others = iter(self._scalar(LARGE, [str(value) for value in values if not is_short(value)]))
        return [next(numbers) if is_short(value) else next(others) for value in values]

    def _floats(self, values: list[Any], frozen: bool) -> Numbers:
        return self._scalar(FLOATS, values, [value.hex() for value in values])

    # What consists of a fixed number of others

    def _tuples(self, values: list[Any], frozen: bool) -> Numbers:
        lengths = set(map(len, values))
        if len(lengths) == 1:
            return self._composites((TUPLES,), lengths.pop(), values, frozen=frozen)
        found = [0] * len(values)
        for length in sorted(lengths):
            places = [place for place, value in enumerate(values) if len(value) == length]
            some = self._composites((TUPLES,), length, [values[place] for place in places], frozen=frozen)
            for place, number in zip(places, some, strict=True):
                found[place] = number
        return found

    def _structs_of(self, kind: type[Any]) -> Callable[[list[Any], bool], Numbers]:
        head, fields = (STRUCTS, self.class_number(kind)), fields_of(kind)

        def numbers(values: list[Any], frozen: bool) -> Numbers:
            known = self._structs
            numbers = list(map(known.get, map(id, values)))
            if None not in numbers:
                return numbers  # type: ignore[return-value]
            unknown = [value for value, number in zip(values, numbers, strict=True) if number is None]
            new = list(dict(zip(map(id, unknown), unknown, strict=True)).values())
            first, alike = _alike(new)
            columns = [self.numbers(list(map(attrgetter(name), first)), frozen=True) for name in fields]
            rows = _rows_of(columns, len(first))
            found = self._interned(head, len(fields), rows)
            known.update(zip(map(id, new), [found[place] for place in alike], strict=True))
            return [known[id(value)] for value in values]

        return numbers

    def _composites(self, head: tuple[int, ...], width: int, values: list[Any], *, frozen: bool) -> Numbers:
        columns = [self.numbers(list(map(itemgetter(place), values)), frozen=frozen) for place in range(width)]
        rows = _rows_of(columns, len(values))
        if self._has_single(columns):
            return self._partly_interned(head, width, rows)
        return self._interned(head, width, rows)

    def _has_single(self, columns: list[Numbers]) -> bool:
        """Whether some value is only there for the place where it stands, because it changes."""
        return any(min(column, default=0) < 0 or not self._single.isdisjoint(column) for column in columns)

    def _partly_interned(self, head: tuple[int, ...], width: int, rows: list[tuple[int, ...]]) -> Numbers:
        single = [min(row) < 0 or not self._single.isdisjoint(row) for row in rows]
        shared = iter(self._interned(head, width, [row for row, alone in zip(rows, single, strict=True) if not alone]))
        alone = [row for row, is_single in zip(rows, single, strict=True) if is_single]
        made = self._made([*head, *_columns(width, alone)], len(alone))
        self._single.update(made)
        others = iter(made)
        return [next(others) if is_single else next(shared) for is_single in single]

    def _interned(self, head: tuple[int, ...], width: int, rows: list[tuple[int, ...]]) -> Numbers:
        found, new = self._looked_up(self._rows.setdefault((head, width), {}), rows)
        if new:
            self._made([*head, *_columns(width, new)], len(new))
        return found

    def _looked_up(self, table: dict[Any, int], keys: Iterable[Any]) -> tuple[Numbers, list[Any]]:
        """The numbers of all, and those to be made now, in the order of their numbers."""
        first, found, new = self._next, list[int](), list[Any]()
        for key in keys:
            number = table.get(key)
            if number is None:
                number = table[key] = first + len(new)
                new.append(key)
            found.append(number)
        return found, new

    # What consists of any number of others

    def _maps(self, values: list[Any], frozen: bool, tag: int = MAPS) -> Numbers:
        if len(values) > 1 and not any(values):
            return self._contents(tag, [()], [()], frozen=frozen) * len(values)
        keys = [in_order(value) if len(value) > 1 else list(value) for value in values]
        items = [
            list(map(value.__getitem__, order)) if len(order) > 1 else list(value.values())
            for value, order in zip(values, keys, strict=True)
        ]
        return self._contents(tag, keys, items, frozen=frozen)

    def _frozen_sets(self, values: list[Any], frozen: bool) -> Numbers:
        numbers = self._contents(FROZEN_SETS, list(map(in_order, values)), None, frozen=frozen)
        return [number if number >= 0 else ~number for number in numbers]

    def _contents(
        self, tag: int, keys: Sequence[Iterable[Any]], items: Sequence[Iterable[Any]] | None, *, frozen: bool
    ) -> Numbers:
        """Contents of containers: items, or keys and items. One that holds what changes is there for its place only."""
        flat = self._flat(keys, frozen=frozen)
        numbers = iter(flat)
        rows = [tuple(islice(numbers, len(order))) for order in keys]  # type: ignore[arg-type]
        columns = [flat]
        if items is not None:
            flat = self._flat(items, frozen=frozen)
            numbers = iter(flat)
            rows = [row + tuple(islice(numbers, len(row))) for row in rows]
            columns.append(flat)
        halves = len(columns)
        if not self._has_single(columns):
            return self._shared_contents(tag, halves, rows, frozen=frozen)
        single = [bool(row) and (min(row) < 0 or not self._single.isdisjoint(row)) for row in rows]
        some = [row for row, alone in zip(rows, single, strict=True) if not alone]
        shared = iter(self._shared_contents(tag, halves, some, frozen=frozen))
        alone = [row for row, is_single in zip(rows, single, strict=True) if is_single]
        made = self._made(_container_run(tag, halves, alone), len(alone))
        self._single.update(made)
        others = iter(made)
        return [next(others) if is_single else next(shared) for is_single in single]

    def _shared_contents(self, tag: int, halves: int, rows: list[tuple[int, ...]], *, frozen: bool) -> Numbers:
        found, new = self._looked_up(self._rows.setdefault(tag, {}), rows)
        if new:
            self._made(_container_run(tag, halves, new), len(new))
        return found if frozen else [~number for number in found]

    def _flat(self, rows: Sequence[Iterable[Any]], *, frozen: bool) -> Numbers:
        """Of equal structs one is looked at, so what is cut depends on which; elsewhere everything is looked at."""
        values = list(chain.from_iterable(rows))
        if frozen:
            return self.numbers(values, frozen=True)
        found: Numbers = []
        for start in range(0, len(values), CHUNK):
            found += self.numbers(values[start : start + CHUNK])
        return found

    # What has an identity

    def _things(self, kind: type[Any], values: list[Any]) -> Numbers:
        objects = self._objects
        new = {id(value): value for value in values if id(value) not in objects}
        if new:
            objects.update(zip(new, self._made([OBJECTS, self.class_number(kind), len(new)], len(new)), strict=True))
            self.found.setdefault(kind, []).extend(new.values())
        return [objects[id(value)] for value in values]


def _columns(width: int, rows: list[tuple[int, ...]]) -> list[Any]:
    """The count, and a column for each place; one number where they are all the same."""
    columns = zip(*rows, strict=True) if width else ()
    return [len(rows), [column[0] if column.count(column[0]) == len(column) else column for column in columns]]


def _rows_of(columns: list[Numbers], count: int) -> list[tuple[int, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _container_run(tag: int, halves: int, rows: list[tuple[int, ...]]) -> list[Any]:
    lengths = [len(row) // halves for row in rows]
    if halves == 1:
        return [tag, lengths, list(chain.from_iterable(rows))]
    keys = chain.from_iterable(row[:length] for row, length in zip(rows, lengths, strict=True))
    items = chain.from_iterable(row[length:] for row, length in zip(rows, lengths, strict=True))
    return [tag, lengths, list(keys), list(items)]


def _alike(structs: list[Any]) -> tuple[list[Any], Iterable[int]]:
    """The first of equal structs, and for each struct the place of the one that stands for it. Many pod sets are alike,
    and their bytes are compared faster than their parts are taken out; where few are, all stand for themselves."""
    sample = structs[:_SAMPLE]
    if len(sample) < 2 or 2 * len(set(map(_struct_encoder.encode, sample))) > len(sample):
        return structs, range(len(structs))
    encoded = list(map(_struct_encoder.encode, structs))
    first = dict(zip(reversed(encoded), reversed(structs), strict=True))
    places = {value: place for place, value in enumerate(dict.fromkeys(encoded))}
    return [first[value] for value in places], [places[value] for value in encoded]


def _plain(value: object) -> object:
    if isinstance(value, int):
        return int(value) if is_short(value) else str(int(value))
    raise NotCarried(f"{type(value).__qualname__} is nothing that a checkpoint can carry")


def in_order(keys: Any) -> list[Any]:
    """What has no order of its own, in one that depends on the values only."""
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=lambda key: (type(key).__name__, _encoder.encode(key)))


class Values:
    """Makes the values of runs again, one after the other. `objects` are still empty, by class."""

    def __init__(self, classes: list[type[Any]], frame: list[Any], limit: int, own: OwnBytes) -> None:
        self.objects: dict[type[Any], list[Any]] = {}
        self._values: list[Any] = [*FIXED, *frame]
        self._classes = classes
        self._limit = limit
        self._readers: dict[int, Callable[..., Iterable[Any]]] = {
            INTEGERS: list,
            FLOATS: list,
            TEXTS: list,
            BYTES: list,
            LARGE: lambda texts: map(int, texts),
            NUMBERS: lambda kind, numbers: [int.__new__(classes[kind], number) for number in numbers],
            MEMBERS: lambda kind, names: map(classes[kind].__getitem__, names),
            TUPLES: lambda count, columns: zip(*self._columns(count, columns), strict=True) if columns else [()],
            NAMED: lambda kind, count, columns: map(classes[kind], *self._columns(count, columns)),
            STRUCTS: self._structs,
            MAPS: lambda *columns: map(dict, self._pairs(*columns)),
            ORDERED_MAPS: lambda *columns: map(OrderedDict, self._pairs(*columns)),
            COUNTERS: lambda *columns: map(Counter, map(dict, self._pairs(*columns))),
            LISTS: lambda *columns: map(list, self._items(*columns)),
            SETS: lambda *columns: map(set, self._items(*columns)),
            FROZEN_SETS: lambda *columns: map(frozenset, self._items(*columns)),
            DEQUES: lambda *columns: map(deque, self._items(*columns)),
            OWN: lambda kind, contents: map(own[classes[kind]][1], contents),
            OBJECTS: self._things,
        }

    def read(self, run: list[Any]) -> None:
        tag, *rest = run
        self._values.extend(self._readers[tag](*rest))

    def of(self, numbers: Numbers) -> list[Any]:
        """The values with these numbers, for one place each."""
        values = self._values
        if min(numbers, default=0) >= 0:
            return [values[number] for number in numbers]
        return [values[number] if number >= 0 else values[~number].copy() for number in numbers]

    def _columns(self, count: int, columns: list[Any]) -> list[list[Any]]:
        self._check(count)
        return [self.of([column] * count if type(column) is int else column) for column in columns]

    def _check(self, count: int) -> None:
        """A damaged count must not fill the memory."""
        if not 0 <= count <= self._limit - len(self._values):
            raise Damaged(f"the checkpoint promises {self._limit} values and has more")

    def _structs(self, number: int, count: int, columns: list[Any]) -> Iterable[Any]:
        kind = self._classes[number]
        if not columns:
            return [kind()]
        values = self._columns(count, columns)
        if any(each.kind is each.KEYWORD_ONLY for each in inspect.signature(kind).parameters.values()):
            names = fields_of(kind)
            return (kind(**dict(zip(names, row, strict=True))) for row in zip(*values, strict=True))
        return map(kind, *values)

    def _pairs(self, lengths: list[int], keys: Numbers, items: Numbers) -> Iterator[Iterator[tuple[Any, Any]]]:
        pairs = zip(self.of(keys), self.of(items), strict=True)
        return (islice(pairs, length) for length in lengths)

    def _items(self, lengths: list[int], numbers: Numbers) -> Iterator[Iterator[Any]]:
        items = iter(self.of(numbers))
        return (islice(items, length) for length in lengths)

    def _things(self, number: int, count: int) -> list[Any]:
        self._check(count)
        kind = self._classes[number]
        if not is_carried_class(kind):
            raise Damaged(f"a {kind.__name__} is nothing that could be filled")
        things = [object.__new__(kind) for _ in range(count)]
        self.objects.setdefault(kind, []).extend(things)
        return things


_encoder = msgspec.msgpack.Encoder()
_struct_encoder = msgspec.msgpack.Encoder(enc_hook=_plain, order="deterministic")
