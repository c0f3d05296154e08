"""Where the rules answer otherwise than the reference does, and why that endangers nobody."""

from __future__ import annotations

from dataclasses import dataclass

from lancekit.format import operations as ops

__all__ = ["ALIKE_ON_PURPOSE", "DIFFERENCES", "FROM_SOURCE", "OUTSIDE", "Difference"]

#: operations that pylance cannot commit, or not on top of a dataset: their cells follow its source
FROM_SOURCE: tuple[type, ...] = (
    ops.ReserveFragments,
    ops.UpdateMemWalState,
    ops.Clone,
    ops.UpdateBases,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Cells that answer otherwise: ``safer``, ``less strict`` or only ``clearer``."""

    how: str
    mine: type
    theirs: tuple[type, ...]
    reference: str
    here: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "safer",
        ops.Append,
        (ops.Merge,),
        "Over a cast of a column, the rows land under the old field id: the column reads null.",
        "Retryable, if a column that was written is there under another id. The same for a column "
        "that was dropped and added again.",
    ),
    Difference(
        "safer",
        ops.CreateIndex,
        (ops.Project, ops.Merge),
        "An index on a column that was dropped, cast or made anew lands; later deletes fail.",
        "Retryable.",
    ),
    Difference(
        "safer",
        ops.CreateIndex,
        (ops.Merge,),
        "An index keeps fragments in which the merge rewrote its column.",
        "It lands without them.",
    ),
    Difference(
        "safer",
        ops.CreateIndex,
        (ops.Update, ops.DataReplacement),
        "An index that does not say what it covers lands over a rewrite of its column.",
        "Retryable: it cannot be narrowed.",
    ),
    Difference(
        "safer",
        ops.UpdateConfig,
        (ops.UpdateConfig, ops.Overwrite),
        "Replacing the config touches no key, so that a key set meanwhile is wiped silently.",
        "It touches every key: the two exclude each other.",
    ),
    Difference(
        "safer",
        ops.Overwrite,
        (ops.UpdateConfig,),
        "Sets config keys over a config that was replaced meanwhile.",
        "The two exclude each other.",
    ),
    Difference(
        "safer",
        ops.Project,
        (ops.UpdateConfig,),
        "A rename or a drop takes back metadata of the schema and of fields set meanwhile.",
        "Retryable.",
    ),
    Difference(
        "safer",
        ops.Update,
        (ops.Update,),
        "Keys that its filters leave out (dates, times, decimals, small integers, ...) are not "
        "compared: two merges insert one key twice.",
        "Keys of every type are compared. A filter of the reference over such keys is read as one "
        "that may hold any, and ours is of a kind that the reference cannot compare, so that it "
        "does its work again.",
    ),
    Difference(
        "safer",
        ops.Update,
        (ops.DataReplacement,),
        "Inserted keys are not compared with a key column whose values were replaced.",
        "Retryable.",
    ),
    Difference(
        "safer",
        ops.Update,
        (ops.Update,),
        "Merging a generation of a shard twice is noticed while the manifest is built; over a "
        "merge of an earlier one it lands, though it may be made of that one's rows, too.",
        "The rule says so, with the shard; over an earlier one it is retryable.",
    ),
    Difference(
        "clearer",
        ops.UpdateConfig,
        (ops.Project,),
        "Metadata of a field that was dropped fails while the manifest is built.",
        "Incompatible, and the field is named.",
    ),
    Difference(
        "safer",
        ops.CreateIndex,
        (ops.Rewrite,),
        "A trimmed fragment-reuse index is merged with what a rewrite added to it, if the rewrite "
        "is known to have done so; its transaction does not say it, and then that is lost.",
        "Retryable: trim the latest one.",
    ),
    Difference(
        "less strict",
        ops.CreateIndex,
        (ops.DataReplacement,),
        "Retryable, if a column of the index was replaced in any fragment.",
        "The index lands without the fragments in which it was.",
    ),
    Difference(
        "less strict",
        ops.DataReplacement,
        (ops.CreateIndex,),
        "Retryable, if a new index is on a column that is replaced.",
        "It lands, and the index stops covering the fragments.",
    ),
    Difference(
        "less strict",
        ops.Update,
        (ops.Update,),
        "Two Bloom filters conflict if any bit is set in both: with 150 new keys each, nearly "
        "always. An exact set conflicts with every Bloom filter, an empty filter with every update "
        "that has none.",
        "Bloom filters conflict if a block has a bit in common in each of its eight words; exact "
        "sets are looked up; a merge that inserted nothing, and an update that wrote neither rows "
        "nor keys, conflict with no key. None of it can miss a common key.",
    ),
    Difference(
        "less strict",
        ops.Update,
        (ops.Append,),
        "A merge that inserted nothing conflicts with every append.",
        "It lands.",
    ),
)

#: what is noticed before any rule is asked
OUTSIDE: tuple[str, ...] = (
    "A version between the one that was read and the newest is gone (cleaned up): what it changed "
    "cannot be told, so the change is retryable. The reference passes over it.",
    "A transaction that landed already, known by its uuid, is not committed twice, if it made the "
    "version that it now says it read, or a later one; from any other version on its rows are "
    "refused, because their data files are in the table. The reference adds its rows again.",
    "An operation of a newer release is retryable, whatever mine is.",
)

#: what looks unsafe in the reference and is the same here
ALIKE_ON_PURPOSE: tuple[str, ...] = (
    "An append lands over a merge that inserted keys, even if it has one of them. An append does "
    "not look for its keys in the table, with or without other writers: doing it again would add "
    "the same rows. Use a merge where keys must stay unique.",
    "An append lands over a rename and over a drop, and reads null in a column that was computed "
    "meanwhile for the rows that were there.",
    "A restore lands over nearly everything: it is meant to undo it.",
)
