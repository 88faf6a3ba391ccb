"""Checkpoints: signed notes of all heads, to be kept by somebody else.

    decobandit-checkpoint-1
    number 2
    made 2026-11-16T12:00:00.000+00:00
    previous SHA-256 of the text of checkpoint 1; 64 zeros for the first
    people EVENTS HEAD
    trial ID EVENTS HEAD
    ...

One line for the log of people, which has the digest of every token, and one per trial, in the order
of their ids: how many events it had, and the hash of the last. All checkpoints are kept in the
database, too; each names the one before, so that one note stands for all that were made before it.
A log that was rewritten, shortened or removed no longer has the events that its lines name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, text

from . import schema
from .database import Store
from .errors import Damaged, TrialError
from .event_log import event_log_of, now
from .events import GENESIS, digest
from .people import CALLED, PeopleLog, lock, people_log
from .verification import CheckResult, LogCheck

ED25519 = b"\x01"  # the kind of key and signature
MAX_KEY_NAME = 100
_PRIVATE = "PRIVATE+KEY+"
_DASH = "— "
_HASH_BYTES, _KEY_BYTES = 4, 32


class BadSignature(TrialError):
    """A note that has the key's signature of another text."""


class NotSigned(TrialError):
    """A note without a signature of the key."""


@dataclass(frozen=True)
class PublicKey:
    """A key that checks signatures."""

    name: str
    data: bytes

    @property
    def hash(self) -> bytes:
        """The four bytes by which signatures name the key."""
        whole = hashlib.sha256(self.name.encode() + b"\n" + ED25519 + self.data).digest()
        return whole[:_HASH_BYTES]

    @property
    def text(self) -> str:
        """The key as it is written: NAME+HASH+BASE64."""
        return f"{self.name}+{self.hash.hex()}+{_encoded(ED25519 + self.data)}"

    @classmethod
    def read(cls, text: str) -> PublicKey:
        """The key of a text; `TrialError` if it is none."""
        name, hash_, data = _parts(text.strip(), "public key")
        key = cls(name, data)
        if key.hash.hex() != hash_:
            raise TrialError("public key: its hash is not that of its name and its data")
        return key

    def check(self, note: str) -> str:
        """The text of a note that this key has signed."""
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
        """A random key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(_key_name(name), Ed25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> PublicKey:
        """The key that checks what this one signs."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.from_private_bytes(self.seed)
        return PublicKey(self.name, private.public_key().public_bytes_raw())

    @property
    def text(self) -> str:
        """The key as it is written into a file."""
        return f"{_PRIVATE}{self.name}+{self.public.hash.hex()}+{_encoded(ED25519 + self.seed)}"

    @classmethod
    def read(cls, text: str) -> PrivateKey:
        """The key of a text; `TrialError` if it is none. The text is not repeated."""
        if not text.startswith(_PRIVATE):
            raise TrialError("private key: not a key that 'deco keys new' made")
        name, hash_, seed = _parts(text.strip().removeprefix(_PRIVATE), "private key")
        key = cls(name, seed)
        if key.public.hash.hex() != hash_:
            raise TrialError("private key: its hash is not that of its name and its data")
        return key

    def sign(self, text: str) -> str:
        """The note of a text whose lines all end."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signature = Ed25519PrivateKey.from_private_bytes(self.seed).sign(text.encode())
        return f"{text}\n{_DASH}{self.name} {_encoded(self.public.hash + signature)}\n"


def text_of(note: str) -> str:
    """The text of a note; its signatures are not checked."""
    return _split(note)[0]


def _split(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """The text, and name and data of every signature."""
    text, gap, lines = note.rpartition("\n\n")
    if not gap or not lines.endswith("\n") or any(ord(sign) < 32 and sign != "\n" for sign in note):
        raise TrialError("note: not a signed note: a text, an empty line, and signatures")
    signatures = []
    for line in lines.removesuffix("\n").split("\n"):
        name, _, data = line.removeprefix(_DASH).partition(" ")
        decoded = _decoded(data)
        # signatures of other kinds, which are not checked here, have other lengths
        whole = len(decoded) > _HASH_BYTES
        if not line.startswith(_DASH) or not _is_key_name(name) or not whole:
            raise TrialError("note: a line of its signatures is malformed")
        signatures.append((name, decoded))
    return text + "\n", signatures


def _parts(text: str, what: str) -> tuple[str, str, bytes]:
    """Name, hash and data of a key."""
    parts = text.split("+", 2)  # base64 may have a plus, too
    if len(parts) != 3 or not _is_key_name(parts[0]):
        raise TrialError(f"{what}: must be NAME+HASH+BASE64, as 'deco keys new' prints it")
    data = _decoded(parts[2])
    if data[:1] != ED25519 or len(data) != 1 + _KEY_BYTES:
        raise TrialError(f"{what}: is not an Ed25519 key")
    return parts[0], parts[1], data[1:]


def _is_key_name(name: str) -> bool:
    plain = bool(name) and name.isprintable() and "+" not in name
    return plain and not any(sign.isspace() for sign in name)


def _key_name(name: str) -> str:
    if not _is_key_name(name) or len(name) > MAX_KEY_NAME:
        raise TrialError(
            f"name of a key: {name[:MAX_KEY_NAME]!r}; must be 1 to {MAX_KEY_NAME} printable "
            "characters without blanks or plus signs"
        )
    return name


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


# -- checkpoints: signed notes of all heads, to be kept by somebody else ---------------------------


FORMAT = "decobandit-checkpoint-1"
NOTES_AT_ONCE = 20  # read from the database in one transaction
_HEAD_LINE = re.compile(r"trial ([0-9a-f]{16}) ([1-9][0-9]{0,9}) ([0-9a-f]{64})")
_FIRST_LINES = re.compile(
    rf"{FORMAT}\nnumber ([1-9][0-9]{{0,9}})\nmade (\S+)\nprevious ([0-9a-f]{{64}})\n"
    r"people (0|[1-9][0-9]{0,9}) ([0-9a-f]{64})\n"
)
_notes = schema.checkpoints.c


class TrialHead(NamedTuple):
    """How far a log had come: its number of events, and the hash of the last."""

    events: int
    hash: str


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says."""

    number: int
    made: str
    previous: str
    people: TrialHead
    heads: Mapping[str, TrialHead]
    note: str = ""

    @property
    def text(self) -> str:
        """The text that is signed."""
        lines = [FORMAT, f"number {self.number}", f"made {self.made}", f"previous {self.previous}"]
        lines.append(f"people {self.people.events} {self.people.hash}")
        lines += [
            f"trial {trial} {head.events} {head.hash}" for trial, head in sorted(self.heads.items())
        ]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "number": self.number,
            "made": self.made,
            "trials": len(self.heads),
            "note": self.note,
        }

    @property
    def hash(self) -> str:
        """By which the next checkpoint names this one."""
        return digest(self.text)

    @classmethod
    def read(cls, note: str) -> Checkpoint:
        """The checkpoint of a note; its signatures are not checked."""
        text_ = text_of(note)
        first = _FIRST_LINES.match(text_)
        if first is None:
            raise TrialError(f"checkpoint: the note is no {FORMAT}")
        heads = {}
        for line in text_[first.end() :].splitlines():
            found = _HEAD_LINE.fullmatch(line)
            if found is None:
                raise TrialError("checkpoint: one of its lines is not the head of a trial")
            heads[found[1]] = TrialHead(int(found[2]), found[3])
        people = TrialHead(int(first[4]), first[5])
        made = cls(int(first[1]), first[2], first[3], people, heads, note)
        if made.text != text_:
            raise TrialError("checkpoint: its lines are not in order, or stand there twice")
        return made


def make_checkpoint(store: Store, key: PrivateKey) -> Checkpoint:
    """Sign the heads of all logs; the last checkpoint again if nothing has changed since.

    `Damaged` if a log does not continue what the last checkpoint says of it.
    """
    return store.write(lambda connection: _made(store, connection, key))


def _made(store: Store, connection: Connection, key: PrivateKey) -> Checkpoint:
    if store.locks_rows:
        connection.execute(text("LOCK TABLE checkpoints IN EXCLUSIVE MODE"))
    newest = select(_notes.note).order_by(_notes.number.desc()).limit(1)
    note = connection.execute(newest).scalar_one_or_none()
    last = None if note is None else _stored(note)
    heads = {
        str(row.id): TrialHead(row.head_seq + 1, row.head_hash)
        for row in connection.execute(select(schema.trials))
    }
    newest_person = lock(connection)
    people = TrialHead(newest_person.seq + 1, newest_person.hash)
    if last is not None:
        _check_continued(connection, last, people, heads)
        if (people, heads) == (last.people, last.heads) and _signed_by(last, key.public):
            return last
    number, previous = (1, GENESIS) if last is None else (last.number + 1, last.hash)
    made = Checkpoint(number, now(), previous, people, heads)
    signed = Checkpoint.read(key.sign(made.text))
    connection.execute(insert(schema.checkpoints), {"number": number, "note": signed.note})
    return signed


def _check_continued(
    connection: Connection, last: Checkpoint, people: TrialHead, heads: Mapping[str, TrialHead]
) -> None:
    events, persons = schema.events.c, schema.people.c
    at = select(persons.hash).where(persons.seq == last.people.events - 1)
    then = connection.execute(at).scalar_one_or_none() or GENESIS
    if people.events < last.people.events or then != last.people.hash:
        raise Damaged(
            f"{CALLED}: does not continue what checkpoint {last.number} says of it; run "
            "'deco trial verify'"
        )
    for trial, head in last.heads.items():
        if heads.get(trial) == head:
            continue
        at = select(events.hash).where((events.trial_id == trial) & (events.seq == head.events - 1))
        if trial not in heads or connection.execute(at).scalar_one_or_none() != head.hash:
            raise Damaged(
                f"trial {trial}: does not continue what checkpoint {last.number} says of it; run "
                "'deco trial verify'"
            )


def _signed_by(checkpoint: Checkpoint, key: PublicKey) -> bool:
    try:
        key.check(checkpoint.note)
    except TrialError:
        return False
    return True


def _stored(note: str) -> Checkpoint:
    try:
        return Checkpoint.read(note)
    except TrialError as error:
        raise Damaged(f"a checkpoint in the database was changed: {error}") from None


# -- checks -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckpointCheck(CheckResult):
    """Whether a database, or an exported trial, is intact and continues what a checkpoint says.

    Attributes
    ----------
    trial : str
        Empty: it is about all trials.
    number : int
        Of the checkpoint.
    made : str
        When: ISO 8601, UTC.
    key : str
        Name of the key that signed it.
    trials : int
        Trials that it names.
    problems : tuple[str, ...]
        What was found, in the logs that were compared too.

    Examples
    --------
    >>> CheckpointCheck("", 1, "2026-11-16T12:00:00.000+00:00", "deco", 0, ()).ok
    True
    """

    number: int
    made: str
    key: str
    trials: int
    problems: tuple[str, ...]

    @property
    def found(self) -> tuple[str, ...]:
        return self.problems

    def to_dict(self) -> dict[str, Any]:
        tree = super().to_dict()
        del tree["trial"]
        return tree


def check_checkpoint(
    note: str, key: PublicKey, checks: Iterable[LogCheck], *, store: Store | None = None
) -> CheckpointCheck:
    """Compare some logs that were checked with a checkpoint; without a store, of exported trials.

    One that does not continue what the checkpoint says gets one more problem, and is stopped. With
    a store, the log of people and the tokens are checked, too.
    """
    given = Checkpoint.read(note)
    try:
        key.check(note)
    except BadSignature as error:
        return _result(given, key, [str(error)])
    problems = [] if store is None else _compare_people(people_log(store), [given])
    for check in checks:
        if check.trial in given.heads:
            _compare(check, given.heads[check.trial], given.number, store)
        else:
            check.problems.append(f"trial {check.trial}: is not in checkpoint {given.number}")
        problems += check.problems
    return _result(given, key, problems)


def check_database_by(
    note: str, key: PublicKey, checks: Iterable[LogCheck], *, store: Store
) -> CheckpointCheck:
    """Compare all logs of a database, and its own checkpoints, with one that was kept elsewhere.

    The log of people and the tokens are among them. A trial that does not continue what they say
    gets one more problem, and is stopped.
    """
    given, by_trial = Checkpoint.read(note), {check.trial: check for check in checks}
    try:
        key.check(note)
    except BadSignature as error:
        return _result(given, key, [str(error)])
    problems: list[str] = []
    people, known = people_log(store), (given, *_chain(given, key, store, problems))
    problems += _compare_people(people, known)
    for checkpoint in known:
        for trial, head in checkpoint.heads.items():
            if trial in by_trial and by_trial[trial].hashes:
                _compare(by_trial[trial], head, checkpoint.number, store)
            else:
                problems.append(f"trial {trial}: is in checkpoint {checkpoint.number}, and is gone")
    for check in by_trial.values():
        problems += check.problems
    return _result(given, key, problems)


def _result(given: Checkpoint, key: PublicKey, problems: list[str]) -> CheckpointCheck:
    found = tuple(dict.fromkeys(problems))
    return CheckpointCheck("", given.number, given.made, key.name, len(given.heads), found)


def _compare_people(people: PeopleLog, checkpoints: Iterable[Checkpoint]) -> list[str]:
    """What is wrong with the log of people and the tokens, by themselves and by checkpoints."""
    problems = list(people.problems)
    hashes = [GENESIS, *(event.hash for event in people.events)]
    for checkpoint in checkpoints:
        events, hash_ = checkpoint.people
        if len(hashes) <= events:
            there = len(hashes) - 1
            problems.append(
                f"{CALLED}: has {there} events, and had {events} in checkpoint {checkpoint.number}"
            )
        elif hashes[events] != hash_:
            problems.append(
                f"{CALLED}: event {events - 1} is not the one that checkpoint {checkpoint.number} "
                "names"
            )
    return problems


def _compare(check: LogCheck, head: TrialHead, number: int, store: Store | None) -> None:
    place = head.events - 1
    if check.hashes[place : place + 1] == [head.hash]:
        return
    if len(check.hashes) < head.events:
        found = f"has {len(check.hashes)} events, and had {head.events} in checkpoint {number}"
    else:
        found = f"event {place} is not the one that checkpoint {number} names"
    problem = f"trial {check.trial}: {found}"
    if problem not in check.problems:
        check.problems.append(problem)
    if store is not None:
        event_log_of(store).damage.mark(check.trial, problem)


def _chain(
    given: Checkpoint, key: PublicKey, store: Store, problems: list[str]
) -> Iterator[Checkpoint]:
    """The checkpoints of a database; what is wrong with them is added to `problems`.

    Those before the given one are as good as signed, for it names them by hash.
    """
    before: Checkpoint | None = None
    there = False
    for number, note in _stored_notes(store):
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
        there = there or stored.text == given.text
        before = stored
        yield stored
    if not there:
        problems.append(
            f"checkpoint {given.number} is not in the database: an older or another database was "
            "put in its place, or its checkpoints were changed"
        )


def _stored_notes(store: Store) -> Iterator[tuple[int, str]]:
    after = -1
    while True:
        query = select(_notes.number, _notes.note).where(_notes.number > after)
        with store.read() as connection:
            page = connection.execute(query.order_by(_notes.number).limit(NOTES_AT_ONCE)).all()
        yield from ((int(number), str(note)) for number, note in page)
        if len(page) < NOTES_AT_ONCE:
            return
        after = page[-1][0]
