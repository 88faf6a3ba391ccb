"""Writes the trials of a release into tests/data, which the tests of all later releases open.

    PYTHONPATH=tests python -m helpers.release_data

Between them the trials have every event of the log: rules and a trial that they stop, batches told
in parts, tallies of other outcomes, corrections, cancellations, limits, a slot unmasked, a trial
closed, opened again and archived, and tokens.
"""

import sys
from contextlib import suppress
from pathlib import Path

import decobandit
from decobandit import Arm, Categorical, Gamma, Normal, Payoff, Problem
from decobandit.problem import Looks, Rules, Stop
from decobandit.server.tokens import new_token, revoke_token
from decobandit.trials import Conflict, Store, Trial, create_trial, open_store

DATA = Path(__file__).parents[1] / "data"


def ward(store: Store) -> Trial:
    """Single patients, blinded, with a control; stopped by a look."""
    rules = Rules(
        control="arm-1",
        burn_in=2,
        control_share=0.3,
        looks=Looks(first=10, every=5),
        stop=Stop(superiority=0.97),
    )
    problem = Problem.uniform(arms=3, horizon=40)
    trial = create_trial(problem, policy="thompson", name="ward", db=store, seed=1, design=rules)
    first = trial.ask(subject="p-001", note="left clinic", key="ask 0", by="ann")
    trial.cancel(first.id, reason="withdrew consent", by="ann")
    told = trial.ask(subject="p-002", by="ann")
    trial.tell(told.id, 1, by="ben")
    with suppress(Conflict):  # the log keeps what was refused
        trial.tell(told.id, 0, key="twice", by="ben")
    trial.correct(told.id, 0, reason="read from the wrong line", by="ben")
    trial.unmask(told.id, reason="adverse event", by="ann")
    trial.set_limits(max_open=5, reason="one nurse", by="ann")
    while trial.status().stopped is None and trial.status().remaining:
        slot = trial.ask(by="ann")
        trial.tell(slot.id, int(slot.arm != "arm-1"), by="ben")
    return trial


def stream(store: Store) -> Trial:
    """Visitors by the hundred, outcomes in parts, the rest of a batch given up."""
    problem = Problem.uniform(arms=4, horizon=5, pulls_per_stage=100, repeat=True, unit=10)
    trial = create_trial(problem, policy="deco-repriced", name="stream", db=store, seed=2)
    for stage in range(3):
        batch = trial.ask_batch(note=f"hour {stage + 1}", by="ann")
        given = {one.arm: one.pulls for one in batch.arms if one.pulls}
        trial.tell_batch(batch.id, {arm: (n // 4, n // 2) for arm, n in given.items()}, by="web")
        if stage == 0:
            trial.tell_batch(batch.id, {a: (n // 5, n - n // 2) for a, n in given.items()})
            arm, pulls = next(iter(given.items()))
            trial.correct_batch(batch.id, {arm: (pulls // 3, pulls)}, reason="robots", by="ann")
        if stage == 1:
            trial.cancel_batch(batch.id, reason="never came back", by="ann")
    return trial


def grades(store: Store) -> Trial:
    """Classes in batches, told as tallies; closed, opened again and archived."""
    prior, reward = Categorical([1, 1, 1]), Payoff(values=[0, 1, 3])
    shape = {"horizon": 4, "pulls_per_stage": 6, "repeat": True}
    problem = Problem.uniform(arms=3, prior=prior, reward=reward, **shape)
    trial = create_trial(problem, policy="deco", name="grades", db=store, seed=3)
    batch = trial.ask_batch(by="ann")
    seen = {one.arm: f"1+0+{one.pulls - 1}" for one in batch.arms if one.pulls}
    trial.tell_batch(batch.id, seen, by="ann")
    trial.close(reason="holidays", by="ann")
    trial.reopen(reason="back again", by="ann")
    trial.ask_batch(by="ann")
    trial.archive(reason="money spent", by="ann")
    return trial


def lab(store: Store) -> Trial:
    """Measurements and counts side by side; one outcome is pending."""
    arms = [
        Arm(name="titre", prior=Normal(mean=2.0, sd=1.0), noise_sd=0.5),
        Arm(name="cells", prior=Gamma(shape=4, rate=2)),
    ]
    trial = create_trial(Problem(horizon=12, arms=arms), name="lab", db=store, seed=4)
    for number in range(6):
        slot = trial.ask(subject=f"s{number}")
        trial.tell(slot.id, 1.75 + number / 8 if slot.arm == "titre" else number)
    trial.correct(slot.id, 2.5 if slot.arm == "titre" else 3, reason="dilution")
    trial.ask(subject="s6")
    return trial


def write(folder: Path) -> None:
    """Write the database of this version into `folder`."""
    version = decobandit.__version__
    database = folder / f"trials-{version}.db"
    with open_store(database) as store:
        for make in (ward, stream, grades, lab):
            make(store)
        for name, role in (("ann", "operator"), ("ben", "viewer")):
            new_token(store, name, role, days=3650, by="helpers")
        revoke_token(store, "ben", by="helpers")
    for file in folder.glob(f"{database.name}-*"):
        file.unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
