"""How many examples a property test tries.

Every run tries different examples, so `make test` needs to try only a fifth as many as `make nightly`.
"""

import os
from typing import Final

_WHOLE: Final = "EXAMPLES" in os.environ


def examples(count: int) -> int:
    """Return the number of examples for this run."""
    return count if _WHOLE else max(2, count // 5)
