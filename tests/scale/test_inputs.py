"""Tests the inputs of `make memory` with small sizes: each is converted completely, and its check detects missing records."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders.jobs import run_spec
from tests.scale import inputs


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(inputs.KINDS.keys() - {"join"}))
def test_every_record_of_an_input_is_found_again(kind: str, tmp_path: Path) -> None:
    made = inputs.KINDS[kind](tmp_path, 300_000)
    run_spec(made.spec | {"output": {"uri": str(tmp_path / "out"), "shards": {"count": 3}}})
    inputs.check(tmp_path / "out", made)

    assert made.records > 5
    with pytest.raises(AssertionError, match="1 of .* records are missing"):
        inputs.check(tmp_path / "out", replace(made, records=made.records + 1))
