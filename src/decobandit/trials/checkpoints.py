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

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, text

from . import schema
from .check_result import CheckResult
from .database import Store
from .errors import Damaged, TrialError
from .event_log import event_log_of, now
from .events import GENESIS, digest
from .people import CALLED, PeopleLog, lock, people_log
from .signed_notes import BadSignature, NotSigned, PrivateKey, PublicKey, text_of
from .verification import LogCheck

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
