"""The page that lists all fields is current and complete."""

from pathlib import Path

from tests.builders.definitions import every_schema

from dataprep_api.generate import crd, fields_page

ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_current() -> None:
    assert (ROOT / fields_page.FILE).read_text() == fields_page.page(), "run `make generate`"


def test_every_field_of_a_job_is_on_the_page() -> None:
    page = fields_page.page()
    names = {path.rpartition(".")[2] for path, _ in every_schema(crd.job_schema())} - {"", "items", "additionalProperties"}

    assert [name for name in names - {"apiVersion", "kind", "metadata", "spec", "status"} if f"`{name}`" not in page] == []


def test_it_has_the_whole_text_of_which_the_definition_has_the_first_sentence() -> None:
    assert '| `delimiter` | string | `","` | Cell separator. The separator is one ASCII character. |' in fields_page.page()


def test_an_object_that_is_used_twice_is_written_once() -> None:
    page = fields_page.page()

    assert page.count("| `skipLines` |") == 3
    assert "Its fields are those of `DataPrepJob.spec.source.csv`." in page
