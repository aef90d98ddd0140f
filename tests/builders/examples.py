"""The number of examples that a property test tries.

Because every run tries different examples, `make test` tries only a fifth as many as `make nightly`.
"""

import os
from typing import Final

_WHOLE: Final = "EXAMPLES" in os.environ


def examples(count: int) -> int:
    """Return the number of examples for this run."""
    return count if _WHOLE else max(2, count // 5)
