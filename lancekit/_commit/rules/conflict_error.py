"""Errors of conflicts, and the test for conflicts with versions that were cleaned up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from lancekit._commit.rules.effects import changed_fields
from lancekit._commit.rules.pending import Pending
from lancekit._commit.rules.table import judge
from lancekit._commit.rules.verdict import COMPATIBLE, Context, Evidence, Outcome, Verdict, retry
from lancekit._format import operations as ops
from lancekit._format.manifest import Manifest
from lancekit._format.names import MAIN
from lancekit._format.operation_parts import UpdateMap
from lancekit._format.paths import paths_by_id
from lancekit._format.schema import LanceSchema
from lancekit._format.transaction import COMMIT_MESSAGE, Transaction
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CommitConflictError, IncompatibleConflictError, RetryableConflictError


def conflict_error(
    read: Snapshot, theirs: Snapshot, pending: Pending, verdict: Verdict
) -> CommitConflictError:
    """Return the error for a transaction that cannot follow ``theirs``."""
    retryable = verdict.outcome is Outcome.RETRYABLE
    kind = RetryableConflictError if retryable else IncompatibleConflictError
    mine = type(pending.operation).__name__
    transaction = theirs.transaction
    their_name = type(transaction.operation).__name__ if transaction else "change"
    message = transaction.transaction_properties.get(COMMIT_MESSAGE, "") if transaction else ""
    origin = str(transaction.provenance or "") if transaction else ""
    evidence = verdict.evidence or Evidence(sentence="the two changes exclude each other")
    writer = str(theirs.manifest.writer or "an unnamed writer")
    look = "" if retryable else f"; ds.read_transaction({theirs.version})"
    code = f"ds.checkout_latest(){look}"
    return kind(
        f"This {pending.doing or mine}, based on version {read.version} of {read.location.name}, "
        f"conflicts with the {their_name} of version {theirs.version} by {writer} "
        f"at {theirs.manifest.timestamp:%Y-%m-%d %H:%M:%S} UTC"
        f"{f' ({message})' if message else ''}: {evidence.sentence}.",
        hint=(
            f"Load the newest version, {code}, and repeat the change."
            if retryable
            else f"Load the newest version and look at the other change, {code}. If your change is "
            "still needed, repeat it."
        ),
        mine=mine,
        doing=pending.doing,
        theirs=their_name,
        read_version=read.version,
        version=theirs.version,
        branch=read.branch or MAIN,
        uri=theirs.store.uri,
        writer=writer,
        origin=origin,
        timestamp=theirs.manifest.timestamp,
        message=message,
        reason=evidence.sentence,
        evidence=_facts(evidence, read.manifest.schema),
        code=code,
    )


def gap_error(
    read: Snapshot, after: Snapshot, pending: Pending, verdict: Verdict, gap: Sequence[int]
) -> CommitConflictError:
    """Return the error for a transaction that conflicts with versions of a gap.

    ``after`` is the version after the gap, which shows their changes.
    """
    retryable = verdict.outcome is Outcome.RETRYABLE
    kind = RetryableConflictError if retryable else IncompatibleConflictError
    mine = type(pending.operation).__name__
    evidence = verdict.evidence or Evidence(sentence="the two changes exclude each other")
    gone = f"version {gap[0]}" if len(gap) == 1 else f"versions {gap[0]} to {gap[-1]}"
    code = "ds.checkout_latest()"
    return kind(
        f"This {pending.doing or mine}, based on version {read.version} of {read.location.name}, "
        f"conflicts with {gone}, cleaned up since, or with version {after.version}: "
        f"{evidence.sentence}.",
        hint=f"Load the newest version, {code}, and look at it. If your change is still needed, "
        "repeat it.",
        mine=mine,
        doing=pending.doing,
        read_version=read.version,
        branch=read.branch or MAIN,
        uri=after.store.uri,
        reason=evidence.sentence,
        evidence=_facts(evidence, read.manifest.schema),
        code=code,
    )


def _facts(evidence: Evidence, schema: LanceSchema) -> dict[str, object]:
    """Return the facts of the evidence as plain values, without classes of this package."""
    named = {f.name: getattr(evidence, f.name) for f in fields(evidence) if f.name != "sentence"}
    paths = paths_by_id(schema)
    named["columns"] = tuple(paths[id_] for id_ in evidence.fields if id_ in paths)
    return {name: value for name, value in named.items() if value not in ((), False)}


# ---- versions that were cleaned up before a stale change could be compared with them
#
# Their effect on rows is unknown, so a change of rows must be made again.  A change of settings
# reads no rows.  It only has to know whether these versions changed the same settings, which the
# manifests before and after them show.


def passes_gaps(mine: Pending) -> bool:
    """Return True if a change can be committed after versions that can no longer be read."""
    return isinstance(mine.operation, ops.UpdateConfig | ops.UpdateBases)


def judge_gap(mine: Pending, read: Manifest, now: Manifest) -> Verdict:
    """Judge a change of settings against the differences since the version that it read.

    A value that was changed and changed back is no conflict: the writer saw this value.
    """
    context = Context(mine, read)
    for seen in _differences(read, now):
        verdict = judge(mine, Transaction(read_version=0, uuid="", operation=seen), context)
        if not verdict.lands:
            return verdict
    if isinstance(mine.operation, ops.UpdateConfig):
        named = mine.operation.normalised().field_metadata_updates.keys()
        # an id may belong to another field now, because an overwrite reuses ids
        if other := named & changed_fields(read.schema, now.schema):
            return retry(f"{context.named(other)} was changed", fields=other)
    return COMPATIBLE


def _differences(read: Manifest, now: Manifest) -> Iterable[ops.Operation]:
    """Yield operations that would give one manifest the settings of another."""
    fields = {field.id: field.metadata for field in now.schema.walk()}
    yield ops.Project(schema=now.schema)
    yield ops.UpdateConfig(
        config_updates=_changes(read.config, now.config),
        table_metadata_updates=_changes(read.table_metadata, now.table_metadata),
        schema_metadata_updates=_changes(read.schema.metadata, now.schema.metadata),
        field_metadata_updates={
            field.id: changes
            for field in read.schema.walk()
            if field.id in fields
            if (changes := _changes(field.metadata, fields[field.id])) is not None
        },
    )
    known = {base.id for base in read.base_paths}
    yield ops.UpdateBases(tuple(base for base in now.base_paths if base.id not in known))


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> UpdateMap | None:
    changed = {key: new.get(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    return UpdateMap(changed) if changed else None
