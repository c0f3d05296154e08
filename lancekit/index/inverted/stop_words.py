"""Words that are too common to tell anything, by language."""

from __future__ import annotations

from collections.abc import Mapping

from lancekit.errors import UnsupportedFeatureError

__all__ = ["stop_words"]

_ENGLISH = """
a about above after again against all am an and any are as at be because been before being below
between both but by can did do does doing down during each few for from further had has have having
he her here hers herself him himself his how i if in into is it its itself just me more most my
myself now of off on once only or other our ours ourselves out over own re same she should so some
such than that the their theirs them themselves then there these they this those through to too
under until up very was we were what when where which while who whom why will with you your yours
yourself yourselves
i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll
we're we've we'd we'll they're they've they'd they'll that'll should've
"""

_WORDS: Mapping[str, str] = {"English": _ENGLISH}


def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language.

    Raises
    ------
    UnsupportedFeatureError
        They are not known.

    Examples
    --------
    >>> "the" in stop_words("English")
    True
    """
    found = _WORDS.get(language)
    if found is None:
        raise UnsupportedFeatureError(
            f"Stop words of the language {language!r} are not known.",
            hint=f"Those of {', '.join(_WORDS)} are; search this index with pylance.",
        )
    return frozenset(found.split())
