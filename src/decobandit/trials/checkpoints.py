"""Checkpoints: signed notes of all heads, kept by another party: docs/trials.md.

Each names the one before, so that one note stands for all before it. Notes and keys have the form
of c2sp.org/signed-note.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, text

from ..support.records import doc, record_class
from . import schema
from .database import Store
from .errors import Damaged, TrialError
from .event_log import ACCESS_LOG, event_log_of, lock, now, people_log
from .events import GENESIS, CheckResult, digest
from .verification import LogCheck

ED25519 = b"\x01"  # algorithm of key and signature
MAX_KEY_NAME = 100
_PRIVATE = "PRIVATE+KEY+"
_HASH_BYTES = 4
_KEY_NAME = re.compile(r"[^\s+]+")
_KEY = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+(\S+)\s*")
_SIGNATURE = re.compile(r"\u2014 ([^\s+]+) (\S+)\n")


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
        name, data, key_hash = _read_key(text, "public key")
        key = cls(name, data)
        if key.hash.hex() != key_hash:
            raise _bad_key("public key")
        return key

    def check(self, note: str) -> str:
        """Return the text of a note that this key has signed."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        text, signatures = _split(note)
        for name, data in signatures:
            if (name, data[:_HASH_BYTES]) == (self.name, self.hash):
                break
        else:
            names = ", ".join(sorted({name for name, _ in signatures}))
            raise NotSigned(f"note: has no signature of this key ({self.name}); signed by {names}")
        try:
            signature = data[_HASH_BYTES:]
            Ed25519PublicKey.from_public_bytes(self.data).verify(signature, text.encode())
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

        if not (_KEY_NAME.fullmatch(name) and name.isprintable() and len(name) <= MAX_KEY_NAME):
            raise TrialError(
                f"name of a key: {name[:MAX_KEY_NAME]!r}; must be 1 to {MAX_KEY_NAME} printable "
                "characters without blanks or plus signs",
                field="name",
            )
        return cls(name, Ed25519PrivateKey.generate().private_bytes_raw())

    def _key(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @property
    def public(self) -> PublicKey:
        """Key that verifies the signatures of this one."""
        return PublicKey(self.name, self._key().public_key().public_bytes_raw())

    @property
    def text(self) -> str:
        """Text of the key in its file."""
        return f"{_PRIVATE}{self.name}+{self.public.hash.hex()}+{_encoded(ED25519 + self.seed)}"

    @classmethod
    def read(cls, text: str) -> PrivateKey:
        """Parse a private key; messages do not repeat it."""
        if not text.startswith(_PRIVATE):
            raise _bad_key("private key")
        name, seed, key_hash = _read_key(text.removeprefix(_PRIVATE), "private key")
        key = cls(name, seed)
        if key.public.hash.hex() != key_hash:
            raise _bad_key("private key")
        return key

    def sign(self, text: str) -> str:
        """Sign `text`, which must end with a newline."""
        signature = self.public.hash + self._key().sign(text.encode())
        return f"{text}\n\u2014 {self.name} {_encoded(signature)}\n"


def _read_key(text: str, what: str) -> tuple[str, bytes, str]:
    """Parse NAME+HASH+BASE64: name, key, hash."""
    match = _KEY.fullmatch(text)
    data = b"" if match is None else _decoded(match[3])
    if match is None or data[:1] != ED25519 or len(data) != 33:
        raise _bad_key(what)
    return match[1], data[1:], match[2]


def _bad_key(what: str) -> TrialError:
    rule = "must be an Ed25519 key, NAME+HASH+BASE64, as 'deco keys new' makes it"
    return TrialError(f"{what}: {rule}", field="key")


def _split(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the text, and name and data of every signature."""
    text, _, lines = note.rpartition("\n\n")
    signatures = [(name, _decoded(data)) for name, data in _SIGNATURE.findall(lines)]
    controls = any(ord(sign) < 32 and sign != "\n" for sign in note)
    if not signatures or _SIGNATURE.sub("", lines) or controls:
        raise TrialError("note: not a signed note: a text, an empty line, and signatures")
    return text + "\n", signatures


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


FORMAT = "decobandit-checkpoint-1"
_HEAD_LINE = re.compile(r"trial ([0-9a-f]{16}) ([1-9][0-9]{0,9}) ([0-9a-f]{64})\n")
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
        heads = sorted(self.heads.items())
        lines += [f"trial {trial} {head.events} {head.hash}" for trial, head in heads]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        about = {"number": self.number, "made": self.made}
        return about | {"trials": len(self.heads), "note": self.note}

    @property
    def hash(self) -> str:
        """Hash by which the next checkpoint names this one."""
        return digest(self.text)

    @classmethod
    def read(cls, note: str) -> Checkpoint:
        """Parse a note; its signatures are not checked."""
        text_, _ = _split(note)
        first = _FIRST_LINES.match(text_)
        if first is not None:
            rows = _HEAD_LINE.findall(text_, first.end())
            heads = {trial: TrialHead(int(events), hash_) for trial, events, hash_ in rows}
            people = TrialHead(int(first[4]), first[5])
            checkpoint = cls(int(first[1]), first[2], first[3], people, heads, note)
            if checkpoint.text == text_:  # no other line, each once, in order
                return checkpoint
        raise TrialError(f"checkpoint: the note is no {FORMAT}")


def make_checkpoint(store: Store, key: PrivateKey) -> Checkpoint:
    """Sign the heads of all logs; return the last checkpoint if nothing has changed since."""

    def work(connection: Connection) -> Checkpoint:
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

    return store.write(work)


def _check_continued(
    connection: Connection, last: Checkpoint, people: TrialHead, heads: Mapping[str, TrialHead]
) -> None:
    events, persons = schema.events.c, schema.people.c
    at = select(persons.hash).where(persons.seq == last.people.events - 1)
    then = connection.execute(at).scalar_one_or_none() or GENESIS
    broken = [ACCESS_LOG] if people.events < last.people.events or then != last.people.hash else []
    for trial, head in last.heads.items():
        at = select(events.hash).where((events.trial_id == trial) & (events.seq == head.events - 1))
        if heads.get(trial) != head and (
            trial not in heads or connection.execute(at).scalar_one_or_none() != head.hash
        ):
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
    problems, checkpoints = list[str](), [checkpoint]
    try:
        key.check(note)
    except BadSignature as error:
        problems, checkpoints, by_trial, store = [str(error)], [], {}, None
    if store is not None:
        checkpoints += _chain(checkpoint, key, store, problems) if every_trial else ()
        people = people_log(store)
        problems += people.problems
        hashes = [GENESIS, *(event.hash for event in people.events)]
        for one in checkpoints:
            problems += _difference(ACCESS_LOG, hashes, one.people, one.number)
    for one in checkpoints:
        for trial, head in one.heads.items():
            check = by_trial.get(trial)
            if check is not None and (check.hashes or not every_trial):
                hashes = [GENESIS, *check.hashes]
                for text_ in _difference(f"trial {trial}", hashes, head, one.number):
                    if text_ not in check.problems:
                        check.problems.append(text_)
                    if store is not None:
                        event_log_of(store).damage.mark(trial, text_)
            elif every_trial:
                problems.append(f"trial {trial}: is in checkpoint {one.number}, and is gone")
    for check in by_trial.values():
        if check.trial not in checkpoint.heads and not every_trial:
            check.add_problem(f"is not in checkpoint {checkpoint.number}")
        problems += check.problems
    about = (checkpoint.number, checkpoint.made, key.name, len(checkpoint.heads))
    return CheckpointCheck("", *about, tuple(dict.fromkeys(problems)))


def _difference(name: str, hashes: list[str], head: TrialHead, number: int) -> Iterator[str]:
    """Yield where a log, the hash before its first event included, differs from a checkpoint."""
    events = head.events
    if len(hashes) <= events:
        yield f"{name}: has {len(hashes) - 1} events, and had {events} in checkpoint {number}"
    elif hashes[events] != head.hash:
        yield f"{name}: event {events - 1} is not the one that checkpoint {number} names"


def _chain(
    checkpoint: Checkpoint, key: PublicKey, store: Store, problems: list[str]
) -> Iterator[Checkpoint]:
    """Yield the checkpoints of a database; append what is wrong with them to `problems`."""
    expected, there = (1, GENESIS), False
    with store.read() as connection:
        query = select(_notes.number, _notes.note).order_by(_notes.number)
        notes = connection.execute(query).all()
    for number, note in notes:
        try:
            stored = Checkpoint.read(note)
            with suppress(NotSigned):  # by another key
                key.check(note)
        except TrialError as error:
            problems.append(f"checkpoint {number} in the database: {error}")
            continue
        if (stored.number, stored.previous) != expected or stored.number != number:
            problems.append(f"checkpoint {number} in the database does not follow the one before")
        there = there or stored.text == checkpoint.text
        expected = (stored.number + 1, stored.hash)
        yield stored
    if not there:
        problems.append(
            f"checkpoint {checkpoint.number} is not in the database: an older or another database "
            "was put in its place, or its checkpoints were changed"
        )
