"""The transform `vocabulary`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, SplitName, rule, rules

MOST_TERMS = 100_000


class Vocabulary(Model):
    """Text to the number of its term: a class label, or the words of a text. Without `terms` it is built once, while planning, from one split."""

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
    """Columns of text, or of lists of text, that share the vocabulary. They become int64."""
    terms: Annotated[list[Annotated[str, Field(max_length=256)]], Field(min_length=1, max_length=4096)] | None = None
    """The terms in the order of their numbers."""
    split: SplitName | None = None
    """The split whose records are looked at. Default: the first one that has any."""
    min_count: Annotated[int, Field(ge=1)] | None = None
    """Terms that are there less often are unknown. Default: 1."""
    max_terms: Annotated[int, Field(ge=1, le=MOST_TERMS)] | None = None
    """Most terms, the most frequent ones. Default: all, and an error above 100,000."""
    order: Literal["Name", "Count"] | None = None
    """Order of the numbers: by the terms' UTF-8 bytes (the default), or the most frequent first and equals by name."""
    unknown: Literal["Bad", "Last", "Drop"] = "Bad"
    """A term that the vocabulary doesn't have: the record is bad; it gets the number behind the last term; or, in a list, it is left out."""

    @model_validator(mode="after")
    def _given_or_built(self) -> Self:
        if self.terms is not None:
            if any(value is not None for value in (self.split, self.min_count, self.max_terms, self.order)):
                raise ValueError("split, minCount, maxTerms and order are for a vocabulary that is built, not for given terms")
            twice = next((term for term in self.terms if self.terms.count(term) > 1), None)
            if twice is not None:
                raise ValueError(f"the term {twice!r} is named twice")
        return self
