"""A door: pylance's `_dataset.sharded_batch_iterator`, which is in `lancekit._api.samplers`."""

from lancekit._api.samplers import ShardedBatchIterator

__all__ = ["ShardedBatchIterator"]
