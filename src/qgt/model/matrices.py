"""Matrices of zeros and ones as people have them: tensors, arrays, lists, sparse matrices and DataFrames."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

REMEDY = "give lists of 0 and 1, one for each pool, all of the same length; or a NumPy array, tensor or DataFrame."


def ones(matrix: object) -> tuple[tuple[int, int], Int64[Tensor, " ones"], Int64[Tensor, " ones"]]:
    """The shape of a 0/1 matrix, and the rows and columns of its ones.

    Example:
        >>> ones([[0, 1, 0], [True, False, 1.0]])
        ((2, 3), tensor([0, 1, 1]), tensor([1, 0, 2]))
    """
    if isinstance(matrix, Tensor):
        matrix = matrix.detach().cpu()
        if matrix.layout != torch.strided:
            found = matrix.to_sparse_coo().coalesce()
            return _pairs(tuple(found.shape), found.indices().numpy(), found.values().numpy())
        matrix = matrix.float().numpy() if matrix.dtype == torch.bfloat16 else matrix.numpy()
    elif hasattr(matrix, "tocoo"):  # SciPy's sparse matrices: a million items need not be written down
        coo: Any = matrix.tocoo(copy=True)
        coo.sum_duplicates()
        return _pairs(tuple(coo.shape), np.stack([coo.row, coo.col]), coo.data)
    dense = _array(matrix)
    places = np.stack(dense.nonzero())
    return _pairs(dense.shape, places, dense[tuple(places)])


def labels(matrix: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels of a DataFrame's rows and columns where all of them are texts; otherwise none."""
    return _texts(getattr(matrix, "index", ())), _texts(getattr(matrix, "columns", ()))


def _texts(names: object) -> tuple[str, ...]:
    found = tuple(names) if hasattr(names, "__iter__") and not callable(names) else ()
    return found if all(isinstance(name, str) for name in found) else ()


def _array(matrix: object) -> NDArray[Any]:
    try:
        found = np.asarray(matrix)
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"matrix is not rectangular: {REMEDY}") from error
    if found.ndim != 2:
        raise ValueError(f"matrix has shape {found.shape}: {REMEDY}")
    if found.dtype.kind in "biuf":
        return found
    try:  # texts of digits, and the objects of a DataFrame with mixed columns
        return found.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"matrix holds {_first_text(found)!r}: {REMEDY}") from error


def _first_text(found: NDArray[Any]) -> object:
    for value in found.ravel().tolist():
        try:
            float(value)
        except (TypeError, ValueError):
            return value
    return found.ravel().tolist()[0]


def _pairs(shape: Sequence[int], places: NDArray[Any], values: NDArray[Any]) -> tuple[tuple[int, int], Tensor, Tensor]:
    """The places of ones, in order; a value that is neither 0 nor 1 is refused, with its place."""
    if len(shape) != 2:
        raise ValueError(f"matrix has shape {tuple(shape)}: {REMEDY}")
    for wrong in np.flatnonzero((values != 0) & (values != 1))[:1]:
        row, column = (int(place[wrong]) + 1 for place in places)
        raise ValueError(f"matrix holds {values[wrong]} in row {row}, column {column}: give entries 0 and 1 only.")
    rows, columns = (torch.from_numpy(place[values == 1].astype(np.int64)) for place in places)
    keys = rows * shape[1] + columns
    order = keys.argsort() if bool((keys.diff() < 0).any()) else slice(None)  # those of a sparse matrix may not be
    return (int(shape[0]), int(shape[1])), rows[order], columns[order]
