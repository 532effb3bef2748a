"""Bipartite matching between requests and exclusive devices."""

from __future__ import annotations


def all_matched(seats: list[int], candidates: list[list[int]]) -> int:
    """How many seats can be filled at once when each request draws from its candidates and no device serves twice.

    Requests with the fewest candidates go first; a greedy choice that blocks another request is undone along an
    augmenting path.
    """
    owner: dict[int, int] = {}
    filled = 0
    order = sorted(range(len(seats)), key=lambda request: (len(candidates[request]), request))
    for request in order:
        for _ in range(min(seats[request], len(candidates[request]))):
            if not _augment(request, candidates, owner):
                break
            filled += 1
    return filled


def _augment(request: int, candidates: list[list[int]], owner: dict[int, int]) -> bool:
    """Find a free device for one more seat of the request, moving others where that helps; breadth first."""
    came_from: dict[int, tuple[int, int | None]] = {}
    waiting: list[tuple[int, int | None]] = [(request, None)]
    visited = {request}
    for current, through in waiting:
        for device in candidates[current]:
            if device in came_from or owner.get(device) == current:
                continue
            came_from[device] = (current, through)
            holder = owner.get(device)
            if holder is None:
                _hand_over(device, came_from, owner)
                return True
            if holder not in visited:
                visited.add(holder)
                waiting.append((holder, device))
    return False


def _hand_over(device: int, came_from: dict[int, tuple[int, int | None]], owner: dict[int, int]) -> None:
    """Give each device on the path to the request that reached it; the one it leaves was reached before."""
    current: int | None = device
    while current is not None:
        request, through = came_from[current]
        owner[current] = request
        current = through


def largest_flow(seats: list[int], groups: dict[tuple[int, ...], int]) -> int:
    """How many seats can be filled from groups of equal devices, each group named by the requests it can answer."""
    order = sorted(groups)
    given = {group: [0] * len(seats) for group in order}
    spare = dict(groups)
    total = 0
    for request, wanted in enumerate(seats):
        missing = wanted
        while missing:
            moved = _push(request, missing, order, given, spare)
            if not moved:
                break
            missing -= moved
            total += moved
    return total


def _push(
    request: int,
    limit: int,
    order: list[tuple[int, ...]],
    given: dict[tuple[int, ...], list[int]],
    spare: dict[tuple[int, ...], int],
) -> int:
    """Move as much as the shortest way from the request to spare devices allows; breadth first over requests."""
    came_from: dict[int, tuple[int, tuple[int, ...]]] = {}
    waiting = [request]
    seen = {request}
    for current in waiting:
        for group in order:
            if current not in group:
                continue
            if spare[group]:
                return _shift(request, current, group, limit, came_from, given, spare)
            for other in group:
                if other not in seen and given[group][other]:
                    seen.add(other)
                    came_from[other] = (current, group)
                    waiting.append(other)
    return 0


def _shift(
    request: int,
    last: int,
    group: tuple[int, ...],
    limit: int,
    came_from: dict[int, tuple[int, tuple[int, ...]]],
    given: dict[tuple[int, ...], list[int]],
    spare: dict[tuple[int, ...], int],
) -> int:
    """The last request on the way takes spare devices and leaves others to the one before it, back to the first."""
    amount = min(limit, spare[group])
    current = last
    while current != request:
        before, through = came_from[current]
        amount = min(amount, given[through][current])
        current = before
    spare[group] -= amount
    given[group][last] += amount
    current = last
    while current != request:
        before, through = came_from[current]
        given[through][current] -= amount
        given[through][before] += amount
        current = before
    return amount
