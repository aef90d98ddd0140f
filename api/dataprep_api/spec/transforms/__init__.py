"""`spec.transforms`: one entry, one member."""

from typing import ClassVar

from dataprep_api.spec.model import OneOf
from dataprep_api.spec.transforms.numbers import OneHot, Scale


class Transform(OneOf):
    """One step of the way from source to record: exactly one member."""

    what: ClassVar[str] = "transform"

    scale: Scale | None = None
    one_hot: OneHot | None = None
