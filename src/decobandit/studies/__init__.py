"""Grids of simulations and of designs in files, computed here or on a Dask cluster.

Contents: `study_files.py`; a cell and its result: `records.py`; running them: `running.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .records import Cell as Cell
    from .records import CellFailure as CellFailure
    from .records import CellResult as CellResult
    from .records import CellScenario as CellScenario
    from .records import Collected as Collected
    from .records import DesignRow as DesignRow
    from .records import FinishedCell as FinishedCell
    from .records import Row as Row
    from .records import Study as Study
    from .records import StudyError as StudyError
    from .records import collect_folder as collect_folder
    from .records import collect_study as collect_study
    from .records import csv_text as csv_text
    from .records import finished_cells as finished_cells
    from .records import rows_of as rows_of
    from .records import save_csv as save_csv
    from .records import save_markdown as save_markdown
    from .records import save_parquet as save_parquet
    from .running import ClusterError as ClusterError
    from .running import RunSummary as RunSummary
    from .running import check_cluster as check_cluster
    from .running import here as here
    from .running import on_cluster as on_cluster
    from .running import run_study as run_study
    from .study_files import load_study as load_study

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
