"""A door: pylance's `mem_wal`: tables that have shards."""

from lancekit.api.execution_plan import ExecutionPlan
from lancekit.api.lsm_planners import LsmPointLookupPlanner, LsmVectorSearchPlanner
from lancekit.api.lsm_scanner import LsmScanner
from lancekit.api.mem_wal_quarantine import MemWalQuarantine
from lancekit.api.mem_wal_set_aside import MemWalSetAside
from lancekit.api.mem_wal_sink import MemWalSink
from lancekit.api.shard_snapshot import ShardSnapshot
from lancekit.api.shard_writer import ShardWriter
from lancekit.api.sharding import evaluate_sharding_spec
from lancekit.format.mem_wal.details import ShardingField, ShardingSpec
from lancekit.format.operation_parts import CompactedSsTable
from lancekit.operations.common.results import MemWalMergeResult, MergedShard
from lancekit.operations.mem_wal.cleanup import MemWalCleanupStats
from lancekit.operations.mem_wal.reader.set_aside import MemWalPutBack
from lancekit.operations.mem_wal.router import Acknowledged
from lancekit.operations.mem_wal.set_aside import MemWalRepair, SetAside
from lancekit.operations.mem_wal.shards import Generation, ShardInfo, Shards
from lancekit.operations.unmerged.waiting_rows import WaitingRows

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
