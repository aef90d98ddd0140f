"""Combines an extended data set's earlier units, which must be unchanged, with its new units. No function here has side effects.

The earlier units keep their numbers, and the new units are appended, so that each plan begins with the previous plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api import canonical
from dataprep_api.dataset.plan import Earlier, PlanHead, SplitPlan
from dataprep_converter.core.errors import BadSpec, InputChanged
from dataprep_converter.core.tensors import pc
from dataprep_converter.sampling.split_assignments import SplitAssignments
from dataprep_converter.sampling.units import SCHEMA, UnitTable

_SHOWN: Final = 5
_PINNED: Final = ("root", "path", "offset", "row", "records", "size", "pin", "subset", "extra")
"""Columns of the earlier units that must be unchanged.

The URI can change, because an input is identified by its path relative to its root.
"""
_ANEW: Final = "set output.overwrite: Always, which rebuilds the whole data set"
TYPES: Final = ("were", "common", "kept")
"""Entries of a reader's state that give the types of times and decimals in the inputs. `check_types` compares the resulting types."""
_PASSING: Final = frozenset({"ignored", "warnings", *TYPES})
"""Entries of a reader's state that are allowed to change when a data set is extended."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Base:
    """The plan to be extended: a complete plan, or the beginning of one."""

    head: PlanHead
    """The head of the plan.

    Only the run id, the inputs, the reader and its state, the learned values, the splits and the earlier runs are valid.
    """
    content: Mapping[str, Any]
    """The spec without the source's URIs."""
    units: UnitTable
    codes: SplitAssignments | None

    @property
    def blocks(self) -> int:
        """Number of blocks of split codes."""
        return max((split.first_block + len(split.block_counts or []) for split in self.head.splits if split.code is not None), default=0)

    def shards_of(self, split: str) -> int:
        """Returns the number of shards of a split."""
        return sum(each.shards for each in self.head.splits if each.name == split)

    def as_earlier(self) -> Earlier:
        """Returns this plan's entry in the plan of the extension."""
        return Earlier(
            run_id=self.head.run_id,
            inputs_sha256=self.head.inputs_sha256,
            content=dict(self.content),
            units=len(self.units),
            samples=self.units.samples,
            splits=len(self.head.splits),
        )


@dataclass(frozen=True)
class Growth:
    """The current inputs, compared with the earlier plan's inputs."""

    earlier: UnitTable
    """The earlier plan's units, in the earlier plan's order, as described by the current listing."""
    added: UnitTable
    """The new units, numbered from 0."""

    def all_units(self) -> UnitTable:
        """Returns the earlier units, followed by the new units."""
        return _renumbered([self.earlier.table, self.added.table])


def find_growth(before: UnitTable, now: UnitTable) -> Growth:
    """Compares the units.

    Raises InputChanged, naming the inputs, if inputs of the earlier plan are missing or have changed.
    """
    old_keys, new_keys = before.keys(), now.keys()
    old, new = before.table, now.table
    missing = _uris_of_rows(old, np.flatnonzero(~np.isin(old_keys, new_keys)))
    if missing:
        raise InputChanged(
            f"{len(missing)} input{'s' * (len(missing) != 1)} whose records are in the data set "
            f"{'is' if len(missing) == 1 else 'are'} gone: {_abbreviate(missing)}. Put {'it' if len(missing) == 1 else 'them'} back, or {_ANEW}.",
            uri=missing[0],
        )
    is_known = np.isin(new_keys, old_keys)
    present = new.take(np.flatnonzero(is_known))
    order = _row_order(old)
    first, second = old.take(order), present.take(_row_order(present))
    changed = _uris_of_rows(second, _find_differing(first, second))
    if changed:
        raise InputChanged(
            f"{len(changed)} {'input has changed since its' if len(changed) == 1 else 'inputs have changed since their'} records "
            f"became part of the data set: {_abbreviate(changed)}. Put the old {'version' if len(changed) == 1 else 'versions'} back "
            f"and give the new files other names, or {_ANEW}.",
            uri=changed[0],
        )
    # The current rows, in the earlier plan's order.
    back = np.empty(len(old), np.int64)
    back[order] = np.arange(len(old))
    return Growth(earlier=_renumbered([second.take(back)]), added=_renumbered([new.take(np.flatnonzero(~is_known))]))


def check_frozen(base: Base, *, code_sha256: str | None, keys: Mapping[str, str], state: Mapping[str, Any]) -> None:
    """Raises BadSpec naming a change that affects how records are read: a change of the code, a key, the classes, or a column's type."""
    if code_sha256 != base.head.code_sha256:
        raise BadSpec(f"The files of spec.code differ from those that made the data set; use the same files, or {_ANEW}.")
    for variable, digest in keys.items():
        if base.head.keys.get(variable) != digest:
            difference = "doesn't contain the key" if variable in base.head.keys else "can't be compared with the key"
            raise BadSpec(
                f"The environment variable {variable}, the key of the transform hash, {difference} that made the data set; use that key, or {_ANEW}."
            )
    old_state, new_state = base.head.reader_state, state
    for name in sorted({*old_state, *new_state} - _PASSING):
        old, new = old_state.get(name), new_state.get(name)
        if _plain(old) == _plain(new):
            continue
        if name in ("classes", "names") and isinstance(old, list) and isinstance(new, list):
            more = [str(each) for each in new if each not in old]
            raise BadSpec(
                f"The new inputs have classes that the data set doesn't have: {_abbreviate(more)}. The data set's {len(old)} classes "
                f"keep their numbers, so no new class can be inserted between these classes. Leave these inputs out, or {_ANEW}."
            )
        raise BadSpec(
            f"With the new inputs, the source's {name} would be {_shorten(new)}, but the data set was made with {_shorten(old)}. Leave these inputs out, or {_ANEW}."
        )


def check_types(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Compares two results of `Pipeline.types`. Raises BadSpec naming a feature or column whose new type or unit differs."""
    for name, was in old.items():
        if new[name] != was:
            raise BadSpec(
                f"With the new inputs, {name} would be {new[name]}, but the data set was made with {was}. Leave these inputs out, or {_ANEW}."
            )


def renumber(split: SplitPlan, base: Base) -> SplitPlan:
    """Returns a split of the new units, renumbered for the complete data set.

    Raises BadSpec when the split's files would get different names than before.
    """
    earlier_template = next((each.template for each in base.head.splits if each.name == split.name and each.shards), split.template)
    if split.shards and earlier_template != split.template:
        raise BadSpec(
            f"The new inputs add splits, so the files of {split.name} would be named {split.template} instead of {earlier_template}. "
            f"Leave the new splits out, or {_ANEW}; an output.fileName with {{split}} works for any number of splits."
        )
    return split.model_copy(
        update={
            "ranges": [(start + base.units.samples, stop + base.units.samples) for start, stop in split.ranges],
            "first_block": base.blocks if split.code is not None else 0,
            "first_shard": base.shards_of(split.name),
        }
    )


def _renumbered(tables: Sequence[pa.Table]) -> UnitTable:
    """Joins the tables into one, with samples numbered from 0."""
    table = pa.concat_tables(tables)
    records = table["records"].to_numpy()
    first = np.cumsum(records) - records
    return UnitTable(table.set_column(SCHEMA.get_field_index("first"), SCHEMA.field("first"), pa.array(first, pa.int64())))


def _row_order(table: pa.Table) -> Rows:
    """Returns the row numbers sorted by file and position in the file."""
    rows: Rows = np.lexsort([table[name].to_numpy() for name in ("offset", "row", "key")])
    return rows


def _find_differing(first: pa.Table, second: pa.Table) -> Rows:
    """Returns the rows of the second table whose `_PINNED` values differ from the first table.

    Both tables have the same files, in the same order.
    """
    if len(first) == len(second):
        different = np.zeros(len(first), np.bool_)
        for name in _PINNED:
            different |= pc.not_equal(first[name], second[name]).to_numpy()
        return np.flatnonzero(different)
    keys = second["key"].to_numpy()
    old_counts, new_counts = (dict(zip(*np.unique(each["key"].to_numpy(), return_counts=True), strict=True)) for each in (first, second))
    return np.array([row for row, key in enumerate(keys) if old_counts[key] != new_counts[key]], np.int64)


def _uris_of_rows(table: pa.Table, rows: Rows) -> list[str]:
    return list(dict.fromkeys(str(uri) for uri in table["uri"].take(rows).to_pylist()))


def _abbreviate(uris: Sequence[str]) -> str:
    more = f" and {len(uris) - _SHOWN} more" if len(uris) > _SHOWN else ""
    return ", ".join(uris[:_SHOWN]) + more


def _plain(value: Any) -> bytes:
    return canonical.dumps(value)


def _shorten(value: Any) -> str:
    text = canonical.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
