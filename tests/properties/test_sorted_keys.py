"""Keys in chunks answer as a plain sorted list does."""

from __future__ import annotations

from bisect import bisect_left, insort
from random import Random

import pytest

from ledger import sorted_keys
from ledger.sorted_keys import Key, SortedKeys


@pytest.mark.parametrize("chunk", [1, 2, 7, 2048])
def test_keys_in_chunks_are_a_sorted_list(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_keys, "CHUNK", chunk)
    random = Random(chunk)
    keys, plain = SortedKeys(), list[Key]()
    for number in range(3000):
        key = (random.randrange(3), random.randrange(50), f"{random.randrange(40):02}-{number}")
        if plain and random.random() < 0.45:
            gone = random.choice(plain)
            keys.remove(gone)
            plain.remove(gone)
        else:
            keys.add(key)
            insort(plain, key)
        assert keys.rank(key) == bisect_left(plain, key)
        assert (len(keys), bool(keys)) == (len(plain), bool(plain))
        assert number % 50 or list(keys) == plain
    assert all(0 < len(part) <= 2 * chunk for part in keys._chunks)
    for key in list(plain):
        keys.remove(key)
    assert (len(keys), list(keys)) == (0, [])


def test_a_million_keys_stand_in_chunks_of_a_few_thousand() -> None:
    keys = SortedKeys()
    for number in range(1_000_000):
        keys.add((0, number, ""))
    assert max(map(len, keys._chunks)) <= 2 * sorted_keys.CHUNK
    assert (len(keys), keys.rank((0, 777_777, ""))) == (1_000_000, 777_777)
