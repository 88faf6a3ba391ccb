"""
A study on a local Dask cluster
===============================

A study is a grid: every policy on every problem with every seed. Each cell of the grid can be
computed on any machine, and has its own file. Here the cells go to a Dask cluster on this machine,
with two worker processes. On a real cluster only the address of the scheduler differs.

Dask workers are separate processes, which import this file. That is why the code below is under
``if __name__ == "__main__":``.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from distributed import LocalCluster

from decobandit.figures import show_figure, study_figure
from decobandit.studies import collect_folder, load_study, on_cluster, rows_of, run_study

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
# Twelve cells: three policies, two problems, two seeds. This process writes the files; Dask workers
# need no access to the folder. The cluster listens on the loopback address only, on free ports.

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
        first = run_study(study, out, runner=on_cluster(cluster.scheduler_address))
        print(f"{first.computed} of {first.cells} cells computed, {len(first.failed)} failed")

        # run again: no cell is computed twice
        again = run_study(study, out, runner=on_cluster(cluster.scheduler_address))
        print(f"{again.computed} of {again.cells} cells computed, {again.skipped} were there")

# %%
# Results
# -------
# Cells are plain JSON files. They can be read as one table, now or later, by this program or
# another one. The figure pools the seeds of the same problem and policy.

if __name__ == "__main__":
    results = rows_of(collect_folder(out).finished)
    print(f"{'problem':20} {'policy':9} {'seed':>4} {'value':>8} {'regret':>16}")
    for row in results:
        print(
            f"{row.problem:20} {row.policy:9} {row.seed:4} {row.value:8.3f} "
            f"{row.regret:7.3f} ± {row.regret_se:6.3f}"
        )
    figure = study_figure(results, "two problems, two seeds")
    show_figure(figure)
    folder.cleanup()

# %%
# What to try next
# ----------------
# - The same from the command line: ``dask scheduler``, some ``dask worker``, and ``deco study run
#   study.toml --scheduler tcp://HOST:8786``.
# - Stop the study in the middle and run it again: finished cells are kept.
# - Add a seed or a problem to the study: only new cells are computed.
