"""Tables that other people made: `infer`, `run` and `verify` as they are, and every value as pandas, json or pyarrow reads it."""

import os
from pathlib import Path

import pytest
from tests.interop.real_tables import Table, page, results, tables

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs/real-data.md"
REPORT = "REAL_DATA_REPORT"
WHOLE = ("vega_datasets", "scikit-learn", "palmerpenguins", "pyarrow")
"""Packages of which `make test` converts every table."""
SOME = (
    "airports.csv", "antibiotics.csv", "autompg.csv.gz", "CGM.csv.gz", "elements.csv", "gapminder_regions.csv", "iris.csv.gz", "les_mis.json",
    "msleep.csv", "presidential.csv", "scotland/src/scotvote.csv", "scotland/src/scotland_population.csv", "titanic_all.csv", "wine.csv",
)  # fmt: skip
"""Tables of the other packages."""


def is_chosen(number: int, table: Table) -> bool:
    """Whether `make test` converts a table."""
    return table.package.startswith(WHOLE) or table.name in SOME or (table.package.startswith("pydataset") and number % 40 == 0)


@pytest.fixture(scope="module")
def every_table(tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    return tables(tmp_path_factory.mktemp("tables"))


def test_the_page_lists_every_table(every_table: list[Table]) -> None:
    listed = [tuple(line.split("|")[1:3]) for line in PAGE.read_text().splitlines() if line.startswith("|") and "`" in line]
    assert sorted(listed) == sorted((f" {table.package} ", f" `{table.name}` ") for table in every_table)


def test_some_tables_are_as_the_page_says(every_table: list[Table], tmp_path: Path) -> None:
    chosen = [table for number, table in enumerate(every_table) if is_chosen(number, table)]
    assert len(chosen) >= 60
    lines = set(PAGE.read_text().splitlines(keepends=True))
    assert [found.line for found in results(chosen, tmp_path) if found.line not in lines] == []


@pytest.mark.nightly
def test_every_table_is_as_the_page_says(every_table: list[Table], tmp_path: Path) -> None:
    """With REAL_DATA_REPORT=FILE, writes the page."""
    written = page(results(every_table, tmp_path))
    if wanted := os.environ.get(REPORT):
        Path(wanted).write_text(written, encoding="utf-8")
    else:
        assert written == PAGE.read_text()
