"""Who holds the connections of a server: a limit in all, one per address, room for known people.

A new connection is always let in, so that whoever has a token can show it. Where there are too
many, one is closed instead: the oldest that does nothing and has shown no token. Such are silent
connections, those between two requests, and those whose client does not read its answer.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Protocol


class Connection(Protocol):
    """What is to know of a connection."""

    @property
    def address(self) -> str:
        """By which connections are counted."""

    @property
    def known(self) -> bool:
        """Whether a request on it had a valid token."""

    @property
    def waits(self) -> bool:
        """Whether it waits for its client: for a request, or until an answer is read."""

    def cut(self) -> None:
        """Close it at once; what was not sent is dropped."""


class Connections:
    """The open connections, by address, the oldest first."""

    def __init__(self, most: int, most_per_address: int) -> None:
        self.most, self.most_per_address = most, most_per_address
        self._by_address: dict[str, dict[Connection, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, new: Connection) -> bool:
        """Let one in, and close others where there are too many; whether there was room.

        Without room all others are at work: then only known people are served on this one.
        """
        of_address = self._by_address.setdefault(new.address, {})
        strangers = sum(not one.known for one in of_address)
        room = strangers < self.most_per_address or self._cut(of_address)
        if self._count >= self.most:
            fullest = max(self._by_address.values(), key=len)
            room = self._cut(fullest) or self._cut(self._all())
            room = room or self._cut(self._all(), known=True)
        # `cut` may have emptied the group of this address
        self._by_address.setdefault(new.address, of_address)[new] = None
        self._count += 1
        return room

    def remove(self, gone: Connection) -> None:
        """Remove a closed connection."""
        of_address = self._by_address.get(gone.address, {})
        if gone in of_address:
            del of_address[gone]
            self._count -= 1
            if not of_address:
                del self._by_address[gone.address]

    def _all(self) -> dict[Connection, None]:
        return {one: None for of_address in self._by_address.values() for one in of_address}

    def _cut(self, among: dict[Connection, None], *, known: bool = False) -> bool:
        """Close the oldest that waits for its client; those of known people only if told so."""
        victim = next(self._waiting(among, known), None)
        if victim is not None:
            self.remove(victim)
            victim.cut()
        return victim is not None

    def _waiting(self, among: dict[Connection, None], include_known: bool) -> Iterator[Connection]:
        return (one for one in among if one.waits and (include_known or not one.known))


def counted_address(host: str | None) -> str:
    """Return the address that clients are counted by; of IPv6 the /64 network."""
    if host is None:
        return "unknown"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
