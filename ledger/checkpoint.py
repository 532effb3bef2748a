"""A ledger as bytes and back (design 8): what a worker loads instead of folding the log from its start.

Nothing is listed by hand. A fresh ledger is the frame: its own objects are filled, what hangs on them is made anew, and
every slot of every object is carried. So a slot that is added is carried too, and what cannot be carried (a function,
an open file, a class from elsewhere) is refused when it is saved, not lost. The bytes name the classes, their slots and
the fields of every struct; `load` refuses bytes of another shape with `OtherSchema`, because a guess about a missing
slot would be a second history: the log is folded again instead.

The same state gives the same bytes: maps and sets are written in the order of their keys, but for the few whose order
means something. Maps whose order matters are `OrderedDict`s or named in `_ORDERED`.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from enum import Enum
from hashlib import blake2b
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import msgspec

from ledger.decisions import RULES_VERSION
from ledger.devices.index import DeviceIndex
from ledger.devices.snapshot import load_index, save_index
from ledger.ledger import Ledger
from ledger.objects.kinds import kinds

VERSION: Final = 1
"""Grows when the bytes mean something else although no class changed."""

_SHAPED: Final = ("ledger.objects.", "ledger.devices.objects", "ledger.devices.snapshot")
_MAGIC: Final = b"quota-ledger checkpoint "
_FIRST_LINE: Final = _MAGIC + b"%d" % VERSION
_PACKAGE: Final = "ledger."

# In the bytes a list that begins with None says by its second item what it stands for. Any other list is a tuple of
# scalars, by far the most frequent; what is no list stands for itself.
_OBJECT: Final = 0
_STRUCT: Final = 1
_TUPLE: Final = 2
_LIST: Final = 3
_MAP: Final = 4
_SET: Final = 5
_FROZEN_SET: Final = 6
_NAMED: Final = 7
_ENUM: Final = 8
_ORDERED_MAP: Final = 9
_COUNTER: Final = 10
_DEQUE: Final = 11
_BYTES: Final = 12
_OWN: Final = 13

_PLAIN: Final = frozenset({type(None), bool, int, float, str})
_CALLABLE: Final = (FunctionType, MethodType, BuiltinFunctionType)

_ORDERED: Final = frozenset({"State.told"})
"""Maps whose order means something: what is told first."""

_OWN_BYTES: Final[dict[type[Any], tuple[Callable[[Any], bytes], Callable[[bytes], Any]]]] = {
    DeviceIndex: (save_index, load_index)
}
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


class OtherSchema(Exception):
    """The bytes were written by a version of the ledger whose state had another shape."""


class Damaged(Exception):
    """The bytes are no checkpoint."""


class NotCarried(TypeError):
    """The state holds something that a checkpoint cannot carry: a defect of the ledger, found when it is saved."""


class _Body(msgspec.Struct, array_like=True, frozen=True):
    """Rows are objects: the number of the class, then its slots. `structs` are tables of frozen structs by class."""

    rules: int
    cluster: str
    shape: str
    classes: list[tuple[str, list[str]]]
    frame: int
    rows: msgspec.Raw
    texts: list[bytes]
    structs: list[tuple[str, msgspec.Raw]]


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
            if _is_carried_class(type(part)) and id(part) not in seen:
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


def _is_carried_class(kind: type[Any]) -> bool:
    """Plain classes of this package: objects with an identity, whose slots change."""
    return (
        kind.__module__.startswith(_PACKAGE)
        and kind not in _OWN_BYTES
        and not issubclass(kind, msgspec.Struct | tuple | Enum | int | str | BaseException)
        and kind is not type
    )


def _is_wiring(value: object) -> bool:
    """Functions, and containers of functions: the frame has them already."""
    if isinstance(value, _CALLABLE):
        return True
    if type(value) is dict:
        return bool(value) and all(isinstance(each, _CALLABLE) for each in value.values())
    return isinstance(value, tuple) and bool(value) and all(isinstance(each, _CALLABLE) for each in value)


class _Writer:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._numbers: dict[int, int] = {}
        self._objects: list[object] = []
        self._classes: dict[type[Any], int] = {}
        self._slots: list[list[str]] = []
        self._getters: list[Callable[[Any], Any]] = []
        self._ordered: list[frozenset[int]] = []
        self._forgotten: list[dict[int, Callable[[], Any]]] = []
        self._heaps: list[dict[int, Callable[[Any], Any]]] = []
        self._texts: dict[bytes, int] = {}
        self._structs: dict[type[Any], tuple[int, list[Any]]] = {}
        self._struct_places: dict[int, tuple[None, int, int, int]] = {}
        self._packers: dict[type[Any], Callable[[Any], Any]] = {
            tuple: self._tuple,
            list: self._list,
            dict: self._map,
            OrderedDict: self._ordered_map,
            Counter: self._counter,
            set: self._set,
            frozenset: self._frozen_set,
            deque: self._deque,
            bytes: self._bytes,
        }

    def write(self) -> bytes:
        frame = _frame(self._ledger)
        for thing in frame:
            self._reference(thing)
        rows = []
        for number, thing in enumerate(self._objects):  # grows while it is walked
            rows.append(self._row(thing, wired=number < len(frame)))
        structs = [
            (_name_of(kind), msgspec.Raw(_struct_encoder.encode(table))) for kind, (_, table) in self._structs.items()
        ]
        body = _Body(
            RULES_VERSION,
            self._ledger.cluster,
            shape_of_objects(),
            [(_name_of(kind), self._slots[index]) for kind, index in self._classes.items()],
            len(frame),
            msgspec.Raw(_encoder.encode(rows)),
            list(self._texts),
            structs,
        )
        return b"%b\n%b" % (_FIRST_LINE, _encoder.encode(body))

    def _row(self, thing: object, *, wired: bool) -> list[Any]:
        if not wired and hasattr(thing, "__dict__"):
            raise NotCarried(
                f"{type(thing).__qualname__} has no __slots__: what it has could not be compared on loading"
            )
        number = self._class(type(thing), thing)
        row: list[Any] = [number]
        values = self._getters[number](thing)
        forgotten, ordered, heaps = self._forgotten[number], self._ordered[number], self._heaps[number]
        for place, value in enumerate(values):
            if type(value) in _PLAIN:
                row.append(value)
            elif place in forgotten:
                row.append(self.pack(forgotten[place]()))
            elif wired and _is_wiring(value):
                row.append(None)
            elif place in ordered:
                row.append(self._ordered_map(value, _MAP))
            elif place in heaps:
                row.append(self.pack(heaps[place](thing)))
            else:
                row.append(self.pack(value))
        return row

    def _class(self, kind: type[Any], thing: object) -> int:
        number = self._classes.get(kind)
        if number is None:
            slots = slots_of(kind, thing)
            number = self._classes[kind] = len(self._classes)
            self._slots.append(slots)
            self._getters.append(_getter(slots))
            names = [[f"{base.__name__}.{slot}" for base in kind.__mro__] for slot in slots]
            self._ordered.append(frozenset(i for i, of in enumerate(names) if not _ORDERED.isdisjoint(of)))
            self._heaps.append({i: _HEAPS[name] for i, of in enumerate(names) for name in of if name in _HEAPS})
            self._forgotten.append(
                {i: _FORGOTTEN[name] for i, of in enumerate(names) for name in of if name in _FORGOTTEN}
            )
        return number

    def pack(self, value: Any) -> Any:
        """A value as lists and scalars."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        packer = self._packers.get(kind)
        if packer is None:
            packer = self._packers[kind] = self._packer_of(kind)
        return packer(value)

    def _packer_of(self, kind: type[Any]) -> Callable[[Any], Any]:
        if issubclass(kind, Enum):
            return self._enum
        if issubclass(kind, int):
            return int
        if issubclass(kind, str):
            return str
        if issubclass(kind, msgspec.Struct):
            return self._struct
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._named
        if kind in _OWN_BYTES:
            return self._own
        if _is_carried_class(kind):
            return lambda thing: [None, _OBJECT, self._reference(thing)]
        raise NotCarried(f"{kind.__module__}.{kind.__qualname__} is nothing that a checkpoint can carry")

    def _reference(self, thing: object) -> int:
        number = self._numbers.get(id(thing))
        if number is None:
            number = self._numbers[id(thing)] = len(self._objects)
            self._objects.append(thing)
        return number

    def _struct(self, value: Any) -> tuple[Any, ...]:
        known = self._struct_places.get(id(value))
        if known is None:
            kind = type(value)
            if kind not in self._structs:
                self._structs[kind] = (len(self._structs), [])
            number, table = self._structs[kind]
            known = self._struct_places[id(value)] = (None, _STRUCT, number, len(table))
            table.append(value)
        return known

    def _bytes(self, value: bytes) -> list[Any]:
        """Shapes of workloads, long and often the same: written once."""
        return [None, _BYTES, self._texts.setdefault(value, len(self._texts))]

    def _own(self, value: object) -> list[Any]:
        write, _ = _OWN_BYTES[type(value)]
        return [None, _OWN, self._class(type(value), _Fields(())), self._bytes(write(value))]

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        if value and value[0] is not None and _PLAIN.issuperset(map(type, value)):
            return value
        packed = [each if type(each) in _PLAIN else self.pack(each) for each in value]
        if packed and packed[0] is not None and _PLAIN.issuperset(map(type, packed)):
            return packed
        return [None, _TUPLE, *packed]

    def _list(self, value: list[Any]) -> list[Any]:
        return [None, _LIST, *[each if type(each) in _PLAIN else self.pack(each) for each in value]]

    def _deque(self, value: deque[Any]) -> list[Any]:
        return [None, _DEQUE, *[self.pack(each) for each in value]]

    def _named(self, value: Any) -> list[Any]:
        number = self._class(type(value), _Fields(value._fields))
        return [None, _NAMED, number, *[each if type(each) in _PLAIN else self.pack(each) for each in value]]

    def _enum(self, value: Enum) -> list[Any]:
        return [None, _ENUM, self._class(type(value), _Fields(())), value.name]

    def _map(self, value: dict[Any, Any]) -> list[Any]:
        packed: list[Any] = [None, _MAP]
        for key in _in_order(value):
            packed.append(key if type(key) in _PLAIN else self.pack(key))
            each = value[key]
            packed.append(each if type(each) in _PLAIN else self.pack(each))
        return packed

    def _ordered_map(self, value: dict[Any, Any], tag: int = _ORDERED_MAP) -> list[Any]:
        packed: list[Any] = [None, tag]
        for key, each in value.items():
            packed += (self.pack(key), self.pack(each))
        return packed

    def _counter(self, value: Counter[Any]) -> list[Any]:
        return [None, _COUNTER, *self._map(value)[2:]]

    def _set(self, value: set[Any]) -> list[Any]:
        return [None, _SET, *[self.pack(each) for each in _in_order(value)]]

    def _frozen_set(self, value: frozenset[Any]) -> list[Any]:
        return [None, _FROZEN_SET, *[self.pack(each) for each in _in_order(value)]]


class _Fields:
    """Stands for a named tuple where its slots are asked for."""

    __slots__ = ("__dict__",)

    def __init__(self, names: tuple[str, ...]) -> None:
        self.__dict__.update(dict.fromkeys(names))


def _in_order(keys: Any) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=lambda key: (type(key).__name__, _encoder.encode(key)))


def _getter(slots: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not slots:
        return lambda thing: ()
    if len(slots) == 1:
        return lambda thing: (getattr(thing, slots[0]),)
    return attrgetter(*slots)


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
        self._classes = [(_class_named(name), slots) for name, slots in body.classes]
        self._structs = [_structs_of(name, raw) for name, raw in body.structs]
        self._objects: list[Any] = []

    def read(self) -> Ledger:
        ledger = Ledger(self._body.cluster)
        frame = _frame(ledger)
        try:
            rows = _rows_decoder.decode(self._body.rows)
            if len(frame) != self._body.frame:
                raise OtherSchema(f"a ledger was made of {self._body.frame} parts, now of {len(frame)}")
            for number, row in enumerate(rows):
                kind, _ = self._classes[row[0]]
                if number < len(frame):
                    if type(frame[number]) is not kind:
                        raise OtherSchema(f"part {number} was a {kind.__name__}, now a {type(frame[number]).__name__}")
                    self._objects.append(frame[number])
                else:
                    self._objects.append(kind.__new__(kind))
            checked: set[int] = set()
            for number, row in enumerate(rows):
                self._fill(self._objects[number], row, checked, wired=number < len(frame))
        except _BROKEN as problem:
            raise Damaged(f"the checkpoint does not hold together: {type(problem).__name__}: {problem}") from None
        return ledger

    def _fill(self, thing: Any, row: list[Any], checked: set[int], *, wired: bool) -> None:
        kind, slots = self._classes[row[0]]
        if row[0] not in checked:
            checked.add(row[0])
            has = slots_of(kind, thing)
            if has != slots:
                changed = sorted(set(has) ^ set(slots))
                raise OtherSchema(f"{kind.__name__} has other slots than in the checkpoint: {', '.join(changed)}")
        for slot, value in zip(slots, row[1:], strict=True):
            if wired and _is_wiring(getattr(thing, slot, None)):
                continue
            setattr(thing, slot, self._unpack(value) if type(value) is list else value)

    def _unpack(self, value: list[Any]) -> Any:
        if not value or value[0] is not None:
            return tuple(value)
        tag = value[1]
        if tag == _OBJECT:
            return self._objects[value[2]]
        if tag == _STRUCT:
            return self._structs[value[2]][value[3]]
        if tag == _BYTES:
            return self._body.texts[value[2]]
        if tag == _TUPLE:
            return tuple([self._unpack(each) if type(each) is list else each for each in value[2:]])
        if tag == _NAMED:
            kind, fields = self._classes[value[2]]
            if sorted(kind._fields) != fields:
                raise OtherSchema(f"{kind.__name__} has other fields than in the checkpoint")
            return kind._make([self._unpack(each) if type(each) is list else each for each in value[3:]])
        if tag == _OWN:
            _, read = _OWN_BYTES[self._classes[value[2]][0]]
            return read(self._unpack(value[3]))
        if tag == _ENUM:
            return self._classes[value[2]][0][value[3]]
        items = [self._unpack(each) if type(each) is list else each for each in value[2:]]
        return _CONTAINERS[tag](items)


def _pairs(items: list[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(items[::2], items[1::2], strict=True)


_CONTAINERS: Final[dict[int, Callable[[list[Any]], Any]]] = {
    _LIST: list,
    _SET: set,
    _FROZEN_SET: frozenset,
    _DEQUE: deque,
    _MAP: lambda items: dict(_pairs(items)),
    _ORDERED_MAP: lambda items: OrderedDict(_pairs(items)),
    _COUNTER: lambda items: Counter(dict(_pairs(items))),
}


def _name_of(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_named(name: str) -> type[Any]:
    """A class of this package by name; nothing is imported for the sake of a checkpoint, and nothing is called."""
    module, _, qualified = name.partition(":")
    found: Any = sys.modules.get(module) if module.startswith(_PACKAGE) else None
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or found.__module__ != module:
        raise OtherSchema(f"the checkpoint holds a {name}, which this version does not know")
    return found


def _structs_of(name: str, raw: msgspec.Raw) -> list[Any]:
    kind = _class_named(name)
    if not issubclass(kind, msgspec.Struct):
        raise Damaged(f"{name} is no struct")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(list[kind], dec_hook=_read_number)  # type: ignore[valid-type]
    try:
        found: list[Any] = decoder.decode(raw)
        return found
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Damaged(f"{name}: {problem}") from None


def _write_number(value: object) -> object:
    """Numbers with a name, such as quantities; those beyond 64 bits as text."""
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else str(int(value))
    raise NotCarried(f"{type(value).__qualname__} is nothing that a checkpoint can carry")


def _read_number(kind: type[Any], value: Any) -> Any:
    return int.__new__(kind, value)


_encoder = msgspec.msgpack.Encoder()
_struct_encoder = msgspec.msgpack.Encoder(enc_hook=_write_number, order="deterministic")
_body_decoder = msgspec.msgpack.Decoder(_Body)
_rows_decoder = msgspec.msgpack.Decoder(list[list[Any]])
_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {}
