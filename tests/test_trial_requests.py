"""What comes of a refused request that is repeated, and of reading while others write."""

import threading
from pathlib import Path

import pytest

from decobandit import Problem
from decobandit.trials import Conflict, create_trial, list_trials, open_store, verify_export


def test_a_refusal_with_a_key_is_repeated_without_a_second_event(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=6), db=store)
        slot = trial.ask()
        trial.tell(slot.id, 1)
        said = []
        for _ in range(3):
            with pytest.raises(Conflict) as refused:
                trial.tell(slot.id, 0, key="r")
            said.append(str(refused.value))
        assert len(set(said)) == 1
        assert [event.kind for event in trial.events()].count("refused") == 1
        with pytest.raises(Conflict, match="another request"):
            trial.ask(key="r")
        assert trial.status().allocated == 1


def test_an_export_is_of_one_moment(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        trial = create_trial(Problem.uniform(arms=2, horizon=500), db=store)
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                trial.tell(trial.ask().id, 1)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            exports = [trial.export() for _ in range(10)]
        finally:
            stop.set()
            writer.join()
    assert len({tree["head"] for tree in exports}) > 1  # there was something to get wrong
    for tree in exports:
        assert tree["head"] == tree["status"]["head"]
        assert sum(slot["state"] == "told" for slot in tree["allocations"]) == (
            sum(event["kind"] == "told" for event in tree["events"])
        )
        assert verify_export(tree).ok


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be listed here")
def test_a_list_leaves_no_connection_behind(tmp_path: Path) -> None:
    with open_store(tmp_path / "t.db") as store:
        create_trial(Problem.uniform(arms=2, horizon=6), db=store, name="only")
    assert [one.name for one in list_trials(db=tmp_path / "t.db")] == ["only"]
    with pytest.raises(Conflict):
        create_trial(Problem.uniform(arms=2, horizon=6), db=tmp_path / "t.db", name="only")
    open_files = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [fd for fd in open_files if str(fd.resolve()).startswith(str(tmp_path / "t.db"))]
