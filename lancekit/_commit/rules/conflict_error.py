"""The error that a conflict becomes: who, what, where, and the next line of code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from lancekit._commit.rules.effects import paths_by_id
from lancekit._commit.rules.pending import Pending
from lancekit._commit.rules.verdict import Evidence, Outcome, Verdict
from lancekit._format.names import MAIN
from lancekit._format.schema import LanceSchema
from lancekit._format.transaction import COMMIT_MESSAGE
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import CommitConflictError, IncompatibleConflictError, RetryableConflictError

__all__ = ["conflict_error", "gap_error"]


def conflict_error(
    read: Snapshot, theirs: Snapshot, pending: Pending, verdict: Verdict
) -> CommitConflictError:
    """Return the error for a transaction that cannot go on top of ``theirs``."""
    retryable = verdict.outcome is Outcome.RETRYABLE
    kind = RetryableConflictError if retryable else IncompatibleConflictError
    mine = type(pending.operation).__name__
    transaction = theirs.transaction
    their_name = type(transaction.operation).__name__ if transaction else "change"
    message = transaction.transaction_properties.get(COMMIT_MESSAGE, "") if transaction else ""
    origin = str(transaction.provenance or "") if transaction else ""
    evidence = verdict.evidence or Evidence(sentence="the two changes exclude each other")
    writer = str(theirs.manifest.writer or "an unnamed writer")
    code = "ds.checkout_latest()" if retryable else _look(theirs)
    return kind(
        f"This {pending.doing or mine}, based on version {read.version} of {read.line.name}, "
        f"conflicts with the {their_name} of version {theirs.version} by {writer} "
        f"at {theirs.manifest.timestamp:%Y-%m-%d %H:%M:%S} UTC"
        f"{f' ({message})' if message else ''}: {evidence.sentence}.",
        hint=(
            f"Take the newest version, {code}, and do the change again."
            if retryable
            else f"Take the newest version and look at what landed, {code}; if the change is still "
            "wanted, do it again."
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
    """Return the error for a transaction that the versions of a gap exclude.

    ``after`` is the one that follows them: what they changed is seen in it.
    """
    retryable = verdict.outcome is Outcome.RETRYABLE
    kind = RetryableConflictError if retryable else IncompatibleConflictError
    mine = type(pending.operation).__name__
    evidence = verdict.evidence or Evidence(sentence="the two changes exclude each other")
    gone = f"version {gap[0]}" if len(gap) == 1 else f"versions {gap[0]} to {gap[-1]}"
    code = "ds.checkout_latest()"
    return kind(
        f"This {pending.doing or mine}, based on version {read.version} of {read.line.name}, "
        f"conflicts with {gone}, cleaned up since, or with version {after.version}: "
        f"{evidence.sentence}.",
        hint=f"Take the newest version, {code}, and look at what is there; if the change is still "
        "wanted, do it again.",
        mine=mine,
        doing=pending.doing,
        read_version=read.version,
        branch=read.branch or MAIN,
        uri=after.store.uri,
        reason=evidence.sentence,
        evidence=_facts(evidence, read.manifest.schema),
        code=code,
    )


def _look(theirs: Snapshot) -> str:
    return f"ds.checkout_latest(); ds.read_transaction({theirs.version})"


def _facts(evidence: Evidence, schema: LanceSchema) -> dict[str, object]:
    """Return what the evidence lists, as plain values that need none of these classes."""
    named = {f.name: getattr(evidence, f.name) for f in fields(evidence) if f.name != "sentence"}
    paths = paths_by_id(schema)
    named["columns"] = tuple(paths[id_] for id_ in evidence.fields if id_ in paths)
    return {name: value for name, value in named.items() if value not in ((), False)}
