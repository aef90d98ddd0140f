"""The table of format rules is complete, and the spec, file names and messages follow it."""

from typing import get_args

import pytest

from dataprep_api import formats, names
from dataprep_api.formats import COPY, RULES, FormatName, format_rules
from dataprep_api.spec import Output
from dataprep_api.spec.model import Model


def test_every_format_has_rules() -> None:
    assert set(get_args(FormatName)) == set(RULES)
    assert set(get_args(Output.model_fields["format"].annotation)) == {*RULES, COPY}


@pytest.mark.parametrize("name", RULES)
def test_every_format_has_options(name: str) -> None:
    assert isinstance(Output.model_validate({"uri": "out", "format": name}).options, Model)


def test_a_copy_has_no_rules_and_no_options() -> None:
    assert format_rules(COPY) == formats.FormatRules()
    with pytest.raises(KeyError):
        _ = Output.model_validate({"uri": "out", "format": COPY}).options


@pytest.mark.parametrize("name", RULES)
def test_a_split_file_stands_beside_shards_of_its_extension(name: str) -> None:
    of_splits = RULES[name].split_file
    if of_splits is not None:
        assert names.split_files(f"{of_splits.extension}.zstd", ["train/a", "b"]) == {f"train/{of_splits.name}", of_splits.name}
