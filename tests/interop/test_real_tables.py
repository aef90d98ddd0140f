"""Tables that other people made go through `infer`, `run` and `verify` unchanged.

Every value must be the one that pandas, json or pyarrow reads.
"""

import os
from pathlib import Path

import pytest
from tests.interop.real_tables import Table, page, results, tables

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs/real-data.md"
REPORT = "REAL_DATA_REPORT"
SOME = (
    "airports.csv", "elements.csv", "les_mis.json", "titanic_all.csv",  # from bokeh, and the first also from vega_datasets
    "autompg.csv.gz", "wine.csv",  # from mlxtend
    "penguins-raw.csv", "msleep.csv",  # from palmerpenguins and plotnine
    "parquet/v0.7.1.parquet", "parquet/v0.7.1.all-named-index.parquet",  # from pyarrow
    "COUNT/nuts.csv", "Ecdat/Schooling.csv", "MASS/npk.csv", "car/Florida.csv", "sandwich/PublicSchools.csv",  # from pydataset
    "diabetes_target.csv.gz", "iris.csv",  # from scikit-learn
    "scotland/src/scotvote.csv", "scotland/src/scotland_population.csv",  # from statsmodels
    "cars.json", "la-riots.csv", "stocks.csv", "wheat.json",  # from vega_datasets
)  # fmt: skip
"""Tables that `make test` converts: they cover every package, every file extension, and columns with and without nulls.

Two of the tables are refused.
"""


@pytest.fixture(scope="module")
def every_table(tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    return tables(tmp_path_factory.mktemp("tables"))


def test_the_page_lists_every_table(every_table: list[Table]) -> None:
    listed = [tuple(line.split("|")[1:3]) for line in PAGE.read_text().splitlines() if line.startswith("|") and "`" in line]
    assert sorted(listed) == sorted((f" {table.package} ", f" `{table.name}` ") for table in every_table)


def test_some_tables_are_as_the_page_says(every_table: list[Table], tmp_path: Path) -> None:
    chosen = [table for table in every_table if table.name in SOME]
    assert {table.name for table in chosen} == set(SOME)
    assert {table.package for table in chosen} == {table.package for table in every_table}
    assert {table.path.suffix for table in chosen} == {table.path.suffix for table in every_table}
    lines = set(PAGE.read_text().splitlines(keepends=True))
    assert [found.line for found in results(chosen, tmp_path) if found.line not in lines] == []


@pytest.mark.nightly
def test_every_table_is_as_the_page_says(every_table: list[Table], tmp_path: Path) -> None:
    """With REAL_DATA_REPORT=FILE, writes the page to the file instead of comparing it."""
    written = page(results(every_table, tmp_path))
    if wanted := os.environ.get(REPORT):
        Path(wanted).write_text(written, encoding="utf-8")
    else:
        assert written == PAGE.read_text()
