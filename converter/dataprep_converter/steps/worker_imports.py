"""Imports the modules that worker processes need.

The modules are imported once, in the process from which the workers are forked (`fork_server.py`).
"""

from dataprep_converter.runtime import without_pandas

without_pandas.hide()

import pyarrow.compute  # noqa: E402, F401 - after pandas is hidden; `core/tensors.py` imports it when it is used

from dataprep_converter.core import native  # noqa: E402 - after pandas is hidden
from dataprep_converter.runtime import allocator  # noqa: E402 - after pandas is hidden
from dataprep_converter.steps import kinds, pool  # noqa: E402, F401 - after pandas is hidden
from dataprep_converter.steps.conversion import convert_work  # noqa: E402, F401 - after pandas is hidden

native.is_there()
allocator.tune_allocator()
