"""General helpers: arrays, memory, files, tables, caches, workers, progress, validation.

Imports nothing else of this package.
"""

from typing import TYPE_CHECKING

from .lazy import lazy_names

if TYPE_CHECKING:
    from .cache import Cache as Cache
    from .cache import Once as Once
    from .errors import DecoError as DecoError
    from .errors import InvalidArgument as InvalidArgument
    from .errors import InvalidFile as InvalidFile
    from .errors import TooLarge as TooLarge
    from .errors import Unsupported as Unsupported
    from .errors import error_dict as error_dict
    from .files import Rows as Rows
    from .files import TableError as TableError
    from .files import check_parquet as check_parquet
    from .files import csv_of as csv_of
    from .files import harmless as harmless
    from .files import original as original
    from .files import read_rows as read_rows
    from .files import write_parquet as write_parquet
    from .files import write_table as write_table
    from .files import write_whole as write_whole
    from .frames import Card as Card
    from .frames import Column as Column
    from .frames import Columns as Columns
    from .frames import Shown as Shown
    from .frames import Tables as Tables
    from .frames import Tabular as Tabular
    from .frames import columns_of as columns_of
    from .frames import constant as constant
    from .frames import frame_of as frame_of
    from .frames import kind_of as kind_of
    from .machine import available_bytes as available_bytes
    from .machine import code_environment as code_environment
    from .machine import limit_bytes as limit_bytes
    from .machine import refuse_over as refuse_over
    from .numerics import Flags as Flags
    from .numerics import Floats as Floats
    from .numerics import Ints as Ints
    from .numerics import Rng as Rng
    from .numerics import bisect as bisect
    from .numerics import decay_integral as decay_integral
    from .numerics import float_from as float_from
    from .numerics import generator_of as generator_of
    from .numerics import int_from as int_from
    from .numerics import is_count as is_count
    from .numerics import read_only as read_only
    from .numerics import seed_of as seed_of
    from .numerics import streams_of as streams_of
    from .progress import Progress as Progress
    from .progress import Report as Report
    from .progress import show_progress as show_progress
    from .progress import silent as silent
    from .progress import tell as tell
    from .progress import tells_progress as tells_progress
    from .timing import Stopwatch as Stopwatch
    from .validation import BLANK_LETTERS as BLANK_LETTERS
    from .validation import JsonError as JsonError
    from .validation import Naming as Naming
    from .validation import Place as Place
    from .validation import appearance as appearance
    from .validation import dotted as dotted
    from .validation import init_details as init_details
    from .validation import look_alike_keys as look_alike_keys
    from .validation import one_line as one_line
    from .validation import parse as parse
    from .validation import place_of as place_of
    from .validation import refuse as refuse
    from .validation import refuse_many_keys as refuse_many_keys
    from .validation import shown as shown
    from .validation import without_defaults as without_defaults
    from .workers import Pool as Pool
    from .workers import heed_interrupt as heed_interrupt
    from .workers import legs as legs
    from .workers import limited_workers as limited_workers
    from .workers import obeys_workers as obeys_workers
    from .workers import pool as pool
    from .workers import until_interrupted as until_interrupted
    from .workers import worker_count as worker_count

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
