"""What masking cannot hide: how fast somebody who sees only which arm is next learns the counts.

    python benchmarks/masking.py

The onlooker knows the protocol (arms, priors, horizon, policy, tie rule) and sees every allocation,
by name or by code, but no outcome. They keep every set of counts that agrees with what they saw,
with its probability under the priors: each outcome that they do not see splits it in two, and each
arm that is shown next removes those with which the policy would have chosen another one. Reported,
after a share of the outcomes:

    counts known    trials in which one set of counts is left: they know everything
    best guess      trials in which the most probable set is the true one
    leader known    trials in which the arm with the largest posterior mean at the true counts is
                    the one at their most probable set
    most pulled     trials in which that arm is the one allocated most often: what somebody sees
                    who counts, and knows nothing of the policy

Where arms have the same prior, codes change none of these numbers: they are about codes as well as
about names. The second table is about names: trials in which an onlooker who sees codes only can
name the arm of every code.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from decobandit import Arm, BetaBernoulli, Problem, State, make_policy

SHARES = (0.1, 0.14, 0.25, 0.5, 1.0)
Counts = tuple[tuple[int, int], ...]  # good and bad of every arm
Chooser = Callable[[Counts], int]


def chooser(problem: Problem, policy: str) -> Chooser:
    """The arm that a policy chooses at given counts; each is computed once."""
    made, known = make_policy(problem, policy), {}

    def choose(counts: Counts) -> int:
        if counts not in known:
            state = State.of_counts([g for g, _ in counts], [b for _, b in counts])
            known[counts] = made.choose(state)[0]
        return int(known[counts])

    return choose


def after(counts: Counts, arm: int, good: bool) -> Counts:
    """The counts with one more outcome."""
    g, b = counts[arm]
    return (*counts[:arm], (g + good, b + (not good)), *counts[arm + 1 :])


def split(beliefs: dict[Counts, float], arm: int, problem: Problem) -> dict[Counts, float]:
    """What may be after an outcome of an arm that was not seen."""
    prior, later = problem.arms[arm].prior, {}
    for counts, weight in beliefs.items():
        good, bad = counts[arm]
        chance = (prior.good + good) / (prior.good + prior.bad + good + bad)
        for outcome, share in ((True, chance), (False, 1.0 - chance)):
            found = after(counts, arm, outcome)
            later[found] = later.get(found, 0.0) + weight * share
    return later


def kept(beliefs: dict[Counts, float], shown: int, choose: Chooser) -> dict[Counts, float]:
    """What is left when the next arm is seen."""
    left = {counts: weight for counts, weight in beliefs.items() if choose(counts) == shown}
    total = sum(left.values())
    return {counts: weight / total for counts, weight in left.items()}


def leader(counts: Counts, problem: Problem) -> int:
    """The arm with the largest posterior mean, the first of several."""
    means = [
        (arm.beta.good + good) / (arm.beta.good + arm.beta.bad + good + bad)
        for arm, (good, bad) in zip(problem.arms, counts, strict=True)
    ]
    return int(np.argmax(means))


@dataclass
class Seen:
    """What an onlooker knows after some outcomes of one trial."""

    certain: bool
    guessed: bool
    leading: bool
    most_pulled: bool


def episode(problem: Problem, choose: Chooser, rng: np.random.Generator) -> Iterator[Seen]:
    """One trial, watched by somebody who sees the names of the arms."""
    truth = [rng.beta(arm.beta.good, arm.beta.bad) for arm in problem.arms]
    counts: Counts = ((0, 0),) * problem.n_arms
    beliefs = {counts: 1.0}
    for stage in range(problem.horizon):
        arm = choose(counts)
        counts = after(counts, arm, bool(rng.random() < truth[arm]))
        beliefs = split(beliefs, arm, problem)
        if stage + 1 < problem.horizon:
            beliefs = kept(beliefs, choose(counts), choose)
        best, real = max(beliefs, key=beliefs.__getitem__), leader(counts, problem)
        yield Seen(
            len(beliefs) == 1,
            best == counts,
            leader(best, problem) == real,
            int(np.argmax([sum(c) for c in counts])) == real,
        )


def names_known(problem: Problem, choose: Chooser, rng: np.random.Generator) -> list[bool]:
    """Whether somebody who sees codes can name all arms, after each outcome."""
    n = problem.n_arms
    truth = [rng.beta(arm.beta.good, arm.beta.bad) for arm in problem.arms]
    counts: Counts = ((0, 0),) * n
    # under every order of the names: the counts that agree, with weights that are not normalised
    orders = {order: {counts: 1.0} for order in permutations(range(n))}
    right = tuple(range(n))
    orders = {o: b for o, b in orders.items() if choose(counts) == o[choose(counts)]}
    found = []
    for stage in range(problem.horizon):
        arm = choose(counts)
        counts = after(counts, arm, bool(rng.random() < truth[arm]))
        last = stage + 1 == problem.horizon
        for order in list(orders):
            later = split(orders[order], order[arm], problem)
            if not last:
                shown = order[choose(counts)]
                later = {c: w for c, w in later.items() if choose(c) == shown}
            orders[order] = later
            if not later:
                del orders[order]
        weights = {order: sum(left.values()) for order, left in orders.items()}
        best = max(weights, key=weights.__getitem__)
        ties = sum(np.isclose(weight, weights[best]) for weight in weights.values())
        found.append(best == right and ties == 1)
    return found


def marks(horizon: int) -> list[int]:
    """How many outcomes the shares are."""
    return [max(1, round(share * horizon)) for share in SHARES]


def report(problem: Problem, policy: str, trials: int, seed: int) -> list[tuple[float, ...]]:
    """Per share of the outcomes: the four figures over all trials."""
    choose, rng = chooser(problem, policy), np.random.default_rng(seed)
    seen = [list(episode(problem, choose, rng)) for _ in range(trials)]
    rows = []
    for outcomes in marks(problem.horizon):
        now = [trial[outcomes - 1] for trial in seen]
        columns = zip(*((s.certain, s.guessed, s.leading, s.most_pulled) for s in now), strict=True)
        rows.append((outcomes, *(float(np.mean(column)) for column in columns)))
    return rows


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--horizon", type=int, default=50)
    parser.add_argument("--policy", default="deco-calibrated")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    alike = Problem.uniform(arms=3, horizon=given.horizon)
    print(f"3 arms alike, {given.horizon} outcomes, {given.policy}, {given.trials} trials")
    print("| outcomes | counts known | best guess | leader known | most pulled |")
    print("|---|---|---|---|---|")
    for outcomes, *shares in report(alike, given.policy, given.trials, given.seed):
        print(f"| {outcomes:.0f} | " + " | ".join(f"{share:.0%}" for share in shares) + " |")
    arms = (Arm(name="standard", prior=BetaBernoulli(good=6, bad=4)), Arm(name="new"))
    unlike = Problem(arms=arms, horizon=given.horizon)
    choose, rng = chooser(unlike, given.policy), np.random.default_rng(given.seed)
    named = np.mean([names_known(unlike, choose, rng) for _ in range(given.trials)], axis=0)
    print(f"\nstandard Beta(6, 4) and new Beta(1, 1), {given.horizon} outcomes, codes only")
    print("| outcomes | arms named from their codes |")
    print("|---|---|")
    for outcomes in marks(given.horizon):
        print(f"| {outcomes} | {named[outcomes - 1]:.0%} |")


if __name__ == "__main__":
    main()
