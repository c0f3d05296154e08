"""pylance's `mem_wal`, re-exported: tables with shards."""

from lancekit._api.lsm_scanner import LsmScanner, ShardSnapshot
from lancekit._api.mem_wal_rows import MemWalQuarantine, MemWalSetAside
from lancekit._api.shard_writer import ShardWriter, evaluate_sharding_spec
from lancekit._api.sinks import MemWalSink
from lancekit._format.mem_wal.details import ShardingField, ShardingSpec
from lancekit._format.operation_parts import CompactedSsTable
from lancekit._operations.common.results import MemWalMergeResult, MergedShard
from lancekit._operations.mem_wal.cleanup import MemWalCleanupStats
from lancekit._operations.mem_wal.quarantine import MemWalRepair, SetAside
from lancekit._operations.mem_wal.reader.set_aside import MemWalPutBack
from lancekit._operations.mem_wal.router import Acknowledged
from lancekit._operations.mem_wal.shards import Generation, ShardInfo, Shards
from lancekit._operations.unmerged.waiting_rows import WaitingRows
from lancekit._pylance.lsm_planners import (
    ExecutionPlan,
    LsmPointLookupPlanner,
    LsmVectorSearchPlanner,
)

__all__ = [
    "Acknowledged",
    "CompactedSsTable",
    "ExecutionPlan",
    "Generation",
    "LsmPointLookupPlanner",
    "LsmScanner",
    "LsmVectorSearchPlanner",
    "MemWalCleanupStats",
    "MemWalMergeResult",
    "MemWalPutBack",
    "MemWalQuarantine",
    "MemWalRepair",
    "MemWalSetAside",
    "MemWalSink",
    "MergedShard",
    "SetAside",
    "ShardInfo",
    "ShardSnapshot",
    "ShardWriter",
    "ShardingField",
    "ShardingSpec",
    "Shards",
    "WaitingRows",
    "evaluate_sharding_spec",
]
