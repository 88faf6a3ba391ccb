"""The trials of a database: create one, open one, list them all."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from functools import partial

from ..policies import DEFAULT_POLICY
from ..prices import DualSolution
from ..problem import DEFAULT_TIES, Problem, Rules, check_problem, is_name
from ..support import BLANK_LETTERS
from .database import Store, StoreLike, closed_on_error
from .errors import TrialError
from .event_log import event_log_of, refuse_taken, trial_id
from .lists import STALE_AFTER, all_trials, page_of_trials
from .requests import actor_of
from .settings import TrialLimits, TrialSettings, chosen_limits, default_limits, make_settings
from .status import Summary
from .trial import Trial

MAX_SHOWN = 60  # of what is refused


def trial_name(name: str) -> str:
    """A valid name of a trial: not like an id, an option or a path."""
    like_an_id = re.fullmatch("[0-9a-f]{16}", name) if isinstance(name, str) else None
    if (
        not is_name(name)
        or name.startswith("-")
        or name in (".", "..")
        or any(sign in name for sign in "/" + BLANK_LETTERS)
        or like_an_id
    ):
        shown = repr(name) if len(str(name)) <= MAX_SHOWN else "too long"
        raise TrialError(
            f"name: {shown}; must be 1 to 100 printable characters without a slash, "
            "must not begin with a dash, must not be '.' or '..', and must not look like an id"
        )
    return name


# -- the trials of a database: create one, open one, list them all ---------------------------------


def create_trial(
    problem: Problem,
    *,
    policy: str = DEFAULT_POLICY,
    name: str | None = None,
    db: StoreLike = None,
    seed: int | None = None,
    tol: float = 1e-4,
    ties: str = DEFAULT_TIES,
    by: str = "library",
    solution: DualSolution | None = None,
    bound: bool | None = None,
    design: Rules | None = None,
    max_open: int | None = None,
    max_cancelled: int | None = None,
) -> Trial:
    """Plan a trial and enter it into the database.

    Parameters
    ----------
    problem, policy, tol, ties, solution
        As in `make_policy`, the policy by its name.
    name : str, optional
        Unique in the database; made up by default.
    db : str, Path or Store, optional
        As in `open_store`.
    seed : int, optional
        For policies that draw; part of the record. Drawn by default.
    by : str
        Who plans the trial, for the log.
    bound : bool, optional
        Whether to solve the dual for the bound alone, where the policy is made without prices. By
        default where that takes a few seconds at most.
    design : Design or Rules, optional
        Its rules (burn-in, floor, share of control, looks and stopping) bind the trial.
    max_open, max_cancelled : int, optional
        How many allocations may be pending at the same time, and how many may be cancelled in all.
        By default half the slots, but at least 50 and 20.

    Returns
    -------
    Trial
        Entered into the database, and ready to be asked.

    Raises
    ------
    TrialError
        If a setting is not allowed; `Conflict` if the name is taken.

    Examples
    --------
    >>> from decobandit import Problem
    >>> from decobandit.trials import create_trial, open_store
    >>> with open_store("new.db") as store:
    ...     trial = create_trial(Problem.uniform(arms=2, horizon=5), name="pilot", db=store)
    ...     trial.ask().stage
    0
    """
    make = partial(
        make_settings,
        check_problem(problem),
        policy=policy,
        ties=ties,
        tol=tol,
        solution=solution,
        bound=bound,
        rules=None if design is None else design.rules,
    )
    actor, limits = actor_of(by), chosen_limits(default_limits(problem), max_open, max_cancelled)
    with closed_on_error(db) as store:
        return new_trial(make, name=name, store=store, seed=seed, by=actor, limits=limits)


def new_trial(
    make: Callable[..., TrialSettings],
    *,
    name: str | None,
    store: Store,
    seed: int | None,
    by: str,
    limits: TrialLimits,
) -> Trial:
    """A trial whose settings are made by `make(seed=...)`, which may take long."""
    chosen, title = trial_seed(seed), free_name(name, store)  # before the long work
    return enter_trial(make(seed=chosen), name=title, store=store, by=by, limits=limits)


def trial_seed(seed: int | None) -> int:
    """The seed of a new trial, drawn where none is given."""
    if seed is not None and seed < 0:
        raise TrialError(f"seed: {seed} is not allowed; must be zero or more")
    return secrets.randbits(32) if seed is None else seed


def free_name(name: str | None, store: Store) -> str:
    """The name of a new trial, made up where none is given; `Conflict` if it is taken."""
    if name is None:
        return f"trial-{secrets.token_hex(3)}"
    title = trial_name(name)
    with store.read() as connection:
        refuse_taken(connection, title)
    return title


def enter_trial(
    settings: TrialSettings, *, name: str, store: Store, by: str, limits: TrialLimits
) -> Trial:
    """A new trial with settings that were made for it."""
    event_log, actor = event_log_of(store), actor_of(by)
    ledger = store.write(
        lambda link: event_log.create(link, name, settings, by=actor, limits=limits)
    )
    return Trial(store, ledger)


def open_trial(trial: str, *, db: StoreLike = None) -> Trial:
    """A trial that exists.

    Parameters
    ----------
    trial : str
        Its id or its name.
    db : str, Path or Store, optional
        As in `open_store`.

    Returns
    -------
    Trial

    Raises
    ------
    NotFound
        If there is no such trial; `Damaged` if its record was changed.

    Examples
    --------
    >>> from decobandit.trials import open_trial
    >>> open_trial("pilot", db=trial.store).id == trial.id
    True
    """
    with closed_on_error(db) as store:
        with store.read() as connection:
            found = trial_id(connection, trial)
        return Trial(store, event_log_of(store).read(found))


def list_trials(
    *,
    db: StoreLike = None,
    archived: bool = False,
    limit: int | None = None,
    after: str | None = None,
    stale_after: float = STALE_AFTER,
) -> list[Summary]:
    """Trials of a database, the oldest first.

    Parameters
    ----------
    db : str, Path or Store, optional
        As in `open_store`.
    archived : bool
        Archived ones too.
    limit : int, optional
        How many at most, up to 1000; all of them by default.
    after : str, optional
        Id or name of a trial: the list begins with the next one.
    stale_after : float
        Hours after which a pending allocation is stale.

    Returns
    -------
    list of Summary
        One that is known to be damaged is listed as such, and does not hide the others. Events
        before the last one are not read: `Trial.verify` checks them.

    Raises
    ------
    StoreError
        If the database cannot be used; `TrialError` for a limit or an `after` that is not allowed.

    Examples
    --------
    >>> from decobandit.trials import list_trials
    >>> [(each.name, each.told) for each in list_trials(db=trial.store)]
    [('pilot', 0)]
    """
    with closed_on_error(db) as store:
        listed = all_trials if limit is None else partial(page_of_trials, limit=limit)
        found = listed(store, after=after, archived=archived, stale_after=stale_after)
        if store is not db:
            store.close()
        return list(found.items)
