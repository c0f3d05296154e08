"""Pictures of commits' key filters: fill, false-positive rate, and common keys of two filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.key_filter import (
    BITMAP_BYTES,
    BLOCK_BYTES,
    ExactKeySet,
    KeyFilter,
    SharedKeys,
    bit_places,
    shared_keys,
)
from lancekit._format.transaction import Transaction
from lancekit._notebook.cards.common import place_of, ref
from lancekit._notebook.pictures.style import HATCHES, Canvas, boxes, columns, drawn, gauge, label
from lancekit._notebook.render.words import clean, count, plural
from lancekit._picture import Picture
from lancekit.errors import InvalidArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Shares: TypeAlias = npt.NDArray[np.float64]

#: the number of newest versions that are searched for filters
_LOOKED = 50
#: upper bounds of the fill of a block, one for each opacity
_STEPS = (0.0, 0.02, 0.08, 0.2, 0.4, 0.7)
_BLOCKS = BITMAP_BYTES // BLOCK_BYTES
_WORD_BITS = 32
_RARE = 1e-9


@dataclass(frozen=True, slots=True)
class FilterFacts:
    """A key filter: the fill of its blocks, its number of keys, and its false-positive rate.

    An exact set never errs.  Its keys are counted by the block of an equivalent Bloom filter.
    """

    name: str
    exact: bool
    keys: int
    fill: Shares
    error_rate: float

    @property
    def words(self) -> str:
        """The description of the filter in words."""
        if self.exact:
            return f"exact, {plural(self.keys, 'key')}, no false positives"
        if not len(self.fill):
            return "empty: it may have any key"
        share = f"{self.fill.mean():.2%} full, false positives: {_rate(self.error_rate)}"
        return f"Bloom filter, about {plural(self.keys, 'key')}, {share}"


def facts_of(name: str, found: KeyFilter) -> FilterFacts:
    """Return the number of keys, the fill and the false-positive rate of a filter.

    For a Bloom filter both numbers are estimates.  The number of keys follows from the share of set
    bits in each word.  The rate is the probability that all eight bits of an absent key are set.
    """
    if isinstance(found, ExactKeySet):
        block, _ = bit_places(found.hashes, _BLOCKS)
        fill = np.bincount(block, minlength=_BLOCKS).astype(np.float64)
        return FilterFacts(name, True, len(found.hashes), fill / max(fill.max(initial=0), 1), 0.0)
    if not found.bitmap or len(found.bitmap) % BLOCK_BYTES:
        return FilterFacts(name, False, 0, np.zeros(0), 1.0)
    words = np.frombuffer(found.bitmap, "<u4").reshape(-1, 8)
    share = np.bitwise_count(words).astype(np.float64) / _WORD_BITS
    # any number of keys can fill a word, so a full word counts half a bit less
    each = np.log1p(-np.minimum(share, 1 - 0.5 / _WORD_BITS)) / np.log1p(-1 / _WORD_BITS)
    keys = round(float(each.mean(axis=1).sum()))
    return FilterFacts(name, False, keys, share.mean(axis=1), float(share.prod(axis=1).mean()))


def key_filters_picture(
    ds: LanceDataset,
    *,
    mine: int | str | Transaction | None = None,
    theirs: int | str | Transaction | None = None,
    ax: Axes | None = None,
) -> Picture:
    """Return the picture of two commits' key filters, by default of the two newest filters."""
    found = [_filter_of(ds, one) for one in (mine, theirs) if one is not None]
    if not found:
        found = _newest(ds)
    title = f"Key filters of {place_of(ds).name}"
    facts = [facts_of(name, one) for name, one in found]
    shared = _shared(ds, [one for _, one in found]) if len(found) > 1 else None
    sentences = [f"{one.name}: {one.words}" for one in facts]
    if shared is not None:
        sentences.append(f"common keys: {_common(shared)}")
    if not facts:
        sentences = [f"no key filter in the newest {plural(_LOOKED, 'version')}"]

    def paint(canvas: Canvas) -> None:
        colours = canvas.colours.series
        for at, (one, axes) in enumerate(zip(facts, canvas.axes, strict=False)):
            _draw(axes, one.fill, colours[at], canvas)
            label(axes, f"{one.name}, {'exact' if one.exact else 'Bloom'}", canvas.colours)
            axes.set_xlabel(_below(one), color=canvas.colours.text, fontsize=9.5)
        if shared is not None and len(canvas.axes) > 2:
            _draw_common(canvas.axes[2], [one for _, one in found], canvas)
            label(canvas.axes[2], "blocks set in both", canvas.colours)
            word = "certain" if shared.certain else "possible" if shared.possible else "none"
            canvas.axes[2].set_xlabel(
                f"common keys: {word}", color=canvas.colours.text, fontsize=9.5
            )

    panels = {0: 1, 1: 1, 2: 3}[len(facts)]
    return drawn(
        title, ". ".join(sentences) + ".", _text(title, facts, sentences), paint,
        columns=panels, inches=(6.2, 2.9) if panels > 1 else (3.4, 3.6), ax=ax,
    )  # fmt: skip


# ---- reading


def _filter_of(ds: LanceDataset, of: int | str | Transaction) -> tuple[str, KeyFilter]:
    name, transaction = "transaction", of if isinstance(of, Transaction) else None
    if not isinstance(of, Transaction):
        handle = ds.checkout_version(of)
        name, transaction = ref(handle.branch, handle.version), handle._snapshot.transaction
    found = getattr(transaction.operation, "inserted_rows", None) if transaction else None
    if found is None:
        raise InvalidArgumentError(
            f"The commit of {name} has no key filter.",
            hint="Merges that insert rows into a dataset with a primary key leave one.",
            of=name,
        )
    return name, found


def _newest(ds: LanceDataset) -> list[tuple[str, KeyFilter]]:
    found = list[tuple[str, KeyFilter]]()
    for version in reversed([v for v in ds.versions().numbers if v <= ds.version][-_LOOKED:]):
        if len(found) == 2:
            break
        try:
            found.append(_filter_of(ds, version))
        except InvalidArgumentError:
            continue
    return found[::-1]


def _shared(ds: LanceDataset, found: Sequence[KeyFilter]) -> SharedKeys:
    fields = {field.id: field for field in ds._snapshot.manifest.schema.walk()}
    types = [
        fields[id_].to_arrow().type if id_ in fields else pa.null() for id_ in found[0].field_ids
    ]
    return shared_keys(found[0], found[1], types)


def _common(shared: SharedKeys) -> str:
    if not shared.possible:
        return "none"
    keys = count(len(shared.hashes)) if len(shared.hashes) else "some"
    return keys if shared.certain else f"possibly {keys} ({clean(shared.why)})"


def _rate(share: float) -> str:
    if share <= _RARE:
        return "less than 1 in a billion"
    return f"1 in {count(round(1 / share))}" if share < 0.5 else f"{share:.0%}"


def _below(one: FilterFacts) -> str:
    if one.exact:
        return f"{plural(one.keys, 'key')},\nno false positives"
    if not len(one.fill):
        return "empty"
    rate = _rate(one.error_rate).replace("less than ", "< ")
    return f"~{plural(one.keys, 'key')}, {one.fill.mean():.1%} full,\nerrors {rate}"


# ---- drawing


def _draw(axes: Axes, fill: Shares, colour: str, canvas: Canvas) -> None:
    step = np.searchsorted(np.array(_STEPS), fill, side="left")
    for strength in range(1, len(_STEPS) + 1):
        at = np.flatnonzero(step == strength)
        boxes(
            axes,
            _squares(at, len(fill)),
            facecolor=colour,
            alpha=0.35 + 0.65 * strength / len(_STEPS),
        )
    _frame(axes, len(fill), canvas)


def _draw_common(axes: Axes, found: Sequence[KeyFilter], canvas: Canvas) -> None:
    bits = [_bits(one) for one in found]
    if len({one.shape for one in bits}) > 1 or not len(bits[0]):
        _frame(axes, 0, canvas)
        return
    both = bits[0] & bits[1]
    some = np.flatnonzero(both.any(axis=1) & ~both.all(axis=1))
    whole = np.flatnonzero(both.all(axis=1))
    boxes(axes, _squares(some, len(both)), facecolor=canvas.colours.series[5], alpha=0.35)
    boxes(
        axes, _squares(whole, len(both)), facecolor=canvas.colours.series[3],
        hatch=HATCHES[1], edgecolor=canvas.colours.ground,
    )  # fmt: skip
    _frame(axes, len(both), canvas)


def _bits(one: KeyFilter) -> npt.NDArray[np.uint32]:
    if isinstance(one, ExactKeySet):
        out = np.zeros((_BLOCKS, 8), np.uint32)
        np.bitwise_or.at(out, *bit_places(one.hashes, _BLOCKS))
        return out
    whole = len(one.bitmap) - len(one.bitmap) % BLOCK_BYTES
    return np.frombuffer(one.bitmap[:whole], "<u4").reshape(-1, 8)


def _side(blocks: int) -> int:
    return max(int(np.ceil(np.sqrt(blocks))), 1)


def _squares(at: npt.NDArray[np.intp], blocks: int) -> list[tuple[float, float, float, float]]:
    side = _side(blocks)
    return [(float(x), float(y), 0.9, 0.9) for y, x in (divmod(int(i), side) for i in at)]


def _frame(axes: Axes, blocks: int, canvas: Canvas) -> None:
    side = _side(blocks)
    boxes(
        axes, [(-0.5, -0.5, side + 1.0, side + 1.0)],
        facecolor="none", edgecolor=canvas.colours.line, linewidth=0.8,
    )  # fmt: skip
    axes.set_xlim(-0.8, side + 0.8)
    axes.set_ylim(side + 0.8, -0.8)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)


def _text(title: str, facts: Sequence[FilterFacts], sentences: Sequence[str]) -> str:
    bars = [
        (
            one.name,
            gauge(float(one.fill.mean()) if len(one.fill) and not one.exact else 0),
            one.words,
        )
        for one in facts
    ]
    lines = [line.rstrip() for line in columns(bars, 90)] if bars else []
    return "\n".join([title, *(f"  {line}" for line in [*lines, *sentences[len(facts) :]])])
