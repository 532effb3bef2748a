"""Consumer groups: who is a member, who has which partitions, as Kafka's coordinator decides it.

Membership is in memory: after a restart the members are unknown and join again. A member that says nothing for its
session is dropped; a static member (with an instance id) that comes back in time keeps what it had.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from typing import NamedTuple

from aiokafka import errors

from topics.embedded.log import Refused

UNKNOWN_MEMBER: int = errors.UnknownMemberIdError.errno
OTHER_GENERATION: int = errors.IllegalGenerationError.errno
REBALANCING: int = errors.RebalanceInProgressError.errno
#: Kafka's code for an instance id that somebody else has by now; aiokafka has no class for it.
FENCED_INSTANCE = 82

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"

Protocols = dict[str, bytes]


class Asks(NamedTuple):
    """What a member that joins says of itself."""

    member: str
    instance: str | None
    client: str
    host: str
    session_seconds: float
    rebalance_seconds: float
    protocol_type: str
    protocols: Protocols


class Joined(NamedTuple):
    """The answer to a member; `members` (id, instance, metadata) is for the leader, who assigns."""

    error: int
    generation: int
    protocol: str
    leader: str
    member: str
    members: list[tuple[str, str | None, bytes]]


class Synced(NamedTuple):
    error: int
    assignment: bytes


@dataclass
class Member:
    name: str
    asks: Asks
    heard: float
    assignment: bytes = b""
    joining: asyncio.Future[Joined] | None = None
    syncing: asyncio.Future[Synced] | None = None

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None


@dataclass
class Group:
    name: str
    state: str = EMPTY
    generation: int = 0
    protocol: str = ""
    protocol_type: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    _deadline: float = 0.0

    async def join(self, asks: Asks) -> Joined:
        """Answered when everybody has joined, or at once where nothing changes."""
        try:
            member, answer = self._admit(asks)
        except Refused as refused:
            return Joined(refused.code, -1, "", "", asks.member, [])
        if answer is not None:
            return answer
        joining: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        _answer(member.joining, Joined(UNKNOWN_MEMBER, -1, "", "", member.name, []))
        member.joining = joining
        self._complete_join()
        return await joining

    async def sync(
        self, generation: int, member_id: str, instance: str | None, assignments: dict[str, bytes]
    ) -> Synced:
        """The leader gives the assignments; the others wait for them."""
        error = self.error_of(generation, member_id, instance)
        if error or self.state == PREPARING:
            return Synced(error or REBALANCING, b"")
        member = self.members[member_id]
        member.heard = _now()
        if self.state == COMPLETING:
            if member_id == self.leader:
                for other in self.members.values():
                    other.assignment = assignments.get(other.name, b"")
                self.state = STABLE
                for other in self.members.values():
                    other.heard = _now()
                    _answer(other.syncing, Synced(0, other.assignment))
                    other.syncing = None
            else:
                member.syncing = asyncio.get_running_loop().create_future()
                return await member.syncing
        return Synced(0, member.assignment)

    def heartbeat(self, generation: int, member_id: str) -> int:
        error = self.error_of(generation, member_id, None)
        if error:
            return error
        self.members[member_id].heard = _now()
        return REBALANCING if self.state == PREPARING else 0

    def leave(self, member_id: str) -> int:
        if member_id not in self.members:
            return UNKNOWN_MEMBER
        self._remove(self.members[member_id])
        return 0

    def error_of(self, generation: int, member_id: str, instance: str | None) -> int:
        """What stands against a request of this member in this generation; 0: nothing."""
        if instance is not None and self.instances.get(instance, member_id) != member_id:
            return FENCED_INSTANCE
        if member_id not in self.members:
            return UNKNOWN_MEMBER
        return 0 if generation == self.generation else OTHER_GENERATION

    def tick(self) -> None:
        """Drop who was not heard of for a session; do not wait for ever for those who do not join again."""
        now = _now()
        for member in list(self.members.values()):
            if not member.waits and now - member.heard > member.asks.session_seconds:
                self._remove(member)
        if self.state == PREPARING and now > self._deadline:
            for member in list(self.members.values()):
                if member.joining is None and member.asks.instance is None:
                    self._forget(member)
            if any(member.joining for member in self.members.values()):
                self._everybody_joined()

    def _admit(self, asks: Asks) -> tuple[Member, Joined | None]:
        """The member, and its answer where it need not wait for the others."""
        if self.members and not self._common(asks.protocols):
            raise Refused(errors.InconsistentGroupProtocolError)
        known = self.instances.get(asks.instance) if asks.instance is not None else None
        if known is not None and not asks.member:
            return self._replace(self.members[known], asks)
        if not asks.member:
            name = f"{asks.instance or asks.client}-{uuid.uuid4().hex}"
            member = self.members[name] = Member(name, asks, _now())
            if asks.instance is not None:
                self.instances[asks.instance] = name
            self._prepare()
            return member, None
        error = self.error_of(self.generation, asks.member, asks.instance)
        if error:
            return Member(asks.member, asks, 0.0), Joined(error, -1, "", "", asks.member, [])
        member = self.members[asks.member]
        changed = member.asks.protocols != asks.protocols
        member.asks, member.heard = asks, _now()
        if self.state == PREPARING:
            return member, None
        if changed or (self.state == STABLE and member.name == self.leader):
            self._prepare()
            return member, None
        return member, self._joined(member)

    def _replace(self, old: Member, asks: Asks) -> tuple[Member, Joined | None]:
        """A static member that was started again takes the place of what it was, under a new name."""
        fenced = Joined(FENCED_INSTANCE, -1, "", "", old.name, [])
        _answer(old.joining, fenced)
        _answer(old.syncing, Synced(FENCED_INSTANCE, b""))
        del self.members[old.name]
        name = f"{asks.instance}-{uuid.uuid4().hex}"
        member = self.members[name] = Member(name, asks, _now(), old.assignment)
        self.instances[asks.instance or ""] = name
        leader, self.leader = self.leader, name if self.leader == old.name else self.leader
        if self.state == STABLE and self.protocol == self._chosen():
            # It is told the leader of before, so that it takes its assignment and does not make new ones.
            return member, Joined(0, self.generation, self.protocol, leader, name, [])
        if self.state != PREPARING:
            self._prepare()
        return member, None

    def _remove(self, member: Member) -> None:
        self._forget(member)
        if self.state in (STABLE, COMPLETING):
            self._prepare()
        self._complete_join()

    def _forget(self, member: Member) -> None:
        del self.members[member.name]
        if self.instances.get(member.asks.instance or "") == member.name:
            del self.instances[member.asks.instance or ""]
        _answer(member.joining, Joined(UNKNOWN_MEMBER, -1, "", "", member.name, []))
        _answer(member.syncing, Synced(UNKNOWN_MEMBER, b""))

    def _prepare(self) -> None:
        """Everybody must join again."""
        for member in self.members.values():
            _answer(member.syncing, Synced(REBALANCING, b""))
            member.syncing = None
        self.state = PREPARING
        self._deadline = _now() + max((m.asks.rebalance_seconds for m in self.members.values()), default=0.0)

    def _complete_join(self) -> None:
        if self.state == PREPARING and all(member.joining is not None for member in self.members.values()):
            self._everybody_joined()

    def _everybody_joined(self) -> None:
        self.generation += 1
        if not self.members:
            self.state, self.protocol, self.leader = EMPTY, "", ""
            return
        self.state, self.protocol = COMPLETING, self._chosen()
        joined = [member for member in self.members.values() if member.joining is not None]
        self.protocol_type = joined[0].asks.protocol_type
        if self.leader not in [member.name for member in joined]:
            self.leader = joined[0].name
        for member in joined:
            member.heard = _now()
            _answer(member.joining, self._joined(member))
            member.joining = None

    def _joined(self, member: Member) -> Joined:
        members = [
            (each.name, each.asks.instance, each.asks.protocols.get(self.protocol, b""))
            for each in self.members.values()
            if member.name == self.leader
        ]
        return Joined(0, self.generation, self.protocol, self.leader, member.name, members)

    def _common(self, protocols: Protocols) -> list[str]:
        return [name for name in protocols if all(name in m.asks.protocols for m in self.members.values())]

    def _chosen(self) -> str:
        """The first that all know, by the order of whoever is longest in the group."""
        return self._common(next(iter(self.members.values())).asks.protocols)[0]


def _answer(waiting: asyncio.Future[Joined] | asyncio.Future[Synced] | None, answer: Joined | Synced) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(answer)  # type: ignore[arg-type]


def _now() -> float:
    return asyncio.get_running_loop().time()
