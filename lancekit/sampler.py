"""pylance's `sampler`, re-exported from `lancekit._pylance.samplers` and `sampling`."""

from lancekit._pylance.samplers import (
    FragmentSampler,
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFixedBatchSampler,
    ShardedFragmentSampler,
)
from lancekit._pylance.sampling import maybe_sample, reservoir_sampling

__all__ = [
    "FragmentSampler",
    "FullScanSampler",
    "Sampler",
    "ShardedBatchSampler",
    "ShardedFixedBatchSampler",
    "ShardedFragmentSampler",
    "maybe_sample",
    "reservoir_sampling",
]
