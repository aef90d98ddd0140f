"""The transform `vocabulary`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, SplitName, rule, rules

MOST_TERMS = 100_000


class Vocabulary(Model):
    """Text to the number of its term. For class labels, or for the words of a text. Without `terms`, planning builds the vocabulary once, from one split."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.terms) || !(has(self.split) || has(self.minCount) || has(self.maxTerms) || has(self.order))",
                "split, minCount, maxTerms and order are for a vocabulary that is built, not for given terms",
                path=".terms",
            )
        ),
    )

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns of text, or lists of text. They share the vocabulary and become int64."""
    terms: Annotated[list[Annotated[str, Field(max_length=256)]], Field(min_length=1, max_length=4096)] | None = None
    """Terms, in order of number."""
    split: SplitName | None = None
    """Split to build it from. Default: the first one with any records."""
    min_count: Annotated[int, Field(ge=1)] | None = None
    """Rarer terms are unknown. Default: 1."""
    max_terms: Annotated[int, Field(ge=1, le=MOST_TERMS)] | None = None
    """Number of terms, at most. The most frequent ones are kept. Default: all, with an error above 100,000."""
    order: Literal["Name", "Count"] | None = None
    """Order of the numbers. `Name` (the default): by the terms' UTF-8 bytes. `Count`: the most frequent first, equals by name."""
    unknown: Literal["Bad", "Last", "Drop"] = "Bad"
    """What an unknown term does. `Bad`: the record is bad. `Last`: it gets the number after the last term. `Drop`: in a list, it is left out."""

    @model_validator(mode="after")
    def _given_or_built(self) -> Self:
        if self.terms is not None:
            if any(value is not None for value in (self.split, self.min_count, self.max_terms, self.order)):
                raise ValueError("split, minCount, maxTerms and order are for a vocabulary that is built, not for given terms")
            twice = next((term for term in self.terms if self.terms.count(term) > 1), None)
            if twice is not None:
                raise ValueError(f"the term {twice!r} is named twice")
        return self
