"""What the tests of formats share."""

from collections.abc import Iterator

import pytest

from dataprep_converter import kernel


@pytest.fixture(scope="module", params=["kernel.c", "python"])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything twice: with kernel.c, as the machine has it, and without."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(kernel, "_library", lambda: None)
        yield
