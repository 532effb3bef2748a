"""Keys in ascending order, in chunks: adding one to a million moves a few thousand others, not all behind it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import chain
from typing import Final

Key = tuple[int, int, str]

CHUNK: Final = 2048


class SortedKeys:
    """Distinct keys. No chunk is empty, and none is longer than twice `CHUNK`."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: list[list[Key]] = []

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __iter__(self) -> Iterator[Key]:
        return chain.from_iterable(self._chunks)

    def add(self, key: Key) -> None:
        chunks = self._chunks
        if not chunks:
            chunks.append([key])
            return
        index = min(self._chunk_of(key), len(chunks) - 1)
        chunk = chunks[index]
        insort(chunk, key)
        if len(chunk) > 2 * CHUNK:
            chunks.insert(index + 1, chunk[CHUNK:])
            del chunk[CHUNK:]

    def remove(self, key: Key) -> None:
        """It must be there."""
        index = self._chunk_of(key)
        chunk = self._chunks[index]
        place = bisect_left(chunk, key)
        assert chunk[place] == key
        del chunk[place]
        if not chunk:
            del self._chunks[index]

    def rank(self, key: Key) -> int:
        """How many keys are smaller."""
        index = self._chunk_of(key)
        before = sum(map(len, self._chunks[:index]))
        return before + bisect_left(self._chunks[index], key) if index < len(self._chunks) else before

    def _chunk_of(self, key: Key) -> int:
        """The first chunk that ends with this key or a greater one."""
        chunks = self._chunks
        low, high = 0, len(chunks)
        while low < high:
            middle = (low + high) // 2
            if chunks[middle][-1] < key:
                low = middle + 1
            else:
                high = middle
        return low
