"""Which columns of a source a mapping takes, and what it does with them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import polars as pl

from toolkit.imports.files.literals import holds
from toolkit.imports.files.paths import expression, fields_of
from toolkit.imports.files.records import AROUND, Records
from toolkit.imports.map.expressions import roots
from toolkit.imports.map.mapping import ROW_ORDER, ImportMapping, Value
from toolkit.imports.rows.sources import PLACES, SourceRules
from toolkit.log import schema_of


def source_rules(plan: ImportMapping) -> SourceRules:
    """What the mapping says of reading its files."""
    around = tuple(dict.fromkeys(name for value in every_value(plan) for name in fields_of(value, AROUND)))
    records = Records(plan.records, around) if plan.records is not None else None
    joined = plan.join.file if plan.join is not None else None
    return SourceRules(text_columns(plan), records, plan.path, joined)


def counted_from_zero(plan: ImportMapping) -> list[str]:
    """A note on each place in a list that SQL would count from 1, as mappings once did."""
    told = dict.fromkeys(
        use.path.text
        for value in every_value(plan)
        if isinstance(value, str)
        for use in expression(value).places.values()
        if len(use.path.steps) == 1 and isinstance(use.path.steps[0], int) and use.path.steps[0] > 0
    )
    return [f"`{path}` counts from 0: `{path.rpartition('[')[0]}[0]` is the first" for path in told]


def every_value(plan: ImportMapping) -> Iterator[Value]:
    """All values of a mapping that may be expressions."""
    yield plan.where or ""
    yield from (one.path for together in plan.explode for one in together)
    yield from (plan.join.on.values() if plan.join is not None else ())
    yield from _of_rows(plan)


def text_columns(plan: ImportMapping) -> frozenset[str]:
    """The source's columns of which the mapping makes texts: their numbers are kept as they are written."""
    made = [plan.examples.columns, *(table.columns for table in plan.traces), *(table.parent for table in plan.traces)]
    contract = {**schema_of("verifications"), **schema_of("traces"), **schema_of("examples")}
    found = [value for table in made for name, value in table.items() if holds(contract[name].dtype, pl.String)]
    found += [verifier["verifier"] for table in plan.traces for verifier in table.verifiers]
    names = roots(found)
    return frozenset(names) | {name.removesuffix("_right") for name in names}


def needed_columns(plan: ImportMapping, columns: Collection[str]) -> list[str]:
    """The columns, of those that there are, of which examples and traces are made, and the places of rows."""
    found = {*roots(_of_rows(plan), columns), *PLACES}
    return [name for name in columns if name in found]


def _of_rows(plan: ImportMapping) -> Iterator[Value]:
    for table in (plan.examples, *plan.traces):
        yield from (*table.columns.values(), *table.extra.values())
    for traces in plan.traces:
        yield from (traces.where or "", *traces.parent.values(), *traces.features.values())
        yield from (value for verifier in traces.verifiers for value in verifier.values())


def is_constant(value: Value) -> bool:
    """Whether a value is the same in every row."""
    return not isinstance(value, str) or re.fullmatch(r"\s*'[^']*'\s*", value) is not None


def by_row_order(plan: ImportMapping) -> list[int]:
    """The `[traces]` tables whose samples have no index of their own."""
    return [index for index, table in enumerate(plan.traces) if table.columns["sample_index"] == ROW_ORDER]
