"""Studies: what a file may say, cells that are kept, refused, resumed, shown."""

import csv
import json
import os
import re
import shutil
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from decobandit.bounds import bound
from decobandit.policies import GreedyPolicy
from decobandit.prices import dual, solve
from decobandit.problem import BetaBernoulli, Problem
from decobandit.simulation import simulate
from decobandit.studies import (
    Cell,
    Row,
    collect_folder,
    collect_study,
    here,
    load_study,
    records,
    rows_of,
    run_study,
    save_csv,
    save_parquet,
)
from decobandit.studies import running as studies
from decobandit.support import Progress, write_whole
from helpers.policies import Bench
from helpers.program import PATIENCE, deco, deco_at_terminal
from helpers.refusals import refused
from helpers.study_runs import folder_of, half_done, write
from helpers.values import evaluated

SMALL = """
policies = ["deco", "greedy"]
draws = 150
per_draw = 2
seeds = [1, 7]
[[problems]]
arms = 3
horizon = 6
"""
TRIAL = """
horizon = 5
[[arms]]
name = "control"
prior = { good = 2.5, bad = 1 }
[[arms]]
name = "dose"
count = 2
"""
# one cell takes long enough to be interrupted between the first and the last
LONG = """
policies = ["greedy", "ucb1", "deco", "fh-gittins"]
draws = 1500
per_draw = 10
seeds = [1, 2, 3, 4]
[[problems]]
arms = 4
horizon = 30
"""
CELLS = {
    f"3-arms-horizon-6--{policy}--seed-{seed}.json"
    for policy in ("deco", "greedy")
    for seed in (1, 7)
}


def run_here(file: Path, folder: Path, **options: Any) -> studies.RunSummary:
    folder.mkdir(exist_ok=True)
    return run_study(load_study(file), folder, **options)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "small"
    assert run_here(write(folder.with_suffix(".toml"), SMALL), folder).computed == 4
    return folder


@pytest.fixture
def small(made_once: Path, tmp_path: Path) -> Path:
    """A small study that has been run."""
    shutil.copytree(made_once, tmp_path / "small")
    return write(tmp_path / "small.toml", SMALL)


def only_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


# -- study files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "place", "rule"),
    [
        ('"greedy"', '"greedily"', "policies[1]", "must be one of auto, deco, "),
        ('"greedy"', '"deco"', "policies[1]", "must not be there twice"),
        ('["deco", "greedy"]', "[]", "policies", "must not be empty"),
        ('["deco", "greedy"]', '"deco"', "policies", "must be a list"),
        ("draws = 150", "draws = 1", "draws", "must be 2 or more"),
        ("draws = 150", "draws = 1.5", "draws", "must be a whole number"),
        ("draws = 150", "drwas = 150", "drwas", "unknown key; allowed: name, policies, draws"),
        ("per_draw = 2", "per_draw = 1000000", "draws x per_draw", "must be at most"),
        ("seeds = [1, 7]", "seeds = [1, -7]", "seeds[1]", "must be a whole number from 0"),
        ("seeds = [1, 7]", "seeds = [7, 7]", "seeds[1]", "must not be there twice"),
        ("seeds = [1, 7]", 'ties = "any"', "ties", "must be one of least-pulled"),
        ("arms = 3", "arms = 0", "problems[0].arms", "must be a whole number from 1"),
        ("arms = 3\n", "", "problems[0]", "must have a file, or both arms and horizon"),
        ("arms = 3", "arm = 3", "problems[0].arm", "unknown key; allowed: name, file, arms"),
        ("arms = 3", 'file = "x.toml"', "problems[0].file", "must stand without arms"),
        ("arms = 3", 'arms = 3\nname = "a/b"', "problems[0].name", "it names files"),
        ("arms = 3", "arms = 3\npulls_per_stage = 4", "problems[0]: pulls_per_stage", "at most"),
        ("arms = 3", "arms = 3\nprior = { good = 0, bad = 1 }", "problems[0].prior.good", "posit"),
        ("arms = 3", "arms = 3\ntruth_prior = { god = 1 }", "truth_prior.god", "good, bad"),
        ("[[problems]]", '[[problems]]\nfile = "no.toml"\n[[problems]]', "no.toml", "no such file"),
        ("arms = 3", "arms = 3\nhorizon = 6\n[[problems]]\narms = 3", "problems[1]", "taken"),
        ("[[problems]]", "[[problems]", "not valid TOML", "line 6"),
    ],
)
def test_bad_study_is_refused_with_place_and_rule(
    tmp_path: Path, old: str, new: str, place: str, rule: str
) -> None:
    assert old in SMALL
    file = write(tmp_path / "bad.toml", SMALL.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(place)) as refusal:
        load_study(file)
    message = only_line(str(refusal.value))
    assert message.startswith(str(tmp_path))
    assert rule in message


def test_names_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    more = '[[problems]]\nname = "3-ARMS-horizon-6"\narms = 2\nhorizon = 2\n'
    with refused("invalid_study"):
        load_study(write(tmp_path / "case.toml", SMALL + more))


def test_other_true_horizon_of_a_deployment_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "trial.toml", TRIAL + "[terminal]\ndeploy = 3\n")
    more = '[[problems]]\nfile = "trial.toml"\ntrue_horizon = 9\n'
    with refused("invalid_study"):
        load_study(write(tmp_path / "study.toml", SMALL + more))


def test_bad_study_ends_the_program_with_code_2_and_one_line(tmp_path: Path) -> None:
    refused = deco("study", "run", write(tmp_path / "bad.toml", SMALL.replace("3", '"3"')))
    assert (refused.code, refused.out) == (2, "")
    assert "problems[0].arms" in only_line(refused.err)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def test_problem_files_are_relative_to_the_study(tmp_path: Path) -> None:
    (tmp_path / "problems").mkdir()
    write(tmp_path / "problems" / "trial.toml", TRIAL)
    more = '[[problems]]\nfile = "problems/trial.toml"\n'
    study = load_study(write(tmp_path / "study.toml", SMALL + more))
    assert study.name == "study"
    assert [cell.name for cell in study.cells[4:6]] == [
        "trial--deco--seed-1",
        "trial--deco--seed-7",
    ]
    assert study.cells[4].problem.arms[0].prior == BetaBernoulli(good=2.5, bad=1.0)


def test_the_study_of_the_manual_can_be_read(tmp_path: Path) -> None:
    page = Path(__file__).parents[2].joinpath("docs", "studies.md").read_text(encoding="utf-8")
    example, *_ = re.findall(r"^```toml\n(.*?)^```", page, re.M | re.S)
    write(tmp_path / "trial.toml", TRIAL)
    study = load_study(write(tmp_path / "few.toml", example))
    assert (study.name, len(study.cells)) == ("few-arms", 2 * 3 * 2)
    assert study.cells[-1].name == "trial-misjudged--greedy--seed-2"
    assert study.cells[-1].truth_prior == BetaBernoulli(good=2.0, bad=5.0)


# -- figures ------------------------------------------------------------------------------------


def test_cells_have_the_figures_of_a_simulation(small: Path) -> None:
    problem = Problem.uniform(arms=3, horizon=6)
    bench = Bench(problem)
    together = simulate(
        problem,
        [bench.policy("deco"), bench.policy("greedy")],
        draws=150,
        per_draw=2,
        rng=7,
        solution=bench.solution,
    )
    cells = {row.policy: row for row in rows(small.with_suffix("")) if row.seed == 7}
    for result in together.results:
        cell = cells[result.policy]
        assert (cell.value, cell.value_se) == (result.value, result.value_se)
        assert cell.regret == result.regret
        assert cell.upper_bound == bound(problem)[0].value < together.upper_bound


def test_values_are_within_errors_of_the_exact_one(small: Path) -> None:
    exact = evaluated(GreedyPolicy(Problem.uniform(arms=3, horizon=6))).value
    for row in rows(small.with_suffix("")):
        if row.policy == "greedy":
            assert abs(row.value - exact) < 4 * row.value_se < 0.4


def test_wrong_beliefs_reach_the_simulation(tmp_path: Path) -> None:
    robust = "truth_prior = { good = 1, bad = 4 }\ntrue_horizon = 9\n"
    file = write(tmp_path / "robust.toml", SMALL.replace('"deco", ', "") + robust)
    run_here(file, tmp_path / "robust")
    problem = Problem.uniform(arms=3, horizon=6)
    expected = simulate(
        problem,
        [GreedyPolicy(problem)],
        draws=150,
        per_draw=2,
        rng=1,
        truth_prior=BetaBernoulli(good=1, bad=4),
        true_horizon=9,
    )
    (row,) = (row for row in rows(tmp_path / "robust") if row.seed == 1)
    assert (row.value, row.regret) == (expected.results[0].value, expected.results[0].regret)
    assert (row.truth_prior_bad, row.true_horizon, row.upper_bound) == (4.0, 9, None)


def rows(folder: Path) -> list[Row]:
    return rows_of(collect_folder(folder).finished)


@pytest.mark.parametrize("policy", ["deco", "deco-calibrated", "fh-gittins"])
def test_figures_do_not_depend_on_threads(policy: str) -> None:
    problem = Problem.uniform(arms=4, horizon=5, pulls_per_stage=2)
    cell = Cell(
        problem_name="four",
        problem=problem,
        policy=policy,
        seed=3,
        draws=400,
        per_draw=2,
        ties="least-pulled",
        tol=1e-4,
        truth_prior=None,
        true_horizon=None,
    )
    figures = [json.dumps(asdict(studies.compute(cell, workers=n))) for n in (1, 2, 3)]
    assert figures[0] == figures[1] == figures[2]
    assert json.loads(figures[0])["upper_bound"] == bound(problem)[0].value


def test_bytes_do_not_depend_on_threads_nor_on_those_of_linear_algebra(tmp_path: Path) -> None:
    # numpy's linear algebra divides sums of more than 10,000 terms among its threads
    text = SMALL.replace("draws = 150", "draws = 11000").replace("per_draw = 2", "per_draw = 1")
    text = text.replace("arms = 3", "arms = 5").replace("horizon = 6", "horizon = 12")
    file = write(tmp_path / "large.toml", text)
    for threads in (1, 2):
        ran = deco(
            "study",
            "run",
            file,
            "--out",
            tmp_path / f"{threads}",
            "--workers",
            threads,
            more={"OPENBLAS_NUM_THREADS": f"{threads}"},
        )
        assert (ran.code, ran.err) == (0, "")
    assert folder_of(tmp_path / "1") == folder_of(tmp_path / "2")


# -- kept, resumed, refused ---------------------------------------------------------------------


def test_only_the_missing_cell_is_made_again(small: Path) -> None:
    folder = small.with_suffix("")
    before, gone = folder_of(folder), "3-arms-horizon-6--greedy--seed-1.json"
    assert before.keys() == CELLS | {"study.json"}
    times = {name: (folder / name).stat().st_mtime_ns for name in CELLS - {gone}}
    (folder / gone).unlink()
    answer = deco("study", "run", small, "--json").json
    assert (answer["cells"], answer["made"], answer["skipped"]) == (4, 1, 3)
    assert (answer["failed"], answer["interrupted"]) == ({}, False)
    assert folder_of(folder) == before
    assert times == {name: (folder / name).stat().st_mtime_ns for name in times}


def test_a_study_may_grow(small: Path) -> None:
    before = folder_of(small.with_suffix(""))
    write(small, SMALL.replace("[1, 7]", "[1, 7, 8]"))
    outcome = run_here(small, small.with_suffix(""))
    assert (outcome.computed, outcome.skipped) == (2, 4)
    assert {name: folder_of(small.with_suffix(""))[name] for name in CELLS} == {
        name: before[name] for name in CELLS
    }


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("draws = 150", "draws = 151", "settings.draws is 150 in it, 151 now"),
        (
            "arms = 3",
            "arms = 3\nprior = { good = 2, bad = 1 }",
            "settings.problem.arms.0.prior.good is 1.0 in it, 2.0 now",
        ),
        ("arms = 3", "arms = 3\ntrue_horizon = 4", "settings.true_horizon is null in it, 4 now"),
    ],
)
def test_other_settings_are_refused_before_any_work(
    small: Path, old: str, new: str, difference: str
) -> None:
    folder = small.with_suffix("")
    (folder / "3-arms-horizon-6--deco--seed-1.json").unlink()  # would be the first to be made
    before = folder_of(folder)
    write(small, SMALL.replace(old, new))
    with refused("invalid_study") as refusal:
        run_here(small, folder)
    message = only_line(str(refusal.value))
    assert "3-arms-horizon-6--deco--seed-7.json" in message
    assert difference in message
    assert folder_of(folder) == before


def test_other_settings_end_the_program_with_code_2_and_one_line(small: Path) -> None:
    before = folder_of(small.with_suffix(""))
    refused = deco("study", "run", write(small, SMALL.replace("150", "151")))
    assert (refused.code, refused.out) == (2, "")
    assert "settings.draws is 150 in it, 151 now" in only_line(refused.err)
    assert folder_of(small.with_suffix("")) == before


def test_cells_of_another_version_are_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "__version__", "99.0")
    with refused("invalid_study"):
        run_here(small, small.with_suffix(""))


def test_folder_of_another_study_is_refused(small: Path, tmp_path: Path) -> None:
    before = folder_of(tmp_path / "small")
    other = write(tmp_path / "other.toml", SMALL.replace("arms = 3", "arms = 2"))
    with refused("invalid_study"):
        run_here(other, tmp_path / "small")
    assert folder_of(tmp_path / "small") == before


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "decobandit-cell-1"}'])
def test_a_file_that_is_no_cell_is_neither_used_nor_overwritten(small: Path, content: str) -> None:
    broken = write(small.with_suffix("") / "3-arms-horizon-6--deco--seed-7.json", content)
    with pytest.raises(ValueError, match=re.escape(broken.name)):
        run_here(small, broken.parent)
    with pytest.raises(ValueError, match=re.escape(broken.name)):
        collect_folder(broken.parent)
    assert broken.read_text(encoding="utf-8") == content


def test_leftover_of_a_write_that_was_cut_short_is_harmless(small: Path) -> None:
    folder = small.with_suffix("")
    before = folder_of(folder)
    gone = folder / "3-arms-horizon-6--deco--seed-1.json"
    content = gone.read_bytes()
    gone.unlink()
    leftover = folder / f"{gone.name}.4711.partial"
    leftover.write_bytes(content[:100])
    assert collect_folder(folder).missing == ("3-arms-horizon-6--deco--seed-1",)
    assert run_here(small, folder).computed == 1
    leftover.unlink()
    assert folder_of(folder) == before


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"new")
    assert folder_of(tmp_path) == {"file": b"old"}


def test_a_cell_that_cannot_be_computed_does_not_stop_the_others(tmp_path: Path) -> None:
    text = SMALL.replace('"deco", ', '"optimal", ').replace("[1, 7]", "[1]")
    file = write(tmp_path / "large.toml", text + "[[problems]]\narms = 20\nhorizon = 60\n")
    ran = deco("study", "run", file)
    assert ran.code == 2
    assert only_line(ran.err).startswith("20-arms-horizon-60--optimal--seed-1: ")
    assert len(folder_of(tmp_path / "large")) == 3 + 1  # and the list of cells
    assert collect_folder(tmp_path / "large").missing == ("20-arms-horizon-60--optimal--seed-1",)


# -- interruption -------------------------------------------------------------------------------


def test_interrupted_study_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    file, stopped, whole = (tmp_path / name for name in ("long.toml", "stopped", "whole"))
    write(file, LONG)
    with half_done(stopped, 16, "study", "run", file, "--out", stopped) as process:
        try:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()  # does nothing to a process that has ended
    kept = folder_of(stopped)
    assert (process.returncode, out) == (130, "")
    assert 1 <= len(kept) - 1 < 16
    assert f"{len(kept) - 1} of 16 cells are finished and kept in {stopped}" in err
    assert "Traceback" not in err
    again = run_here(file, stopped)
    assert (again.skipped, again.computed) == (len(kept) - 1, 17 - len(kept))
    run_here(file, whole)
    assert folder_of(stopped) == folder_of(whole)
    assert kept.items() <= folder_of(whole).items()


def test_a_search_that_was_cut_short_makes_no_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `solve` returns its best so far on Ctrl-C: figures made from that would be others
    def cut_short(*arguments: Any, **options: Any) -> Any:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return solve(*arguments, **(options | {"max_calls": 1}))

    file = write(tmp_path / "small.toml", SMALL)
    studies._context.cache_clear()
    # a process that was started in the background may ignore the signal
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(dual, "solve", cut_short)
            outcome = run_here(file, tmp_path / "small")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (outcome.interrupted, outcome.computed) == (True, 0)
    assert folder_of(tmp_path / "small").keys() == {"study.json"}
    assert run_here(file, tmp_path / "small").computed == 4
    studies._context.cache_clear()
    run_here(file, tmp_path / "again")
    assert folder_of(tmp_path / "small") == folder_of(tmp_path / "again")


def test_progress_is_shown_at_a_terminal(tmp_path: Path) -> None:
    file = write(tmp_path / "small.toml", SMALL)
    ran = deco_at_terminal("study", "run", file, "--json")
    assert ran.code == 0
    assert "small" in ran.err
    assert "100%" in ran.err
    assert json.loads(ran.out)["made"] == 4


def test_progress_counts_all_cells(tmp_path: Path) -> None:
    seen: list[Progress] = []
    file = write(tmp_path / "small.toml", SMALL)
    run_here(file, tmp_path / "small", runner=here(1), progress=seen.append)
    assert seen == [Progress("small", done, 4) for done in range(5)]


# -- shown --------------------------------------------------------------------------------------


def test_tables_read_back_exactly(small: Path, tmp_path: Path) -> None:
    table = rows(tmp_path / "small")
    save_csv(table, tmp_path / "cells.csv")
    save_parquet(table, tmp_path / "cells.parquet")
    plain = [asdict(row) for row in table]
    assert pq.read_table(tmp_path / "cells.parquet").to_pylist() == plain
    with open(tmp_path / "cells.csv", newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    for row, text in zip(plain, read, strict=True):
        assert text.keys() == row.keys()
        for key, value in row.items():
            assert value == (type(value)(text[key]) if text[key] else None)


def test_regrets_side_by_side(small: Path, tmp_path: Path) -> None:
    page, figure = tmp_path / "regrets.md", tmp_path / "regrets.png"
    shown = deco("study", "show", small, "--markdown", page, "--out", figure)
    assert (shown.code, shown.err) == (0, "")
    found = rows(tmp_path / "small")
    head, _, line = page.read_text(encoding="utf-8").splitlines()
    assert head == "| regret | `deco` | `greedy` |"
    for policy in ("deco", "greedy"):  # the mean of both seeds
        one, two = (row for row in found if row.policy == policy)
        error = (one.regret_se**2 + two.regret_se**2) ** 0.5 / 2
        assert f"{(one.regret + two.regret) / 2:.3f} ± {error:.3f}" in line
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert deco("study", "show", small, "--out", tmp_path / "regrets.txt").code == 2


def test_show_names_what_is_missing(small: Path, tmp_path: Path) -> None:
    (tmp_path / "small" / "3-arms-horizon-6--greedy--seed-7.json").unlink()
    shown = deco(
        "study", "show", small, "--csv", tmp_path / "a.csv", "--parquet", tmp_path / "a.pq"
    )
    assert (shown.code, shown.err) == (0, "")
    assert "missing: 3-arms-horizon-6--greedy--seed-7" in shown.out
    assert "3 cells, 1 missing" in shown.out
    answer = deco("study", "show", tmp_path / "small", "--json").json
    assert answer["missing"] == list(collect_study(load_study(small), tmp_path / "small").missing)
    assert answer["missing"] == ["3-arms-horizon-6--greedy--seed-7"]
    assert answer["cells"] == [asdict(row) for row in rows(tmp_path / "small")]
    for row in answer["cells"]:
        assert f"{row['value']:.4f}" in shown.out
        assert f"{row['regret']:.4f}" in shown.out
    assert pq.read_table(tmp_path / "a.pq").to_pylist() == answer["cells"]
    assert len((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()) == 1 + 3


@pytest.mark.parametrize("what", ["nothing", "an empty folder", "a study that was not run"])
def test_show_of_no_study_is_refused(tmp_path: Path, what: str) -> None:
    source = tmp_path / {"nothing": "no", "an empty folder": "."}.get(what, "small.toml")
    if source.suffix:
        write(source, SMALL)
    refused = deco("study", "show", source)
    assert (refused.code, refused.out) == (2, "")
    assert str(tmp_path) in only_line(refused.err)


def test_missing_pyarrow_names_the_pip_command(small: Path, tmp_path: Path) -> None:
    (tmp_path / "hidden" / "pyarrow").mkdir(parents=True)
    write(tmp_path / "hidden" / "pyarrow" / "__init__.py", "raise ImportError('not installed')\n")
    refused = deco(
        "study",
        "show",
        small,
        "--parquet",
        tmp_path / "a.parquet",
        more={"PYTHONPATH": str(tmp_path / "hidden")},
    )
    assert refused.code == 2
    assert 'pip install "decobandit[tables]"' in only_line(refused.err)
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.parametrize("command", ["run", "show"])
def test_every_command_explains_itself(command: str) -> None:
    shown = deco("study", command, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert f"deco study {command}" in shown.out
