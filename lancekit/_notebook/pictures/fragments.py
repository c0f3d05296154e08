"""The map of a version's fragments: sizes, deletions, files, index cover and compaction plan."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from lancekit._api.lance_dataset import LanceDataset
from lancekit._format.fragment import Fragment
from lancekit._format.schema import LanceField
from lancekit._notebook.cards.common import place_of, ref
from lancekit._notebook.pictures.style import (
    HATCHES,
    Canvas,
    boxes,
    bytes_axis,
    columns,
    count_axis,
    drawn,
    gauge,
    label,
    several,
    sparkline,
)
from lancekit._notebook.render.words import clean, count, cut, listing, plural, size
from lancekit._operations.index.segments import live_fragments
from lancekit._operations.maintenance.compact_plan import CompactionOptions, plan_compaction
from lancekit._picture import Picture
from lancekit._versions.snapshot import Snapshot
from lancekit.errors import LancekitError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers: TypeAlias = npt.NDArray[np.int64]
Shares: TypeAlias = npt.NDArray[np.float64]

#: the largest number of columns; more fragments share columns
_BINS = 160
#: strips of indices, and of groups of columns; characters of a name
_ROWS, _NAME = 6, 22


@dataclass(frozen=True, slots=True)
class _Strip:
    """A strip of the map: the kind of each fragment (0 for none), and a summary in words."""

    name: str
    kinds: Numbers
    summary: str
    short: str = ""


@dataclass(frozen=True, slots=True)
class _Map:
    rows: Numbers
    deleted: Numbers
    bytes: Shares
    files: Numbers
    cover: tuple[_Strip, ...]
    compaction: _Strip
    layout: tuple[_Strip, ...]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)


def fragments_picture(ds: LanceDataset, *, ax: Axes | None = None) -> Picture:
    """Return the map of the fragments of a handle's version; it reads only the manifest."""
    found = _map(ds._snapshot)
    title = f"Fragments of {place_of(ds).name}, {ref(ds.branch, ds.version)}"
    strips = [found.compaction, *found.cover, *found.layout]
    one = ax is not None and not several(ax)
    heights = (1.5, 0.9, 0.35 + 0.3 * len(strips))

    def paint(canvas: Canvas) -> None:
        rows, *others = canvas.axes
        edges = _edges(len(found))
        _draw_rows(rows, found, edges, canvas)
        for axes, draw in zip(others, (_draw_bytes, _draw_strips), strict=False):
            draw(axes, found, edges, canvas)
        last = rows if one else canvas.axes[-1]
        last.set_xlabel(_below(len(found)), color=canvas.colours.quiet, fontsize=9.5)
        last.set_xlim(0, max(len(found), 1))
        count_axis(last.xaxis, 8)

    return drawn(
        title, _alt(found), _text(title, found), paint,
        heights=heights, inches=(6.2, 1.0 + sum(heights)), share=True, ax=ax,
    )  # fmt: skip


def _below(number: int) -> str:
    if number <= _BINS:
        return "fragments in table order"
    return f"fragments in table order; a bar is the mean of {count(-(-number // _BINS))}"


# ---- reading


def _map(snapshot: Snapshot) -> _Map:
    fragments = list(snapshot.manifest.fragments)
    ids = np.array([f.id for f in fragments], np.int64)
    compaction, notes = _compaction(snapshot, ids)
    return _Map(
        rows=np.array([f.num_rows for f in fragments], np.int64),
        deleted=np.array([f.num_deletions for f in fragments], np.int64),
        bytes=np.array([_bytes(fragment) for fragment in fragments], np.float64),
        files=np.array([len(f.files) for f in fragments], np.int64),
        cover=_cover(snapshot, ids),
        compaction=compaction,
        layout=_layout(snapshot),
        notes=notes,
    )


def _bytes(fragment: Fragment) -> float:
    # sizes in a manifest can be larger than an int64
    return float(sum(file.size_bytes or 0 for file in fragment.files))


def _cover(snapshot: Snapshot, ids: Numbers) -> tuple[_Strip, ...]:
    names = sorted({index.name for index in snapshot.indices if not index.is_system})
    strips = []
    for name in names[:_ROWS]:
        segments = [index for index in snapshot.indices if index.name == name]
        live = [id_ for index in segments for id_ in live_fragments(index, snapshot)]
        covered = np.isin(ids, np.array(live, np.int64))
        words = f"{count(int(covered.sum()))} of {count(len(ids))}"
        strips.append(_Strip(f"index {cut(clean(name), _NAME)}", covered.astype(np.int64), words))
    return tuple(strips)


def _compaction(snapshot: Snapshot, ids: Numbers) -> tuple[_Strip, tuple[str, ...]]:
    """Return the compaction strip (tasks: 1 and 2 in turn, left to an index: 3), and notes."""
    kinds, name = np.zeros(len(ids), np.int64), "compaction"
    try:
        options = CompactionOptions.parse({}, snapshot.manifest.config)
        plan = plan_compaction(snapshot, options)
    except LancekitError as error:
        return _Strip(name, kinds, "unknown"), (clean(error.message),)
    order = {int(id_): at for at, id_ in enumerate(ids)}
    into = 0
    for turn, task in enumerate(plan.tasks):
        rows = sum(fragment.num_rows for fragment in task.fragments)
        into += max(-(-rows // options.target_rows_per_fragment), 1)
        kinds[[order[fragment.id] for fragment in task.fragments]] = 1 + turn % 2
    left = {id_ for covered in plan.left_to_indices for id_ in covered.fragment_ids}
    kinds[[order[id_] for id_ in left if not kinds[order[id_]]]] = 3
    number = int(np.isin(kinds, (1, 2)).sum())
    words = f"{plural(number, 'fragment')} into about {count(into)}" if number else "nothing to do"
    short = f"{count(number)} into {count(into)}" if number else "nothing"
    if left:
        words += f"; {count(len(left))} skipped, since indices cover them"
    return _Strip(name, kinds, words, short), ()


def _layout(snapshot: Snapshot) -> tuple[_Strip, ...]:
    """Return strips of columns with the number of their data file in each fragment (0 for none)."""
    fields = snapshot.manifest.schema.fields
    kinds: dict[tuple[tuple[int, ...], ...], int] = {}
    which = np.array(
        [
            kinds.setdefault(tuple(tuple(file.fields) for file in fragment.files), len(kinds))
            for fragment in snapshot.manifest.fragments
        ],
        np.int64,
    )
    if all(len(files) <= 1 for files in kinds):
        return ()
    leaves = [{field.id, *(below.id for below in _below_of(field))} for field in fields]
    places = np.zeros((len(kinds), len(fields)), np.int64)
    for kind, at in kinds.items():
        file_of = {id_: number for number, ids in enumerate(kind, 1) for id_ in ids}
        places[at] = [max((file_of.get(id_, 0) for id_ in ids), default=0) for ids in leaves]
    groups = dict[bytes, list[int]]()
    for column in range(len(fields)):
        groups.setdefault(places[:, column].tobytes(), []).append(column)
    strips = []
    for group in list(groups.values())[:_ROWS]:
        name = cut(clean(fields[group[0]].name), _NAME)
        more = f" +{count(len(group) - 1)}" if len(group) > 1 else ""
        own = places[which, group[0]]
        summary = listing((f"file {number}" for number in np.unique(own[own > 0]).tolist()), 3)
        absent = int((own == 0).sum())
        summary += f"; missing in {plural(absent, 'fragment')}" if absent else ""
        strips.append(_Strip(f"{name}{more}", own, summary))
    return tuple(strips)


def _below_of(field: LanceField) -> list[LanceField]:
    return [below for child in field.children for below in (child, *_below_of(child))]


# ---- drawing


def _edges(number: int) -> Numbers:
    """Return the edges of the drawn columns: one column for each fragment, or for several."""
    step = max(-(-number // _BINS), 1)
    return np.append(np.arange(0, number, step), number)


def _mean(values: Numbers | Shares, edges: Numbers) -> Shares:
    if len(edges) < 2:
        return np.zeros(0)
    return np.asarray(np.add.reduceat(values.astype(np.float64), edges[:-1]) / np.diff(edges))


def _draw_rows(axes: Axes, found: _Map, edges: Numbers, canvas: Canvas) -> None:
    live, gone = _mean(found.rows, edges), _mean(found.deleted, edges)
    gap = 0.12 if len(edges) <= _BINS // 2 else 0.0
    wide = [(float(x), float(w)) for x, w in zip(edges, np.diff(edges), strict=False)]
    first, other = canvas.colours.series[:2]
    boxes(
        axes,
        ((x + gap * w / 2, 0, w * (1 - gap), y) for (x, w), y in zip(wide, live, strict=True)),
        facecolor=first,
    )
    boxes(
        axes,
        (
            (x + gap * w / 2, y, w * (1 - gap), d)
            for (x, w), y, d in zip(wide, live, gone, strict=True)
            if d
        ),
        facecolor=canvas.colours.ground, edgecolor=other, hatch="////", linewidth=0.8,
    )  # fmt: skip
    axes.set_ylim(0, max(float((live + gone).max(initial=0)) * 1.12, 1))
    axes.grid(axis="y", color=canvas.colours.line, linewidth=0.8)
    axes.set_axisbelow(True)
    count_axis(axes.yaxis)
    label(axes, "rows (hatched: deleted)" if found.deleted.any() else "rows", canvas.colours)


def _draw_bytes(axes: Axes, found: _Map, edges: Numbers, canvas: Canvas) -> None:
    y = _mean(found.bytes, edges)
    axes.stairs(y, edges, fill=True, color=canvas.colours.series[5], linewidth=0)
    top = float(y.max(initial=0))
    axes.set_ylim(0, max(top * 1.12, 1))
    axes.grid(axis="y", color=canvas.colours.line, linewidth=0.8)
    axes.set_axisbelow(True)
    bytes_axis(axes.yaxis, top, 2)
    label(axes, "size of data files", canvas.colours)


def _draw_strips(axes: Axes, found: _Map, edges: Numbers, canvas: Canvas) -> None:
    strips = [
        *((found.compaction, (2, 3, 1)),),
        *((strip, (0,)) for strip in found.cover),
        *((strip, (0, 1, 3, 4, 2, 5)) for strip in found.layout),
    ]
    for y, (strip, colours) in enumerate(strips):
        boxes(
            axes, [(0, y - 0.32, float(max(len(found), 1)), 0.64)],
            facecolor="none", edgecolor=canvas.colours.line, linewidth=0.8,
        )  # fmt: skip
        for kind in range(1, int(strip.kinds.max(initial=0)) + 1):
            share = _mean((strip.kinds == kind).astype(np.int64), edges)
            turn = (kind - 1) % len(colours)
            boxes(
                axes,
                _runs(share, edges, y),
                facecolor=canvas.colours.series[colours[turn]],
                edgecolor=canvas.colours.ground,
                hatch=HATCHES[turn],
            )
        axes.text(
            1.01, y, cut(strip.short or strip.summary, _NAME), transform=axes.get_yaxis_transform(),
            va="center", fontsize=9, color=canvas.colours.quiet, parse_math=False,
        )  # fmt: skip
    axes.set_yticks(range(len(strips)), [strip.name for strip, _ in strips])
    axes.set_ylim(len(strips) - 0.45, -0.55)
    label(axes, "compaction plan; index coverage; columns by data file", canvas.colours)


def _runs(share: Shares, edges: Numbers, y: float) -> list[tuple[float, float, float, float]]:
    """Return a box for each run of columns with the same share; the share is its height."""
    out = []
    starts = [0, *(np.flatnonzero(np.diff(share)) + 1).tolist(), len(share)]
    for first, end in pairwise(starts):
        if end > first and (part := float(share[first])) > 0:
            high = 0.64 * part
            left = float(edges[first])
            out.append((left, y + 0.32 - high, float(edges[end]) - left, high))
    return out


# ---- text


def _alt(found: _Map) -> str:
    rows, deleted = int(found.rows.sum()), int(found.deleted.sum())
    sentences = [
        f"{plural(len(found), 'fragment')} with {plural(rows, 'row')}"
        + (f" and {plural(deleted, 'deleted row')}" if deleted else "")
        + f", {size(int(found.bytes.sum()))} in {plural(int(found.files.sum()), 'data file')}."
    ]
    if len(found):
        low, middle, high = (int(np.quantile(found.rows, q)) for q in (0, 0.5, 1))
        sentences.append(
            f"Rows per fragment: {count(low)} to {count(high)}, median {count(middle)}."
        )
    sentences.append(f"Compaction: {found.compaction.summary}.")
    sentences += [f"{strip.name} covers {strip.summary}." for strip in found.cover]
    return " ".join([*sentences, *found.notes])


def _text(title: str, found: _Map) -> str:
    shape = [
        ("rows", sparkline(found.rows.tolist()), plural(int(found.rows.sum()), "row")),
        ("size", sparkline(found.bytes.tolist()), size(int(found.bytes.sum()))),
    ]
    if found.deleted.any():
        gone = int(found.deleted.sum())
        shape.insert(1, ("deleted", sparkline(found.deleted.tolist()), plural(gone, "row")))
    strips = [
        (strip.name, gauge(float((strip.kinds > 0).mean()) if len(found) else 0), strip.summary)
        for strip in (found.compaction, *found.cover, *found.layout)
    ]
    lines = [*columns(shape, 60), *columns(strips)]
    first = f"{title}: {plural(len(found), 'fragment')}, {plural(int(found.files.sum()), 'file')}"
    return "\n".join([first, *(f"  {line}" for line in [*lines, *found.notes])])
