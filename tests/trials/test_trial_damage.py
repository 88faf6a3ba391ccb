"""A damaged database gives the answers of the whole one, or is refused; never another answer."""

import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from decobandit.problem import Arm, BetaBernoulli, Problem
from decobandit.trials import create_trial, list_trials, open_store, open_trial
from decobandit.trials.errors import StoreError, TrialError
from helpers.program import deco

PROBLEM = Problem(
    arms=(
        Arm(name="a", prior=BetaBernoulli(good=1, bad=1)),
        Arm(name="b", prior=BetaBernoulli(good=2, bad=2)),
    ),
    horizon=12,
)
FLIPS, LENGTHS = 300, 40
PAGE = 4096
NOBODY = 65534


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trial half-way, with every kind of event."""
    path = tmp_path_factory.mktemp("damage") / "whole.db"
    with open_store(path) as store:
        trial = create_trial(PROBLEM, name="wheat", db=store, seed=7)
        for number in range(5):
            slot = trial.ask(key=f"ask {number}")
            trial.tell(slot.id, number % 2, key=f"tell {number}")
        trial.correct(slot.id, 1, reason="misread")
        trial.cancel(trial.ask().id, reason="gone")
        with pytest.raises(TrialError):
            trial.tell(slot.id, 0)
        trial.ask()
    return path


def answers(path: Path) -> dict[str, Any]:
    """All that can be asked of the trial; the last question changes it."""
    with open_store(path) as store:
        listed = [one.to_dict() for one in list_trials(db=store)]
        trial = open_trial("wheat", db=store)
        found = {
            "listed": listed,
            "status": trial.status().to_dict(),
            "verified": trial.verify().to_dict(),
            "events": [event.to_dict() for event in trial.events()],
            "replayed": trial.replay().to_dict(),
            "asked before": [trial.ask(key=f"ask {number}").to_dict() for number in range(5)],
        }
        slot = trial.ask(key="new")
        found["asked"] = (slot.arm, slot.stage, slot.reason)
        after = trial.verify()
        found["after"] = (after.ok, after.events)
    with open_store(path) as store:  # and what was written is there
        again = open_trial("wheat", db=store)
        found["kept"] = again.ask(key="new") == slot
        found["status after"] = {
            name: value
            for name, value in again.status().to_dict().items()
            if name not in ("head", "open")
        }
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def answers_or_refusal(path: Path) -> dict[str, Any] | str:
    """What the trial answers, or what the refusal says; any other error goes on."""
    try:
        return answers(path)
    except TrialError as error:
        return str(error)


@pytest.fixture(scope="module")
def truth(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    copy = Path(shutil.copy(whole, tmp_path_factory.mktemp("truth") / "copy.db"))
    found = answers(copy)
    assert found["verified"]["ok"]
    assert found["after"] == [True, found["verified"]["events"] + 1]
    assert found["kept"]
    return found


@pytest.fixture
def is_true(truth: dict[str, Any], tmp_path: Path) -> Callable[[bytes], bool]:
    """Whether a database of these bytes answers truly (True) or is refused (False)."""
    path = tmp_path / "damaged.db"

    def check(data: bytes) -> bool:
        for file in tmp_path.glob("damaged.db*"):
            file.unlink()
        path.write_bytes(data)
        found = answers_or_refusal(path)
        if isinstance(found, str):
            assert len(found.splitlines()) == 1  # says why
            return False
        assert found == truth
        return True

    return check


# -- bytes --------------------------------------------------------------------------------------


def places(size: int) -> Iterator[int]:
    """Bytes to damage: all of the header, the beginning of every page, and others all over."""
    rng = random.Random(1)
    yield from range(100)
    for start in range(0, size, PAGE):
        yield from range(start + 100, start + 104) if start == 0 else range(start, start + 4)
    yield from sorted(rng.sample(range(100, size), FLIPS - 100))


@pytest.mark.parametrize("part", range(4))
def test_a_flipped_byte_never_gives_another_answer(
    whole: Path, is_true: Callable[[bytes], bool], part: int
) -> None:
    data, rng, kept = whole.read_bytes(), random.Random(part), []
    for place in list(places(len(data)))[part::4]:
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.randrange(8)
        kept.append(is_true(bytes(damaged)))
    assert any(kept)  # unused bytes do not matter
    assert not all(kept)


def test_a_flipped_byte_of_an_event_is_refused(
    whole: Path, is_true: Callable[[bytes], bool]
) -> None:
    data = whole.read_bytes()
    for word in (b'"outcome":', b'"arm":"', b'"multipliers":[0.', b'"previous":"'):
        place = data.index(word) + len(word)
        damaged = bytearray(data)
        damaged[place] ^= 1
        assert not is_true(bytes(damaged))


def test_a_shortened_file_never_gives_another_answer(
    whole: Path, is_true: Callable[[bytes], bool]
) -> None:
    data = whole.read_bytes()
    lengths = {len(data) * number // LENGTHS for number in range(1, LENGTHS)}
    for length in sorted(lengths | {1, 15, 16, 99, 100, len(data) - 1, len(data) - PAGE}):
        assert not is_true(data[:length])


def test_blank_pages_never_give_another_answer(
    whole: Path, is_true: Callable[[bytes], bool]
) -> None:
    data = whole.read_bytes()
    for start in range(0, len(data), PAGE):
        is_true(data[:start] + bytes(PAGE) + data[start + PAGE :])
        is_true(data[:start] + b"\xff" * PAGE + data[start + PAGE :])
    assert not is_true(bytes(PAGE) + data[PAGE:])


def test_exchanged_pages_never_give_another_answer(
    whole: Path, is_true: Callable[[bytes], bool]
) -> None:
    data = whole.read_bytes()
    pages = [data[start : start + PAGE] for start in range(0, len(data), PAGE)]
    for number in range(1, len(pages) - 1):
        swapped = pages.copy()
        swapped[number], swapped[number + 1] = swapped[number + 1], swapped[number]
        is_true(b"".join(swapped))


# -- files --------------------------------------------------------------------------------------


def test_a_transaction_that_was_cut_off_is_rolled_back(
    whole: Path, truth: dict[str, Any], tmp_path: Path
) -> None:
    live, crashed = tmp_path / "live.db", tmp_path / "crashed.db"
    shutil.copy(whole, live)
    connection = sqlite3.connect(live, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")  # pages go to the file before the commit
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE events SET body = body || :more", {"more": "x" * 3 * PAGE})
    for file in tmp_path.glob("live.db*"):  # the machine stops here
        shutil.copy(file, file.with_name(file.name.replace("live", "crashed")))
    connection.close()
    assert len(list(tmp_path.glob("crashed.db*"))) > 1
    assert crashed.read_bytes() != whole.read_bytes()
    assert answers(crashed) == truth


@pytest.mark.parametrize("name", ["damaged.db-journal", "damaged.db-wal", "damaged.db-shm"])
def test_a_journal_of_something_else_does_no_harm(
    whole: Path, truth: dict[str, Any], tmp_path: Path, name: str
) -> None:
    for number, rubbish in enumerate((b"", b"x" * 5000, bytes(5000), os.urandom(5000))):
        folder = tmp_path / str(number)
        folder.mkdir()
        copy = Path(shutil.copy(whole, folder / "damaged.db"))
        (folder / name).write_bytes(rubbish)
        found = answers_or_refusal(copy)
        assert str(copy) in found if isinstance(found, str) else found == truth


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with open_store(path) as store:
        assert list_trials(db=store) == []


def text_file(folder: Path) -> Path:
    path = folder / "notes.txt"
    path.write_text("wheat: three of five\n" * 300, encoding="utf-8")
    return path


def other_database(folder: Path) -> Path:
    path = folder / "recipes.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name text)")
    connection.close()
    return path


@pytest.mark.parametrize("make", [text_file, other_database, lambda folder: folder])
def test_what_is_no_trial_database_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=path.name):
        open_store(path)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_file_that_may_not_be_written_is_read_or_refused(
    whole: Path, truth: dict[str, Any]
) -> None:
    def use(path: Path) -> None:
        with open_store(path) as store:
            trial = open_trial("wheat", db=store)
            assert json.loads(json.dumps(trial.status().to_dict())) == truth["status"]
            trial.ask()

    me = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:  # others may not enter pytest's own folders
        copy = Path(shutil.copy(whole, Path(folder) / "copy.db"))
        copy.chmod(0o444)
        copy.parent.chmod(0o555)
        os.seteuid(NOBODY if me == 0 else me)  # root may write whatever the file says
        try:
            with pytest.raises(TrialError, match=r"copy\.db"):
                use(copy)
        finally:
            os.seteuid(me)
            copy.parent.chmod(0o755)
        assert copy.read_bytes() == whole.read_bytes()


# -- the program --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["ask", "status", "verify"])
def test_the_program_refuses_in_one_line(whole: Path, tmp_path: Path, command: str) -> None:
    data = bytearray(whole.read_bytes())
    data[data.index(b'"outcome":') + len(b'"outcome":')] ^= 1
    path = tmp_path / "damaged.db"
    path.write_bytes(data)
    done = deco("trial", command, "wheat", "--db", path)
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 1
    assert done.code == (1 if command == "verify" else 2)  # 1: it was able to look, and found it
    with sqlite3.connect(path) as found, sqlite3.connect(whole) as before:  # but for the mark
        query = "SELECT seq, kind, key, hash FROM events ORDER BY seq"
        assert found.execute(query).fetchall() == before.execute(query).fetchall()
    found.close()
    before.close()
