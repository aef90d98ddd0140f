"""The notebooks that need no cluster run in a real Jupyter kernel, and have the outputs that are stored in them."""

import pytest
from tests.builders import notebooks

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("name", ["write-and-read", "run-here"])
def test_a_notebook_has_the_stored_outputs(name: str) -> None:
    notebooks.assert_as_stored(name, notebooks.run(name))
