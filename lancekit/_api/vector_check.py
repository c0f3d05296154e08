"""Whether the vectors of a column are found by their index; a name of ``lance.util``."""

from __future__ import annotations

import numpy as np

from lancekit._api.lance_dataset import LanceDataset
from lancekit._checked import checked
from lancekit.errors import InvalidArgumentError

__all__ = ["validate_vector_index"]


@checked
def validate_vector_index(
    dataset: LanceDataset,
    column: str,
    refine_factor: int = 5,
    sample_size: int | None = None,
    pass_threshold: float = 1.0,
) -> None:
    """Search for vectors of a column: each is to find itself, or one at no distance.

    Parameters
    ----------
    dataset, column
        Where the vectors are; nulls, and those with NaN, are left out.
    refine_factor
        As in a search; one partition is looked at.
    sample_size
        How many vectors, chosen at random; all by default.
    pass_threshold
        The least share of them that must be found.

    Raises
    ------
    InvalidArgumentError
        Fewer are found.
    """
    rows = (
        dataset.to_table([column]) if sample_size is None else dataset.sample(sample_size, [column])
    )
    vectors = [np.asarray(vector) for vector in rows[column].to_pylist() if vector is not None]
    asked = [vector for vector in vectors if not np.isnan(vector).any()]
    search = {"column": column, "k": 1, "nprobes": 1, "refine_factor": refine_factor}
    found = 0
    for vector in asked:
        nearest = dataset.to_table([column], nearest={**search, "q": vector})
        found += any(abs(distance) < 1e-6 for distance in nearest["_distance"].to_pylist())
    if found < pass_threshold * len(asked):
        raise InvalidArgumentError(
            f"Of {len(asked)} vectors {found} find themselves.",
            hint="Search more partitions, or make the index anew.",
            found=found,
            asked=len(asked),
        )
