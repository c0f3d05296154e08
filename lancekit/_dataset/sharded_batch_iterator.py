"""A door: pylance's `_dataset.sharded_batch_iterator`, which is in `lancekit.api.samplers`."""

from lancekit.api.samplers import ShardedBatchIterator

__all__ = ["ShardedBatchIterator"]
