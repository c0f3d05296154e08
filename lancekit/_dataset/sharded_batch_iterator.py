"""A door: pylance's `_dataset.sharded_batch_iterator`, which is in `lancekit._pylance.samplers`."""

from lancekit._pylance.samplers import ShardedBatchIterator

__all__ = ["ShardedBatchIterator"]
