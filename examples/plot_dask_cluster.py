"""
A study on a local Dask cluster
===============================

A study is a grid: every policy on every problem with every seed. Each cell of the grid can be
computed anywhere, and is kept in a file of its own. Here the cells go to a Dask cluster on this
machine, with two worker processes. On a real cluster only the address of the scheduler differs.

Workers are processes of their own, which import this file. That is why the work below stands
under ``if __name__ == "__main__":``.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from distributed import LocalCluster

from decobandit.cell_files import collect_folder
from decobandit.cluster import on_cluster
from decobandit.plots import study_figure
from decobandit.studies import run_study
from decobandit.study_files import load_study
from decobandit.study_tables import rows_of

STUDY = """
policies = ["deco", "thompson", "greedy"]
draws = 512
per_draw = 4
seeds = [1, 2]

[[problems]]
arms = 3
horizon = 30

[[problems]]
arms = 10
horizon = 30
"""

# %%
# Run it
# ------
# Twelve cells: three policies, two problems, two seeds. The process that asks writes the files;
# workers need no folder. The cluster is reached on the loopback address only, at ports that
# happen to be free.

if __name__ == "__main__":
    folder = TemporaryDirectory()
    file, out = Path(folder.name, "study.toml"), Path(folder.name, "cells")
    file.write_text(STUDY, encoding="utf-8")
    out.mkdir()
    study = load_study(file)
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    with cluster:
        outcome = run_study(study, out, runner=on_cluster(cluster.scheduler_address))
        print(f"{outcome.made} of {outcome.cells} cells computed, {len(outcome.failed)} failed")

        # asked again, nothing is computed twice
        again = run_study(study, out, runner=on_cluster(cluster.scheduler_address))
        print(f"{again.made} of {again.cells} cells computed, {again.skipped} were there")

# %%
# Look at it
# ----------
# Cells are plain JSON files. They can be read as one table, here or later, by this program or
# another one. Seeds of the same problem and policy are pooled in the figure.

if __name__ == "__main__":
    results = rows_of(collect_folder(out).cells)
    print(f"{'problem':20} {'policy':9} {'seed':>4} {'value':>8} {'regret':>16}")
    for row in results:
        print(
            f"{row['problem']:20} {row['policy']:9} {row['seed']:4} {row['value']:8.3f} "
            f"{row['regret']:7.3f} ± {row['regret_se']:6.3f}"
        )
    figure = study_figure(results, "two problems, two seeds")
    folder.cleanup()

# %%
# What to try next
# ----------------
# - The same from the command line: ``dask scheduler``, some ``dask worker``, and ``deco study run
#   study.toml --scheduler tcp://HOST:8786``.
# - Stop it in the middle, and run it again: finished cells stay.
# - Add a seed or a problem to the study: only new cells are computed.
