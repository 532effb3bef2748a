"""Values as they arrive, from a source that makes its reader wait: a pipe, a terminal."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Value = TypeVar("Value")

#: Values that were read and not taken yet: bounds memory.
MAX_HELD = 5_000


async def arriving(values: Iterable[Value]) -> AsyncIterator[list[Value]]:
    """The values in their order, as many at a time as are there.

    They are read in a thread of their own, so that the event loop, and with it what was sent before, does not wait for
    the next one. The thread is a daemon: a program that is interrupted does not wait for its input either.
    """
    loop = asyncio.get_running_loop()
    news = asyncio.Event()
    room = threading.Semaphore(MAX_HELD)
    held: deque[Value] = deque()
    problems: list[BaseException] = []
    ended = False
    left = False

    def announce() -> None:
        # set before the event loop looks again: it clears first and takes then
        if not news.is_set():
            loop.call_soon_threadsafe(news.set)

    def read() -> None:
        nonlocal ended
        try:
            for value in values:
                room.acquire()
                if left:
                    return
                held.append(value)
                announce()
        except BaseException as problem:
            problems.append(problem)
        finally:
            ended = True
            if not left:
                loop.call_soon_threadsafe(news.set)

    threading.Thread(target=read, name="source", daemon=True).start()
    try:
        while True:
            await news.wait()
            news.clear()
            over = ended
            taken = []
            while held:
                taken.append(held.popleft())
                room.release()
            if taken:
                yield taken
            if over:
                break
    finally:
        left = True
        room.release()
    if problems:
        raise problems[0]
