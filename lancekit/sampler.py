"""A door: pylance's `sampler`, which is `lancekit.api.samplers` and `lancekit.api.samples`."""

from lancekit.api.samplers import (
    FragmentSampler,
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFixedBatchSampler,
    ShardedFragmentSampler,
)
from lancekit.api.samples import maybe_sample, reservoir_sampling

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
