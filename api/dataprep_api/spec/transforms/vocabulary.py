"""The transform `vocabulary`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, SplitName, rule, rules

MOST_TERMS = 100_000


class Vocabulary(Model):
    """Converts text to numbers using a list of terms. Use this transform for class labels or for the words of a text. Without `terms`, planning builds the vocabulary once, from one split."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.terms) || !(has(self.split) || has(self.minCount) || has(self.maxTerms) || has(self.order))",
                "split, minCount, maxTerms and order can't be combined with terms",
                path=".terms",
            )
        ),
    )

    columns: Annotated[list[Column], Field(min_length=1, max_length=64)]
    """Columns of text, or lists of text. All columns use the same vocabulary and become int64."""
    terms: Annotated[list[Annotated[str, Field(max_length=256)]], Field(min_length=1, max_length=4096)] | None = None
    """List of terms, in order of their numbers."""
    split: SplitName | None = None
    """Split to take the terms from. Default: the first split with records."""
    min_count: Annotated[int, Field(ge=1)] | None = None
    """Minimum occurrences of a term. Rarer terms are unknown. Default: 1."""
    max_terms: Annotated[int, Field(ge=1, le=MOST_TERMS)] | None = None
    """Maximum number of terms. The most frequent terms are kept. Default: all terms are kept, but more than 100,000 terms are an error."""
    order: Literal["Name", "Count"] | None = None
    """Order of the terms. `Name` (the default): terms are sorted by their UTF-8 bytes. `Count`: terms are sorted by frequency, most frequent first. Terms of equal frequency are sorted by name."""
    unknown: Literal["Bad", "Last", "Drop"] = "Bad"
    """What happens to unknown terms. `Bad`: the record is bad. `Last`: the term gets the number after the last term. `Drop`: the term is left out of its list."""

    @model_validator(mode="after")
    def _check_terms(self) -> Self:
        if self.terms is not None:
            if any(value is not None for value in (self.split, self.min_count, self.max_terms, self.order)):
                raise ValueError("split, minCount, maxTerms and order can't be combined with terms")
            twice = next((term for term in self.terms if self.terms.count(term) > 1), None)
            if twice is not None:
                raise ValueError(f"the term {twice!r} is listed twice")
        return self
