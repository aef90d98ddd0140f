"""Checks the limits of `onBadRecord`."""

from dataprep_api.spec import BadRecords


def too_many(policy: BadRecords, *, bad: int, total: int) -> str | None:
    """Returns an error message if a data set has more bad records than the policy allows, or else None."""
    if policy.max_count is not None and bad > policy.max_count:
        return f"{bad} {'records are' if bad > 1 else 'record is'} bad, more than onBadRecord.maxCount {policy.max_count} allows"
    if policy.max_fraction is not None and bad > policy.max_fraction * total:
        return (
            f"{bad} of {total} records {'are' if bad > 1 else 'is'} bad, more than onBadRecord.maxFraction {policy.max_fraction:g} allows"
        )
    return None
