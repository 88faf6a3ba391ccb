"""A checkpoint that was kept elsewhere finds what was rewritten, shortened or removed."""

import base64
import hashlib
import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from decobandit.problem import Problem
from decobandit.server.tokens import new_token
from decobandit.trials import TrialError, create_trial, open_store
from decobandit.trials.checkpoints import Checkpoint, PrivateKey, PublicKey, make_checkpoint
from helpers.program import deco
from helpers.refusals import refused

pytest_plugins = ["helpers.databases"]

PROBLEM = Problem.uniform(arms=2, horizon=50)
KEY = PrivateKey.new("example.org/trials")


# -- another implementation, from the text of c2sp.org/signed-note and on libsodium ---------------


def opened_by_others(note: bytes, vkey: str) -> bytes:
    """The text of a note, if the key of the verifier line has signed it."""
    name, key_hash, key = vkey.split("+", 2)
    decoded = base64.b64decode(key, validate=True)
    assert (decoded[0], len(decoded)) == (1, 33)
    wanted = hashlib.sha256(name.encode() + b"\n" + decoded).digest()[:4]
    assert wanted.hex() == key_hash
    note.decode("utf-8")
    assert not any(byte < 0x20 and byte != 0x0A for byte in note)
    end = note.rindex(b"\n\n")
    text, lines = note[: end + 1], note[end + 2 :]
    assert lines.endswith(b"\n")
    for line in lines[:-1].split(b"\n"):
        dash, signer, data = line.decode().split(" ")
        assert dash == "\u2014"
        signature = base64.b64decode(data, validate=True)
        if signer == name and signature[:4] == wanted:
            VerifyKey(decoded[1:]).verify(text, signature[4:])
            return text
    raise AssertionError("the key has not signed it")


def signed_by_others(text: bytes, name: str) -> tuple[bytes, str]:
    """A note and its verifier line, made without the package."""
    key = SigningKey.generate()
    public = b"\x01" + key.verify_key.encode()
    key_hash = hashlib.sha256(name.encode() + b"\n" + public).digest()[:4]
    data = base64.b64encode(key_hash + key.sign(text).signature)
    vkey = f"{name}+{key_hash.hex()}+{base64.b64encode(public).decode()}"
    return text + b"\n" + "\u2014 ".encode() + name.encode() + b" " + data + b"\n", vkey


def test_another_program_reads_our_notes_and_keys() -> None:
    text = "one\ntwo \u00e9\n\nthree\n"
    note, vkey = KEY.sign(text), KEY.public.text
    assert opened_by_others(note.encode(), vkey) == text.encode()
    changed = note.replace("two", "too").encode()
    with pytest.raises(BadSignatureError):
        opened_by_others(changed, vkey)


def test_we_read_the_notes_and_keys_of_another_program() -> None:
    text = "a text\n\nof three lines\n"
    note, vkey = signed_by_others(text.encode(), "other")
    key = PublicKey.read(vkey + "\n")
    assert key.text == vkey
    assert key.check(note.decode()) == text
    twice = note.decode() + KEY.sign(text).rpartition("\n\n")[2]  # and a second signature
    assert key.check(twice) == KEY.public.check(twice) == text
    for bad in (
        note.decode().replace("three", "four"),
        note.decode()[:-1],
        text,
        "",
        KEY.sign(text),
        note.decode().replace("\u2014", "-"),
        note.decode().replace("a text", "a\ttext"),
    ):
        with pytest.raises(TrialError):
            key.check(bad)


def test_the_example_of_the_specification_is_read() -> None:
    """The key and the note in the documentation of golang.org/x/mod/sumdb/note."""
    vkey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    note = (
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n"
        "\n"
        "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKv"
        "qfqdngotpRZb6KE6RyyBwJnAM=\n"
    )
    assert PublicKey.read(vkey).check(note).endswith("your problem is.\n")


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "x" * 101, "a\u00a0b"])
def test_names_of_keys_are_those_of_the_format(name: str) -> None:
    with pytest.raises(TrialError):
        PrivateKey.new(name)


def test_keys_are_read_back_and_changed_ones_refused() -> None:
    again = PrivateKey.read(KEY.text + "\n")
    assert (again, again.public) == (KEY, KEY.public)
    assert "PRIVATE" not in repr(KEY)
    assert repr(KEY.seed) not in repr(KEY)
    for text in (KEY.text[:-3], KEY.text.replace("example", "exomple"), KEY.public.text, "x", ""):
        with pytest.raises(TrialError) as refused:
            PrivateKey.read(text)
        assert KEY.text.rpartition("+")[2][:20] not in str(refused.value)
    for text in (KEY.public.text.replace("example", "exomple"), KEY.text, "a+b", ""):
        with pytest.raises(TrialError):
            PublicKey.read(text)


# -- checkpoints ----------------------------------------------------------------------------------


def heads(sql: Any) -> dict[str, tuple[int, str]]:
    """The second road: from the events alone."""
    found: dict[str, tuple[int, str]] = {}
    for trial, body in sql("SELECT trial_id, body FROM events ORDER BY trial_id, seq"):
        events = found.get(trial, (0, ""))[0] + 1
        found[trial] = (events, hashlib.sha256(body.encode()).hexdigest())
    return found


def test_a_checkpoint_has_all_heads_and_names_the_one_before(db: str, sql: Any) -> None:
    with open_store(db) as store:
        trials = [create_trial(PROBLEM, name=name, db=store) for name in "abc"]
        texts = []
        for number in range(3):
            trials[number].ask()
            made = make_checkpoint(store, KEY)
            text = opened_by_others(made.note.encode(), KEY.public.text).decode()
            lines = text.splitlines()
            before = hashlib.sha256(texts[-1].encode()).hexdigest() if texts else "0" * 64
            assert lines[:2] == ["decobandit-checkpoint-1", f"number {number + 1}"]
            assert lines[3] == f"previous {before}"
            assert lines[4] == "people 0 " + "0" * 64
            named = {each.split()[1]: each.split()[2:] for each in lines[5:]}
            assert named == {
                trial: [str(events), head] for trial, (events, head) in heads(sql).items()
            }
            assert make_checkpoint(store, KEY) == made  # nothing has changed: no second one
            texts.append(text)
        other = make_checkpoint(store, PrivateKey.new("other"))  # but for another signer
        assert other.number == 4
        assert sql("SELECT count(*) FROM checkpoints") == [(4,)]


def test_a_checkpoint_is_not_made_of_a_trial_that_does_not_continue_the_last(
    db: str, sql: Any
) -> None:
    with open_store(db) as store:
        trial = create_trial(PROBLEM, name="a", db=store)
        trial.ask()
        make_checkpoint(store, KEY)
        before = sql("SELECT hash FROM events WHERE seq = 0")[0][0]
        sql("DELETE FROM events WHERE seq = 1")
        sql("UPDATE trials SET head_seq = 0, head_hash = :h", h=before)
        with refused("damaged"):
            make_checkpoint(store, KEY)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("number 1", "number 01"),
        lambda text: text.replace("checkpoint-1", "checkpoint-2"),
        lambda text: text + text.splitlines()[-1] + "\n",
        lambda text: text.replace("trial ", "people "),
        lambda text: text.replace("previous 0", "previous "),
        lambda text: "other\n",
    ],
)
def test_a_note_that_is_no_checkpoint_is_refused(
    tmp_path: Path, change: Callable[[str], str]
) -> None:
    with open_store(tmp_path / "t.db") as store:
        create_trial(PROBLEM, name="a", db=store)
        text = make_checkpoint(store, KEY).text
    assert Checkpoint.read(KEY.sign(text)).text == text
    with pytest.raises(TrialError):
        Checkpoint.read(KEY.sign(change(text)))


# -- what it finds, by the program ----------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A database with two trials and two checkpoints; the second was kept, with the public key."""
    folder = tmp_path / "kept"
    folder.mkdir()
    db = folder / "t.db"
    made = deco("keys", "new", "clinic", "--out", folder / "my.key", "--json").json
    with open_store(db) as store:
        new_token(store, "ann", "admin", by="root")
        new_token(store, "bob", "viewer", by="ann")
        first = create_trial(PROBLEM, name="first", db=store, seed=1)
        for number in range(4):
            first.tell(first.ask().id, number % 2)
        checkpoint(folder)
        second = create_trial(PROBLEM, name="second", db=store, seed=2)
        second.ask()
        checkpoint(folder, "--out", folder / "note")
        first.ask()  # and it went on
        (folder / "export.json").write_text("".join(first.export_text()), encoding="utf-8")
    assert (folder / "my.key.pub").read_text(encoding="utf-8").strip() == made["public_key"]
    (folder / "my.key").unlink()  # who checks does not have it
    return folder


def checkpoint(folder: Path, *more: Any) -> Any:
    run = deco("trial", "checkpoint", "--db", folder / "t.db", "--key", folder / "my.key", *more)
    assert run.code == 0, run.err
    return run


def verified(folder: Path, *more: Any) -> Any:
    return deco(
        "trial",
        "verify",
        *more,
        "--db",
        folder / "t.db",
        "--checkpoint",
        folder / "note",
        "--public-key",
        folder / "my.key.pub",
        "--json",
    )


def connected(folder: Path) -> Any:
    import sqlite3

    return sqlite3.connect(folder / "t.db", isolation_level=None)


def test_a_database_that_went_on_is_intact(kept: Path) -> None:
    run = verified(kept)
    assert run.code == 0, run.out
    said = json.loads(run.out)
    assert said["ok"]
    assert said["checkpoint"]["number"] == 2
    assert said["checkpoint"]["trials"] == 2
    assert verified(kept, "first").code == 0
    vkey = (kept / "my.key.pub").read_text(encoding="utf-8").strip()
    shown = deco(
        "trial",
        "verify",
        "--db",
        kept / "t.db",
        "--checkpoint",
        kept / "note",
        "--public-key",
        vkey,
    )
    assert shown.code == 0
    assert "signed by clinic: everything continues it" in shown.out
    opened_by_others((kept / "note").read_bytes(), vkey)


def rewrite(folder: Path, trial: str, seq: int) -> None:
    """Another outcome, and every hash after it computed again: `verify` alone is content."""
    db = connected(folder)
    (ident,) = db.execute("SELECT id FROM trials WHERE name = ?", (trial,)).fetchone()
    rows = db.execute("SELECT seq, body FROM events WHERE trial_id = ? ORDER BY seq", (ident,))
    previous = "0" * 64
    for number, body in rows.fetchall():
        tree = json.loads(body)
        if number == seq:
            tree["by"] = "somebody else"
        tree["previous"] = previous
        forged = json.dumps(tree, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(forged.encode()).hexdigest()
        db.execute(
            "UPDATE events SET body = ?, hash = ? WHERE trial_id = ? AND seq = ?",
            (forged, previous, ident, number),
        )
    forged = "UPDATE trials SET head_hash = ?, summary = NULL WHERE id = ?"
    db.execute(forged, (previous, ident))
    db.close()


def shorten(folder: Path, trial: str, events: int) -> None:
    db = connected(folder)
    (ident,) = db.execute("SELECT id FROM trials WHERE name = ?", (trial,)).fetchone()
    db.execute("DELETE FROM events WHERE trial_id = ? AND seq >= ?", (ident, events))
    (head,) = db.execute(
        "SELECT hash FROM events WHERE trial_id = ? AND seq = ?", (ident, events - 1)
    ).fetchone()
    db.execute(
        "UPDATE trials SET head_seq = ?, head_hash = ?, summary = NULL WHERE id = ?",
        (events - 1, head, ident),
    )
    db.close()


def remove(folder: Path, trial: str) -> None:
    db = connected(folder)
    (ident,) = db.execute("SELECT id FROM trials WHERE name = ?", (trial,)).fetchone()
    db.execute("DELETE FROM events WHERE trial_id = ?", (ident,))
    db.execute("DELETE FROM trials WHERE id = ?", (ident,))
    db.close()


def forget_checkpoints(folder: Path, _trial: str) -> None:
    db = connected(folder)
    db.execute("DELETE FROM checkpoints WHERE number = 2")
    db.close()


def other_first_checkpoint(folder: Path, _trial: str) -> None:
    db = connected(folder)
    db.execute("UPDATE checkpoints SET note = replace(note, 'made 2', 'made 3') WHERE number = 1")
    db.close()


def wipe_people(folder: Path) -> None:
    """No access log, and no tokens: as in a new database."""
    db = connected(folder)
    db.execute("DELETE FROM people")
    db.execute("DELETE FROM tokens")
    db.execute("UPDATE people_head SET seq = -1, hash = ?", ("0" * 64,))
    db.close()


def shorten_people(folder: Path) -> None:
    """The last token was never made."""
    db = connected(folder)
    db.execute("DELETE FROM people WHERE seq = 1")
    db.execute("DELETE FROM tokens WHERE name = 'bob'")
    db.execute("UPDATE people_head SET seq = 0, hash = (SELECT hash FROM people)")
    db.close()


def new_people(folder: Path) -> None:
    """Another access log with as many events, and their tokens."""
    wipe_people(folder)
    with open_store(folder / "t.db") as store:
        for name in ("ann", "bob", "eve"):
            new_token(store, name, "admin", by="root")


def change_tokens(folder: Path, statement: str) -> None:
    db = connected(folder)
    db.execute(statement)
    db.close()


def forge_summary(folder: Path) -> None:
    """A list shows another number of outcomes; the checksum fits."""
    db = connected(folder)
    for ident, kept in db.execute("SELECT id, summary FROM trials").fetchall():
        tree = json.loads(kept.partition(" ")[2])
        line = json.dumps(tree | {"told": 40}, sort_keys=True, separators=(",", ":"))
        forged = f"{hashlib.sha256(line.encode()).hexdigest()} {line}"
        db.execute("UPDATE trials SET summary = ? WHERE id = ?", (forged, ident))
    db.close()


@pytest.mark.parametrize(
    ("damage", "said", "alone"),
    [
        (wipe_people, "has 0 events, and had 2 in checkpoint", 0),
        (shorten_people, "has 1 events, and had 2 in checkpoint", 0),
        (new_people, "event 1 is not the one that checkpoint", 0),
        (lambda folder: change_tokens(folder, "DELETE FROM tokens"), "'ann': the access log", 1),
        (
            lambda folder: change_tokens(folder, "UPDATE tokens SET role = 'admin'"),
            "'bob': was changed",
            1,
        ),
        (
            lambda folder: change_tokens(folder, "UPDATE tokens SET digest = digest || 'x'"),
            "'ann': was changed",
            1,
        ),
        (
            lambda folder: change_tokens(
                folder,
                "INSERT INTO tokens SELECT 'ab', 'eve', role, 'd', "
                "created_at, revoked_at, expires_at, trials FROM tokens WHERE name = 'ann'",
            ),
            "'eve': the access log does not say",
            1,
        ),
        (forge_summary, "is not what its events say", 1),
        (lambda folder: rewrite(folder, "first", 1), "is not the one that checkpoint", 0),
        (lambda folder: rewrite(folder, "second", 0), "is not the one that checkpoint", 0),
        (lambda folder: rewrite(folder, "first", 8), "is not the one that checkpoint", 0),
        (lambda folder: shorten(folder, "first", 3), "has 3 events, and had 9", 0),
        (lambda folder: remove(folder, "first"), "and is gone", 0),
        (lambda folder: remove(folder, "second"), "and is gone", 0),
        (lambda folder: forget_checkpoints(folder, ""), "is not in the database", 0),
        (lambda folder: other_first_checkpoint(folder, ""), "checkpoint 1 in the database", 0),
    ],
)
def test_what_verify_alone_does_not_see_a_checkpoint_finds(
    kept: Path, damage: Callable[[Path], None], said: str, alone: int
) -> None:
    damage(kept)
    assert deco("trial", "verify", "--db", kept / "t.db").code == alone
    run = verified(kept)
    assert run.code == 1
    assert said in run.out
    assert not json.loads(run.out)["ok"]
    assert not json.loads(run.out)["checkpoint"]["ok"]
    shown = deco(
        "trial",
        "verify",
        "--db",
        kept / "t.db",
        "--checkpoint",
        kept / "note",
        "--public-key",
        kept / "my.key.pub",
    )
    assert shown.code == 1
    assert "everything continues it" not in shown.out
    assert shown.out.count(said) >= 1


@pytest.mark.parametrize("damage", [wipe_people, shorten_people, new_people])
def test_people_are_compared_with_the_trial_and_before_the_next_checkpoint(
    kept: Path, damage: Callable[[Path], None]
) -> None:
    damage(kept)
    run = verified(kept, "first")
    assert run.code == 1
    assert "access log" in run.out
    with open_store(kept / "t.db") as store, refused("damaged"):
        make_checkpoint(store, KEY)


def test_an_event_after_the_checkpoint_that_was_changed_is_not_said_to_continue_it(
    kept: Path,
) -> None:
    db = connected(kept)
    db.execute("UPDATE events SET body = replace(body, 'asked', 'askde') WHERE seq = 9")
    db.close()
    for more in ((), ("first",), ("--export", kept / "export.json", "--head", "ab")):
        place = () if "--export" in more else ("--db", kept / "t.db")
        run = deco(
            "trial",
            "verify",
            *more,
            *place,
            "--checkpoint",
            kept / "note",
            "--public-key",
            kept / "my.key.pub",
        )
        assert run.code == 1
        assert "signed by clinic: NOT INTACT" in run.out


def test_a_trial_that_does_not_continue_a_checkpoint_is_stopped(kept: Path) -> None:
    rewrite(kept, "first", 1)
    assert verified(kept, "first").code == 1
    assert deco("trial", "ask", "first", "--db", kept / "t.db").code == 2
    assert deco("trial", "ask", "second", "--db", kept / "t.db").code == 0


def test_events_after_the_checkpoint_are_not_its_business(kept: Path) -> None:
    rewrite(kept, "first", 9)
    assert verified(kept).code == 0


def test_an_older_copy_of_the_database_is_found(kept: Path) -> None:
    copy = shutil.copy(kept / "t.db", kept / "copy.db")
    with open_store(kept / "t.db") as store:
        make_checkpoint(store, KEY)
        create_trial(PROBLEM, name="third", db=store)
        (kept / "note").write_text(make_checkpoint(store, KEY).note, encoding="utf-8")
        (kept / "my.key.pub").write_text(KEY.public.text, encoding="utf-8")
    assert verified(kept).code == 0
    shutil.copy(copy, kept / "t.db")
    run = verified(kept)
    assert run.code == 1
    assert "and is gone" in run.out
    assert "is not in the database" in run.out


def test_an_export_is_compared_with_a_checkpoint(kept: Path) -> None:
    file = kept / "export.json"
    options = ("--checkpoint", kept / "note", "--public-key", kept / "my.key.pub")
    (kept / "t.db").rename(kept / "elsewhere.db")
    assert deco("trial", "verify", "--export", file, *options).code == 0
    (kept / "elsewhere.db").rename(kept / "t.db")
    rewrite(kept, "first", 1)
    deco("trial", "export", "first", "--db", kept / "t.db", "--out", file)
    assert deco("trial", "verify", "--export", file).code == 0  # a good forgery
    run = deco("trial", "verify", "--export", file, *options)
    assert run.code == 1
    assert "is not the one that checkpoint 2 names" in run.out


def test_a_changed_note_or_another_key_is_not_believed(kept: Path) -> None:
    note = (kept / "note").read_text(encoding="utf-8")
    for changed, code in (
        (note.replace("made 2", "made 3"), 1),
        (note.replace(" 9 ", " 8 "), 1),
        (note[:-30] + "A" * 28 + "=\n", 1),  # another signature
        (note[:-30] + "?" * 28 + "=\n", 2),
        ("", 2),
    ):
        (kept / "note").write_text(changed, encoding="utf-8")
        run = verified(kept)
        assert run.code == code, (changed, run.out, run.err)
        assert run.err.count("\n") == (code == 2)
    (kept / "note").write_text(note, encoding="utf-8")
    (kept / "my.key.pub").write_text(KEY.public.text, encoding="utf-8")
    run = verified(kept)
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert "no signature of this key" in run.err


# -- keys and files -------------------------------------------------------------------------------


def test_a_private_key_is_its_owners_alone_and_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "my.key"
    made = deco("keys", "new", "--out", out)
    assert made.code == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert made.out.strip() == PrivateKey.read(out.read_text(encoding="utf-8")).public.text
    before = out.read_bytes()
    again = deco("keys", "new", "--out", out)
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trial", "checkpoint", "--db", "DB", "--key", "none.key"], "deco keys new"),
        (["trial", "checkpoint", "--db", "DB", "--key", "DB"], "private key"),
        (["trial", "verify", "--db", "DB", "--checkpoint", "DB"], "--public-key"),
        (["trial", "verify", "--db", "DB", "--checkpoint", "DB", "--public-key", "x"], "NAME+HASH"),
        (["keys", "new", "a b", "--out", "x.key"], "without blanks"),
        (["serve", "--db", "DB", "--key", "none.key"], "deco keys new"),
    ],
)
def test_bad_requests_are_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    open_store(tmp_path / "t.db").close()
    run = deco(*[str(tmp_path / "t.db") if word == "DB" else word for word in words])
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert said in run.err
