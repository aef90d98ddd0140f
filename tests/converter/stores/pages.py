"""Reads the example and the quoted errors from each store's page of the documentation.

The examples contain made-up hosts, buckets and accounts. A test replaces these with those of its test server, and leaves everything else
unchanged. In a quoted error, `…` matches any text.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dataprep_api.resources.job import DataPrepJob

FOLDER = Path(__file__).resolve().parents[3] / "docs/stores"

_YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
_ROW = re.compile(r"^\| ([^|]*) \|(?:.*\|)? `([^`|]*)` \|$", re.MULTILINE)


def example(page: str, here: Mapping[str, str]) -> DataPrepJob:
    """Return the job on a page, with the page's hosts, buckets and accounts replaced as in `here`."""
    blocks = [block for block in _YAML.findall(_text(page)) if "kind: DataPrepJob" in block]
    if len(blocks) != 1:
        raise AssertionError(f"{page} has {len(blocks)} jobs, expected one.")
    written = blocks[0]
    for there in here:
        if there not in written:
            raise AssertionError(f"The job of {page} doesn't have {there}.")
    document: dict[str, Any] = yaml.safe_load(_placed(written, here))
    return DataPrepJob.parse(document)


def errors(page: str, section: str) -> list[str]:
    """Return the errors in the last column of the section's table."""
    return [error for _, error in rows(page, section)]


def rows(page: str, section: str) -> list[tuple[str, str]]:
    """Return the first and the last column of the section's table: the missing step and the error."""
    found = re.search(rf"^#+ {re.escape(section)}\n(.*?)(?=^#|\Z)", _text(page), re.DOTALL | re.MULTILINE)
    if found is None:
        raise AssertionError(f"{page} has no section {section}.")
    return _ROW.findall(found[1])


def says(quoted: str, real: str, here: Mapping[str, str]) -> bool:
    """Return whether an error quoted on a page matches the real error."""
    return re.fullmatch(".*".join(re.escape(part) for part in _placed(quoted, here).split("…")), real, re.DOTALL) is not None


def _placed(text: str, here: Mapping[str, str]) -> str:
    # Replace the longest names first, because a host's name can contain the region's name.
    for there in sorted(here, key=len, reverse=True):
        text = text.replace(there, here[there])
    return text


def _text(page: str) -> str:
    return (FOLDER / page).read_text(encoding="utf-8")
