"""`deco evaluate`, `simulate`, `gap`, `path`: what policies earn, beside an upper bound."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import bounds, evaluation, figures, simulation, support
from .. import problem as problems
from ..policies.names import DEFAULT_POLICY, PAPER_POLICY, SIMULATED_POLICIES
from . import options, output
from .output import print_stages, print_table
from .problem_options import Chosen, takes_policies

if TYPE_CHECKING:
    from ..problem.models.base import Outcome

MANY_STATES = 50_000_000
NO_BOUND = "bound: not computed, as it is slow here and no policy needs it; --bound computes it"
# columns of LaTeX tables
EVALUATED = [
    *("policy", "value", "regret", "certified_gap_percent"),
    *("variance", "best_arm_probability"),
]
SIMULATED = ["policy", *(f"{x}{e}" for x in ("value", "regret", "difference") for e in ("", "_se"))]
GAPS = ["policy", "value", "value_se", "upper_bound", "gap", "shortfall", "congestion", "unspent"]


@takes_policies(DEFAULT_POLICY)
def evaluate(
    chosen: Chosen,
    truth: options.Truth = None,
    bound: options.Bound = None,
    bound_draws: options.BoundDraws = None,
    out: options.OutTable = None,
    as_json: options.AsJson = False,
) -> None:
    """Evaluate policies exactly, over the prior or at a given truth."""
    _say_unruled(chosen.rules, as_json)
    output.refuse_segments(chosen.context.problem, out=out)
    if all(group.model.finite for group in chosen.context.problem.groups):
        states = evaluation.states_ahead(chosen.context.problem)
        slow = "; 'deco simulate' is quicker" if states > MANY_STATES else ""
        output.note(f"exact evaluation: up to {states:.2g} states for each policy{slow}")
    with support.show_progress() as report:
        comparison = bounds.compare_exactly(
            chosen.context,
            chosen.policies,
            truth=truth,
            bound=bound,
            bound_draws=bound_draws,
            progress=report,
        )
    if comparison.interrupted:
        output.say("interrupted: these are the policies that were finished")
    output.print_result(comparison, as_json, _print_evaluations)
    output.write_out(out, comparison.columns, names=EVALUATED)


def _say_unruled(rules: problems.Rules | None, as_json: bool) -> None:
    """Say first that the rules of a design are not played; beside JSON on standard error."""
    if rules is not None and rules != problems.Rules():
        line = "policies play without the rules of the design here; deco design plays under them"
        print(line, file=sys.stderr if as_json else sys.stdout)


def _print_evaluations(comparison: bounds.ExactComparison) -> None:
    bound = comparison.bound
    has_truth = comparison.results[0].truth is not None
    titles = ["policy", "value", "regret", "states", "seconds"]
    titles += ["to bound"] * (bound is not None)
    titles += ["std. deviation", "P(best arm found)"] * has_truth

    def row(result: evaluation.Evaluation) -> list[str]:
        cells = [
            result.policy,
            f"{result.value:.6f}",
            output.fixed(result.regret, 6),
            f"{result.states:,}",
            f"{result.seconds:.2f}",
        ]
        if bound is not None:
            cells.append(output.percent(bound.gap_percent(result.value)))
        if result.variance is not None:
            best = "-" if result.null else output.fixed(result.best_arm_probability, 4)
            cells += [f"{result.variance**0.5:.4f}", best]
        return cells

    print_table(
        comparison.problem.described(), titles, map(row, comparison.results), text=["policy"]
    )
    print("regret: reward of always pulling the best arms, minus that of the policy")
    if has_truth and comparison.results[0].null:
        print("P(best arm found): all arms are equal, there is no best one")
    elif has_truth:
        print("P(best arm found): a best arm has the largest posterior mean at the end")
    if bound is not None:
        print(output.said_of(bound))
    elif comparison.left_out:
        print(NO_BOUND)


# -- `deco simulate`: what policies earn, on common draws, with error bars -------------------------


@takes_policies(*SIMULATED_POLICIES)
def simulate(
    chosen: Chosen,
    draws: options.Draws = 1000,
    per_draw: options.PerDraw = 10,
    seed: options.Seed = 1,
    truth: options.Truth = None,
    truth_prior: options.TruthPrior = None,
    true_horizon: Annotated[
        int | None, typer.Option(min=1, help="Stages played, if not the horizon.")
    ] = None,
    bound: options.Bound = None,
    bound_draws: options.BoundDraws = None,
    episodes: Annotated[
        Path | None,
        options.shown(
            "FILE", "Write all pulls of all episodes (.csv, .parquet).", callback=output.check_table
        ),
    ] = None,
    out: options.OutFigure = None,
    as_json: options.AsJson = False,
) -> None:
    """Simulate policies on common random numbers."""
    _say_unruled(chosen.rules, as_json)
    output.refuse_segments(chosen.context.problem, out=out, episodes=episodes)
    if out is not None and out.suffix.lower() not in output.LATEX:
        _check_regret(chosen.context.problem)
    with support.show_progress() as report:
        comparison = bounds.compare_by_simulation(
            chosen.context,
            chosen.policies,
            draws=draws,
            per_draw=per_draw,
            rng=seed,
            truth=truth,
            truth_prior=truth_prior,
            true_horizon=true_horizon,
            bound=bound,
            bound_draws=bound_draws,
            keep_episodes=episodes is not None,
            progress=report,
        )
    if comparison.interrupted:
        output.say("interrupted: these are the policies that were finished")
    output.print_result(comparison, as_json, _print_simulation)
    if chosen.context.problem.segments:
        return
    output.save_table(episodes, partial(comparison.simulation.columns, "episodes"))
    title = f"Expected regret: {comparison.simulation.problem.described()}"
    figure = partial(figures.regret_figure, comparison.simulation)
    output.write_out(out, comparison.columns, figure, title, names=SIMULATED)


def _check_regret(problem: problems.Problem) -> None:
    """Refuse, before the work begins, a figure that could not be drawn."""
    if not problem.is_binary:
        raise typer.BadParameter("--out: regret is drawn of good and bad outcomes only")
    if any(arm.terminal is not None for arm in problem.arms):
        raise typer.BadParameter(
            "--out: regret is not defined where arms have tables of last rewards"
        )


def _print_simulation(comparison: bounds.SimulatedComparison) -> None:
    result, bound = comparison.simulation, comparison.bound
    first = result.results[0].policy
    several = len(result.results) > 1
    same = {one.policy for one in result.results[1:] if result.alike(one.policy, first)}
    titles = ["policy", "value", "regret"] + ["gain"] * several + ["to bound"] * (bound is not None)

    def row(one: simulation.PolicyResult) -> list[str]:
        cells = [one.policy, f"{one.value:.4f} ± {one.value_se:.4f}", output.fixed(one.regret, 4)]
        if several:
            gain = result.difference(one.policy, first)
            text = f"{gain.value:+.4f} ± {gain.value_se:.4f}"
            text = "same" if one.policy in same else text
            cells.append("" if one.policy == first else text)
        if bound is not None:
            cells.append(output.percent(bound.gap_percent(one.value)))
        return cells

    print_table(result.problem.described(), titles, map(row, result.results), text=["policy"])
    print(result.described())
    print("±: one standard error, the same for value and regret")
    bounded = [x.policy for x in result.results if x.estimates.best.value_se_kind == "range"]
    if bounded:
        print(
            f"   {', '.join(bounded)}: too few draws to tell; a bound by the range of the rewards"
        )
    print("regret: reward of always pulling the best arms, minus that of the policy")
    if several:
        print(f"gain: over {first}, estimated on common draws and outcomes")
    if same:
        episodes = result.settings["draws"] * result.settings["per_draw"]
        print(f"same: earned the same as {first} in all {episodes:,} episodes")
    if bound is not None:
        print(output.said_of(bound))
    elif comparison.left_out:
        print(NO_BOUND)


# -- `deco gap`: the gap between a policy and the bound, stage by stage ----------------------------

GAP_ROWS = 12  # of a table for people, from either end


@takes_policies(DEFAULT_POLICY)
def gap(
    chosen: Chosen,
    method: options.Method = None,
    draws: options.Draws = 1000,
    per_draw: options.PerDraw = 10,
    seed: options.Seed = 1,
    out: options.OutFigure = None,
    as_json: options.AsJson = False,
) -> None:
    """Split the gap to the bound into shortfall and congestion.

    With several policies, --json has a list under "results".
    """
    output.refuse_segments(chosen.context.problem, out=out)
    with support.show_progress() as report:
        gaps = bounds.compare_gaps(
            chosen.context,
            chosen.policies,
            method=method,
            draws=draws,
            per_draw=per_draw,
            rng=seed,
            progress=report,
        )
    problem = chosen.context.problem
    output.print_results(gaps, as_json, partial(_print_gap, problem=problem))
    output.write_out(
        out,
        lambda: {name: [getattr(one, name) for one in gaps] for name in GAPS},
        partial(figures.gap_figure, gaps),
        f"Gap by stage: {problem.described()}",
    )


def _print_gap(result: bounds.Gap, problem: problems.Problem) -> None:
    exact = result.method == "exact"
    error = "" if exact else f" ± {result.value_se:.6f}"
    part = f" ({100 * result.gap / abs(result.upper_bound):.2f}%)" if result.upper_bound else ""
    print(f"no policy can earn more than {result.upper_bound:.6f} (from the prices)")
    print(f"{result.policy} earns {result.value:.6f}{error}, which is {result.gap:.6f} less{part}:")
    print(f"  shortfall  {result.shortfall:.6f}   pulled arms that were not worth the price")
    print(f"  congestion {result.congestion:.6f}   arms worth the price that were not pulled")
    names = ["shortfall", "congestion"]
    if result.unspent is not None:
        names.append("unspent")
        print(
            f"  unspent    {result.unspent:.6f}   unused pulls, money, resources, at their prices"
        )
    titles = ["stage", *names, "so far"]
    running = result.running_loss

    def row(t: int) -> list[str]:
        errors = [] if exact else result.terms_se[t].tolist()
        numbers = [*result.terms[t].tolist(), running[t], *errors]
        return [str(t), *(f"{number:.6f}" for number in numbers)]

    print_stages(
        f"{problem.described()}: {result.policy}, {result.method}",
        titles if exact else [*titles, *(f"± {name}" for name in names)],
        row,
        stages=len(result.terms),
        most=GAP_ROWS,
        dots=True,
    )


# -- `deco path`: one episode, stage by stage, with what every decision cost -----------------------

EPISODE_ROWS = 20  # of a table for people, from either end


@takes_policies(PAPER_POLICY, several=False)
def path(
    chosen: Chosen,
    seed: options.Seed = 1,
    truth: options.Truth = None,
    expected: Annotated[
        bool, typer.Option("--expected", help="Compare with the expected loss.")
    ] = False,
    out: options.OutDrawing = None,
    as_json: options.AsJson = False,
) -> None:
    """Play one episode: indices, prices and loss by stage."""
    with support.show_progress() as report:
        episode = bounds.follow_by_name(
            chosen.context, chosen.policy, truth=truth, rng=seed, expected=expected, progress=report
        )
    line = None if episode.expected is None else episode.expected.running_loss
    drawn = (episode.episode, line)
    output.draw(out, partial(figures.episode_figure, *drawn), partial(figures.episode_page, *drawn))
    output.print_result(episode, as_json, _print_path)


def _print_path(comparison: bounds.ComparedEpisode) -> None:
    episode = comparison.episode
    seed = "" if episode.seed is None else f", seed {episode.seed}"
    titles = ["stage", "pulled", "outcome", "index", "price", "short", "crowd", "loss"]
    print_stages(
        f"{episode.problem.described()}: {episode.policy}{seed}",
        titles if comparison.expected is None else [*titles, "expected"],
        partial(_row, comparison),
        stages=episode.stages,
        most=EPISODE_ROWS,
        text=["pulled", "outcome"],
        narrow=True,  # nine columns fit into a terminal of 80
    )
    print("index, price: at the prices of DeCo, whatever the policy")
    print("short: shortfall, from arms pulled although their index is below the price")
    print("crowd: congestion, from arms worth the price that were not pulled")
    if episode.unspent is not None:
        print("loss also counts pulls not made, resources not used and, at the end, money left")
    print("loss: sum of both up to this stage; over the whole horizon its expectation is")
    print(f"the upper bound {episode.upper_bound:.6f} minus the value of the policy (Theorem 1)")


def _row(comparison: bounds.ComparedEpisode, t: int) -> list[str]:
    episode = comparison.episode
    arms, outcomes = episode.pulled[t], episode.outcomes[t]

    def named(outcome: Outcome) -> str:
        if isinstance(outcome, bool):
            return "good" if outcome else "bad"
        return f"{outcome:.4g}" if isinstance(outcome, float) else str(outcome)

    costs = [episode.prices, episode.shortfall, episode.congestion, episode.running_loss]
    if comparison.expected is not None:
        costs.append(comparison.expected.running_loss)
    return [
        str(t),
        ", ".join(episode.problem.arms[arm].name for arm in arms),
        ", ".join(map(named, outcomes)) if outcomes else "deployed" if arms else "no pull",
        ", ".join(f"{episode.index[t, arm]:.4f}" for arm in arms),
        *(f"{values[t]:.4f}" for values in costs),
    ]
