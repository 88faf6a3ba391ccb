"""Checkpoints: signed notes of all heads, kept by another party: docs/trials.md.

Each names the one before, so that one note stands for all before it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import Connection, insert, select, text

from ..support.records import doc, record_class
from . import schema
from .database import Store
from .errors import Damaged, TrialError
from .event_log import event_log_of, now
from .events import GENESIS, digest
from .people import NAME, PeopleLog, lock, people_log
from .verification import CheckResult, LogCheck

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ED25519 = b"\x01"  # algorithm of key and signature
MAX_KEY_NAME = 100
_PRIVATE = "PRIVATE+KEY+"
_DASH = "— "
_HASH_BYTES, _KEY_BYTES = 4, 32


Key = TypeVar("Key", "PublicKey", "PrivateKey")


class BadSignature(TrialError):
    """A note with the key's signature of another text."""


class NotSigned(TrialError):
    """A note without a signature of the key."""


@dataclass(frozen=True)
class PublicKey:
    """A key that verifies signatures."""

    name: str
    data: bytes

    @property
    def public(self) -> PublicKey:
        return self

    @property
    def hash(self) -> bytes:
        """The four bytes by which signatures name the key."""
        data = self.name.encode() + b"\n" + ED25519 + self.data
        return hashlib.sha256(data).digest()[:_HASH_BYTES]

    @property
    def text(self) -> str:
        """Text of the key: NAME+HASH+BASE64."""
        return f"{self.name}+{self.hash.hex()}+{_encoded(ED25519 + self.data)}"

    @classmethod
    def read(cls, text: str) -> PublicKey:
        """Parse a public key."""
        return _read_key(cls, text, "public key")

    def check(self, note: str) -> str:
        """Return the text of a note that this key has signed."""
        text, signatures = _split(note)
        mine = [
            data[_HASH_BYTES:]
            for name, data in signatures
            if (name, data[:_HASH_BYTES]) == (self.name, self.hash)
        ]
        if not mine:
            names = ", ".join(sorted({name for name, _ in signatures}))
            raise NotSigned(f"note: has no signature of this key ({self.name}); signed by {names}")
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.data).verify(mine[0], text.encode())
        except (InvalidSignature, ValueError):
            raise BadSignature(
                f"note: the signature of {self.name} is not of this text: it was changed"
            ) from None
        return text


@dataclass(frozen=True)
class PrivateKey:
    """A key that signs."""

    name: str
    seed: bytes = field(repr=False)

    @classmethod
    def new(cls, name: str) -> PrivateKey:
        """Generate a random key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if not _is_key_name(name) or len(name) > MAX_KEY_NAME:
            raise TrialError(
                f"name of a key: {name[:MAX_KEY_NAME]!r}; must be 1 to {MAX_KEY_NAME} printable "
                "characters without blanks or plus signs",
                field="name",
            )
        return cls(name, Ed25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> PublicKey:
        """Key that verifies the signatures of this one."""
        return PublicKey(self.name, self._key().public_key().public_bytes_raw())

    def _key(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @property
    def text(self) -> str:
        """Text of the key in its file."""
        return f"{_PRIVATE}{self.name}+{self.public.hash.hex()}+{_encoded(ED25519 + self.seed)}"

    @classmethod
    def read(cls, text: str) -> PrivateKey:
        """Parse a private key; messages do not repeat it."""
        if not text.startswith(_PRIVATE):
            raise TrialError("private key: not a key that 'deco keys new' made", field="key")
        return _read_key(cls, text.removeprefix(_PRIVATE), "private key")

    def sign(self, text: str) -> str:
        """Sign `text`, which must end with a newline."""
        signature = self._key().sign(text.encode())
        return f"{text}\n{_DASH}{self.name} {_encoded(self.public.hash + signature)}\n"


def _split(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the text, and name and data of every signature."""
    text, gap, lines = note.rpartition("\n\n")
    if not gap or not lines.endswith("\n") or any(ord(sign) < 32 and sign != "\n" for sign in note):
        raise TrialError("note: not a signed note: a text, an empty line, and signatures")
    signatures = []
    for line in lines.removesuffix("\n").split("\n"):
        name, _, data = line.removeprefix(_DASH).partition(" ")
        decoded = _decoded(data)  # signatures of other kinds have other lengths
        complete = len(decoded) > _HASH_BYTES
        if not line.startswith(_DASH) or not _is_key_name(name) or not complete:
            raise TrialError("note: a line of its signatures is malformed")
        signatures.append((name, decoded))
    return text + "\n", signatures


def _read_key(kind: type[Key], text: str, what: str) -> Key:
    """Parse NAME+HASH+BASE64."""
    parts = text.strip().split("+", 2)  # base64 may have a plus, too
    if len(parts) != 3 or not _is_key_name(parts[0]):
        raise TrialError(
            f"{what}: must be NAME+HASH+BASE64, as 'deco keys new' prints it", field="key"
        )
    data = _decoded(parts[2])
    if data[:1] != ED25519 or len(data) != 1 + _KEY_BYTES:
        raise TrialError(f"{what}: is not an Ed25519 key", field="key")
    key = kind(parts[0], data[1:])
    if key.public.hash.hex() != parts[1]:
        raise TrialError(f"{what}: its hash is not that of its name and its data", field="key")
    return key


def _is_key_name(name: str) -> bool:
    printable = bool(name) and name.isprintable() and "+" not in name
    return printable and not any(sign.isspace() for sign in name)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


FORMAT = "decobandit-checkpoint-1"
_HEAD_LINE = re.compile(r"trial ([0-9a-f]{16}) ([1-9][0-9]{0,9}) ([0-9a-f]{64})")
_FIRST_LINES = re.compile(
    rf"{FORMAT}\nnumber ([1-9][0-9]{{0,9}})\nmade (\S+)\nprevious ([0-9a-f]{{64}})\n"
    r"people (0|[1-9][0-9]{0,9}) ([0-9a-f]{64})\n"
)
_notes = schema.checkpoints.c


class TrialHead(NamedTuple):
    """Number of events of a log, and the hash of the last."""

    events: int
    hash: str


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint."""

    number: int
    made: str
    previous: str
    people: TrialHead
    heads: Mapping[str, TrialHead]
    note: str = ""

    @property
    def text(self) -> str:
        """Text that is signed."""
        lines = [FORMAT, f"number {self.number}", f"made {self.made}", f"previous {self.previous}"]
        lines.append(f"people {self.people.events} {self.people.hash}")
        lines += [
            f"trial {trial} {head.events} {head.hash}" for trial, head in sorted(self.heads.items())
        ]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "made": self.made,
            "trials": len(self.heads),
            "note": self.note,
        }

    @property
    def hash(self) -> str:
        """Hash by which the next checkpoint names this one."""
        return digest(self.text)

    @classmethod
    def read(cls, note: str) -> Checkpoint:
        """Parse a note; its signatures are not checked."""
        text_, _ = _split(note)
        first = _FIRST_LINES.match(text_)
        if first is None:
            raise TrialError(f"checkpoint: the note is no {FORMAT}")
        heads = {}
        for line in text_[first.end() :].splitlines():
            match = _HEAD_LINE.fullmatch(line)
            if match is None:
                raise TrialError("checkpoint: one of its lines is not the head of a trial")
            heads[match[1]] = TrialHead(int(match[2]), match[3])
        people = TrialHead(int(first[4]), first[5])
        checkpoint = cls(int(first[1]), first[2], first[3], people, heads, note)
        if checkpoint.text != text_:
            raise TrialError("checkpoint: its lines are not in order, or stand there twice")
        return checkpoint


def make_checkpoint(store: Store, key: PrivateKey) -> Checkpoint:
    """Sign the heads of all logs; return the last checkpoint if nothing has changed since.

    `Damaged` if a log does not continue what the last checkpoint says of it.
    """
    return store.write(partial(_new_checkpoint, key))


def _new_checkpoint(key: PrivateKey, connection: Connection) -> Checkpoint:
    if connection.dialect.name != "sqlite":  # which has one writer at a time
        connection.execute(text("LOCK TABLE checkpoints IN EXCLUSIVE MODE"))
    newest = select(_notes.note).order_by(_notes.number.desc()).limit(1)
    note = connection.execute(newest).scalar_one_or_none()
    try:
        last = None if note is None else Checkpoint.read(note)
    except TrialError as error:
        raise Damaged(f"a checkpoint in the database was changed: {error}") from None
    heads = {
        str(row.id): TrialHead(row.head_seq + 1, row.head_hash)
        for row in connection.execute(select(schema.trials))
    }
    access_head = lock(connection)
    people = TrialHead(access_head.seq + 1, access_head.hash)
    if last is not None:
        _check_continued(connection, last, people, heads)
        if (people, heads) == (last.people, last.heads):
            with suppress(TrialError):  # another key may have signed it
                key.public.check(last.note)
                return last
    number, previous = (1, GENESIS) if last is None else (last.number + 1, last.hash)
    unsigned = Checkpoint(number, now(), previous, people, heads)
    signed = Checkpoint.read(key.sign(unsigned.text))
    connection.execute(insert(schema.checkpoints), {"number": number, "note": signed.note})
    return signed


def _check_continued(
    connection: Connection, last: Checkpoint, people: TrialHead, heads: Mapping[str, TrialHead]
) -> None:
    events, persons = schema.events.c, schema.people.c
    at = select(persons.hash).where(persons.seq == last.people.events - 1)
    then = connection.execute(at).scalar_one_or_none() or GENESIS
    broken = [NAME] if people.events < last.people.events or then != last.people.hash else []
    for trial, head in last.heads.items():
        if heads.get(trial) == head:
            continue
        at = select(events.hash).where((events.trial_id == trial) & (events.seq == head.events - 1))
        if trial not in heads or connection.execute(at).scalar_one_or_none() != head.hash:
            broken.append(f"trial {trial}")
    if broken:
        raise Damaged(
            f"{broken[0]}: does not continue what checkpoint {last.number} says of it; run "
            "'deco trial verify'"
        )


@record_class()
class CheckpointCheck(CheckResult):
    """Result of comparing a database, or an exported trial, with a checkpoint."""

    number: int = doc("Number of the checkpoint.")
    made: str = doc("Time of the checkpoint: ISO 8601, UTC.")
    key: str = doc("Name of the key that signed it.")
    trials: int = doc("Number of trials in the checkpoint.")
    problems: tuple[str, ...] = doc("Problems, one sentence each, with those of the compared logs.")

    @property
    def findings(self) -> tuple[str, ...]:
        return self.problems

    def to_dict(self) -> dict[str, Any]:
        tree = super().to_dict()
        del tree["trial"]
        return tree


def check_checkpoint(
    note: str,
    key: PublicKey,
    checks: Iterable[LogCheck],
    *,
    store: Store | None = None,
    every_trial: bool = False,
) -> CheckpointCheck:
    """Compare checked logs with a checkpoint; without a store, logs of exported trials.

    A log that does not continue the checkpoint gets one more problem, and its trial is locked. With
    a store, the access log and the tokens are checked, too. `every_trial`: the logs are all of the
    store, whose own checkpoints are compared with this one, and with the logs.
    """
    checkpoint, by_trial = Checkpoint.read(note), {check.trial: check for check in checks}
    try:
        key.check(note)
    except BadSignature as error:
        return _result(checkpoint, key, [str(error)])
    problems, checkpoints = list[str](), [checkpoint]
    if store is not None:
        checkpoints += _chain(checkpoint, key, store, problems) if every_trial else ()
        problems += _compare_people(people_log(store), checkpoints)
    for one in checkpoints:
        for trial, head in one.heads.items():
            if trial in by_trial and (by_trial[trial].hashes or not every_trial):
                _compare(by_trial[trial], head, one.number, store)
            elif every_trial:
                problems.append(f"trial {trial}: is in checkpoint {one.number}, and is gone")
    for check in by_trial.values():
        if check.trial not in checkpoint.heads and not every_trial:
            check.add_problem(f"is not in checkpoint {checkpoint.number}")
        problems += check.problems
    return _result(checkpoint, key, problems)


def _result(checkpoint: Checkpoint, key: PublicKey, problems: list[str]) -> CheckpointCheck:
    about = (checkpoint.number, checkpoint.made, key.name, len(checkpoint.heads))
    return CheckpointCheck("", *about, tuple(dict.fromkeys(problems)))


def _compare_people(people: PeopleLog, checkpoints: Iterable[Checkpoint]) -> list[str]:
    """Return problems of the access log and the tokens, by themselves and by checkpoints."""
    problems = list(people.problems)
    hashes = [GENESIS, *(event.hash for event in people.events)]
    for checkpoint in checkpoints:
        events, hash_ = checkpoint.people
        if len(hashes) <= events:
            there = len(hashes) - 1
            problems.append(
                f"{NAME}: has {there} events, and had {events} in checkpoint {checkpoint.number}"
            )
        elif hashes[events] != hash_:
            problems.append(
                f"{NAME}: event {events - 1} is not the one that checkpoint {checkpoint.number} "
                "names"
            )
    return problems


def _compare(check: LogCheck, head: TrialHead, number: int, store: Store | None) -> None:
    place = head.events - 1
    if check.hashes[place : place + 1] == [head.hash]:
        return
    if len(check.hashes) < head.events:
        text_ = f"has {len(check.hashes)} events, and had {head.events} in checkpoint {number}"
    else:
        text_ = f"event {place} is not the one that checkpoint {number} names"
    problem = f"trial {check.trial}: {text_}"
    if problem not in check.problems:
        check.problems.append(problem)
    if store is not None:
        event_log_of(store).damage.mark(check.trial, problem)


def _chain(
    checkpoint: Checkpoint, key: PublicKey, store: Store, problems: list[str]
) -> Iterator[Checkpoint]:
    """Yield the checkpoints of a database; append what is wrong with them to `problems`.

    The hash in the signed one vouches for those before it.
    """
    before: Checkpoint | None = None
    there = False
    with store.read() as connection:
        query = select(_notes.number, _notes.note).order_by(_notes.number)
        notes = connection.execute(query).all()
    for number, note in notes:
        try:
            stored = Checkpoint.read(note)
            key.check(note)
        except NotSigned:
            pass  # by another key
        except TrialError as error:
            problems.append(f"checkpoint {number} in the database: {error}")
            continue
        expected = (1, GENESIS) if before is None else (before.number + 1, before.hash)
        if (stored.number, stored.previous) != expected or stored.number != number:
            problems.append(f"checkpoint {number} in the database does not follow the one before")
        there = there or stored.text == checkpoint.text
        before = stored
        yield stored
    if not there:
        problems.append(
            f"checkpoint {checkpoint.number} is not in the database: an older or another database "
            "was put in its place, or its checkpoints were changed"
        )
