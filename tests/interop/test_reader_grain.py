"""The reader as a dataset of Grain, with Grain and JAX: states, processes, ranks."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.builders.data_sets import data_set, lines
from tests.builders.pages import PACKAGES, python_code, to_paste

import environments

pytestmark = pytest.mark.interop

READERS = Path(__file__).parent / "readers"
COUNT = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    features: list[dict[str, Any]] = [{"name": "n"}, {"name": "v", "columns": ["a", "b"]}, {"name": "image_raw", "columns": ["a", "b"]}]
    return data_set(tmp_path_factory.mktemp("grain"), lines(COUNT), features)


@pytest.fixture(scope="module")
def said(folder: Path) -> Any:
    return json.loads(environments.run("grain", READERS / "read_by_grain.py", [":".join(PACKAGES), folder], {"JAX_PLATFORMS": "cpu"}))


def test_jax_computes_with_the_arrays(said: Any) -> None:
    whole = [n + n / 8 - n for n in range(COUNT)]
    assert said["sums"] == [sum(whole[first : first + 16]) for first in range(0, COUNT, 16)]


def test_an_iterator_goes_on_at_a_state_with_and_without_processes(said: Any) -> None:
    for begin, rest, rest_again in said["restored"]:
        assert rest_again == rest
        assert sorted(begin + rest) == sorted([*range(COUNT), *range(COUNT)])


def test_states_of_all_ranks_are_taken_up_by_another_number_of_ranks(said: Any) -> None:
    assert sorted(said["taken_up"]) == list(range(COUNT))


def test_the_code_in_the_docs_works(folder: Path, tmp_path: Path) -> None:
    code = python_code("docs/reading.md", "## JAX")
    wanted = to_paste(tmp_path / "wanted.json", code, packages=["grain"], uri=str(folder), rank=0, world_size=1)
    said = json.loads(environments.run("grain", READERS / "pasted.py", [wanted], {"JAX_PLATFORMS": "cpu"}))
    assert sorted(pair for images, _ in said["calls"] for pair in images) == sorted([n / 8, -float(n)] for n in range(COUNT))
