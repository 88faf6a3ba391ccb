"""Grids of simulations and of designs in files, computed here or on a Dask cluster.

Imports `designs` and what is below it.

What a study may contain: `study_files.py`; a cell and its result `records.py`, their files
`cell_files.py`, columns of tables `study_tables.py`.
"""

from typing import TYPE_CHECKING

from ..support.lazy import lazy_names

if TYPE_CHECKING:
    from .cell_files import Collected as Collected
    from .cell_files import collect_folder as collect_folder
    from .cell_files import collect_study as collect_study
    from .cell_files import finished_cells as finished_cells
    from .cluster import ClusterError as ClusterError
    from .cluster import check_cluster as check_cluster
    from .cluster import on_cluster as on_cluster
    from .records import Cell as Cell
    from .records import CellFailure as CellFailure
    from .records import CellResult as CellResult
    from .records import CellScenario as CellScenario
    from .records import FinishedCell as FinishedCell
    from .records import Study as Study
    from .running import RunSummary as RunSummary
    from .running import here as here
    from .running import run_study as run_study
    from .study_files import StudyError as StudyError
    from .study_files import load_study as load_study
    from .study_tables import DesignRow as DesignRow
    from .study_tables import Row as Row
    from .study_tables import csv_text as csv_text
    from .study_tables import rows_of as rows_of
    from .study_tables import save_csv as save_csv
    from .study_tables import save_markdown as save_markdown
    from .study_tables import save_parquet as save_parquet

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
