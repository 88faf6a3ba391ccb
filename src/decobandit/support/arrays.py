"""Names for the arrays that everything is computed on; how kernels are handed those they read."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.uint8]


def read_only(array: Floats) -> Floats:
    """A view that cannot be written to: a type of its own to the compiler.

    A kernel that only reads is compiled once if all its callers hand it this one.
    """
    view = array.view()
    view.flags.writeable = False
    return view
