"""Features that a table requires of the lancekit that merges its branches or cleans it up."""

from __future__ import annotations

from lancekit.errors import UnsupportedFeatureError
from lancekit.legible import literal
from lancekit.versions.snapshot import Snapshot

__all__ = ["FEATURES", "REQUIRES", "check_requirements"]

#: the config key: names of features, separated by spaces
REQUIRES = "lancekit.requires"
#: what this release has: config keys of merges, one for each pair of branches
FEATURES = frozenset({"merge-keys"})


def check_requirements(snapshot: Snapshot, doing: str) -> None:
    """Raise ``UnsupportedFeatureError`` if a table requires a feature that this release lacks.

    ``doing`` is what was to be done, as a sentence begins with it.
    """
    unknown = sorted(set(snapshot.manifest.config.get(REQUIRES, "").split()) - FEATURES)
    if unknown:
        raise UnsupportedFeatureError(
            f"{doing} needs {', '.join(map(literal, unknown))}, which this release of lancekit "
            f"lacks: {snapshot.called} of {snapshot.store.uri} says so in {REQUIRES}.",
            hint="Use a newer lancekit.",
            features=unknown,
        )
