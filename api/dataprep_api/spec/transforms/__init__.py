"""`spec.transforms`: a list in which each entry sets exactly one member."""

from typing import ClassVar

from dataprep_api.spec.model import OneOf
from dataprep_api.spec.transforms.columns import Drop, FillNulls, Filter, Hash, Rename, Select, TokenizeSplit
from dataprep_api.spec.transforms.images import CropOrPad, Decode, Encode, Resize, Standardize
from dataprep_api.spec.transforms.map import Map
from dataprep_api.spec.transforms.numbers import Cast, OneHot, Scale
from dataprep_api.spec.transforms.vocabulary import Vocabulary


class Transform(OneOf):
    """One transform: set exactly one member."""

    what: ClassVar[str] = "transform"

    scale: Scale | None = None
    one_hot: OneHot | None = None
    select: Select | None = None
    drop: Drop | None = None
    rename: Rename | None = None
    filter: Filter | None = None
    fill_nulls: FillNulls | None = None
    hash: Hash | None = None
    tokenize_split: TokenizeSplit | None = None
    vocabulary: Vocabulary | None = None
    map: Map | None = None
    decode: Decode | None = None
    resize: Resize | None = None
    crop_or_pad: CropOrPad | None = None
    standardize: Standardize | None = None
    cast: Cast | None = None
    encode: Encode | None = None
