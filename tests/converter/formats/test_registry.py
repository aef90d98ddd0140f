"""Each format has an entry with importable names in the registry, and a case in the tests that cover all formats."""

from pkgutil import resolve_name

import pytest
from tests.converter.formats.cases import CASES

from dataprep_api.formats import RULES
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.dataset.sidecars import METADATA
from dataprep_converter.dataset.sidecars.loaders import FRAMEWORKS
from dataprep_converter.formats.registry import FORMATS, format_of


def test_every_format_of_the_api_has_an_encoder_a_decoder_and_a_case() -> None:
    assert set(FORMATS) == set(RULES) == set(CASES)


@pytest.mark.parametrize("name", FORMATS)
def test_the_names_in_an_entry_lead_somewhere(name: str) -> None:
    entry = FORMATS[name]
    for place in (entry.encoder, entry.decoder, entry.croissant_columns, *entry.loaders.values(), *entry.programs.values()):
        assert place is None or callable(resolve_name(place))
    assert set(entry.loaders) <= set(FRAMEWORKS)
    assert set(entry.sidecars) <= set(METADATA)


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadSpec, match=r"^No format named 'hologram'; known: arrayRecord, arrow, .*, webdataset\.$"):
        format_of("hologram")
