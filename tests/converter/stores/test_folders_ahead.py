"""Listing several folders at the same time has the same result as listing them one after another."""

import threading
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples

from dataprep_converter.core.errors import NotPermitted
from dataprep_converter.stores import Entry, folders_ahead
from dataprep_converter.stores.folders_ahead import AT_ONCE, files_in_order

Tree = Mapping[str, Any]
"""Maps names to trees, or to None for files."""

FOLDERS: Final = {f"{folder:03d}": {f"{name}.jpg": None for name in range(5)} for folder in range(40)}


class PlayedTree:
    """Folders in memory, which count how often each folder is listed."""

    def __init__(self, tree: Tree, *, comes_in_parts: bool = False) -> None:
        self.tree = tree
        self.comes_in_parts = comes_in_parts
        self.listed: list[str] = []
        self.forbidden: set[str] = set()

    def children(self, folder: str) -> list[Entry | str] | Iterator[Entry | str]:
        self.listed.append(folder)
        if folder in self.forbidden:
            raise NotPermitted(f"{folder} is closed")
        inside = self._at(folder)
        names = sorted(f"{name}/" if inside[name] is not None else name for name in inside)
        children = [f"{folder}{name}" if name.endswith("/") else Entry(f"{folder}{name}", 1, "") for name in names]
        return iter(children) if self.comes_in_parts else children

    def files(self, folder: str = "") -> list[str]:
        """Return the paths of the files, listed one after another."""
        found: list[str] = []
        for child in PlayedTree(self.tree).children(folder):
            found.extend([child.uri] if isinstance(child, Entry) else self.files(child))
        return found

    def _at(self, folder: str) -> Tree:
        inside = self.tree
        for name in folder.split("/")[:-1]:
            inside = inside[name]
        return inside


def _paths(tree: PlayedTree) -> list[str]:
    return [entry.uri for entry in files_in_order(tree.children, "", recursive=True)]


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("listing")]


_NAMES: Final = st.sampled_from(["a", "a-b", "a.b", "b", "é", "漢", "0", "10"])
_TREES: Final = st.recursive(st.none(), lambda below: st.dictionaries(_NAMES, below, max_size=5), max_leaves=30).filter(
    lambda tree: tree is not None
)


@given(tree=_TREES, comes_in_parts=st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_any_tree_is_listed_in_order_and_each_folder_once(tree: Tree, comes_in_parts: bool) -> None:
    played = PlayedTree(tree, comes_in_parts=comes_in_parts)
    assert _paths(played) == played.files()
    assert len(set(played.listed)) == len(played.listed)
    assert _threads() == []


def test_subfolders_are_listed_at_the_same_time() -> None:
    # From the tenth folder on, each listing waits until eight folders are being listed at the same time.
    meeting = threading.Barrier(AT_ONCE)

    class Meeting(PlayedTree):
        def children(self, folder: str) -> list[Entry | str] | Iterator[Entry | str]:
            if 10 <= int(folder.strip("/") or 0) < 10 + AT_ONCE:
                meeting.wait(timeout=60)
            return super().children(folder)

    played = Meeting(FOLDERS)
    assert _paths(played) == played.files()
    assert not meeting.broken


@pytest.mark.parametrize("comes_in_parts", [True, False])
def test_only_the_next_subfolders_are_requested(comes_in_parts: bool) -> None:
    played = PlayedTree(FOLDERS, comes_in_parts=comes_in_parts)
    for number, entry in enumerate(files_in_order(played.children, "", recursive=True)):
        assert entry.uri == played.files()[number]
        assert len(played.listed) <= number // 5 + 2 + AT_ONCE


def test_large_subfolders_are_requested_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders_ahead, "_FILES_AHEAD", 50)
    played = PlayedTree({f"{folder}": {f"{name:03d}": None for name in range(60)} for folder in range(5)})
    for number, _ in enumerate(files_in_order(played.children, "", recursive=True)):
        assert len(played.listed) <= number // 60 + 3


def test_without_its_subfolders_a_folder_takes_one_request() -> None:
    played = PlayedTree({**FOLDERS, "file": None})
    assert [entry.uri for entry in files_in_order(played.children, "", recursive=False)] == ["file"]
    assert played.listed == [""]


def test_an_error_comes_after_the_files_before_it() -> None:
    played = PlayedTree(FOLDERS)
    played.forbidden.add("020/")
    expected = PlayedTree(FOLDERS).files()[: 20 * 5]
    files = files_in_order(played.children, "", recursive=True)
    assert [entry.uri for entry in islice(files, len(expected))] == expected
    with pytest.raises(NotPermitted, match="020/ is closed"):
        next(files)
    assert _threads() == []


def test_an_error_in_the_middle_of_a_folder_comes_after_the_files_before_it() -> None:
    def children(_: str) -> Iterator[Entry]:
        yield Entry("first", 1, "")
        raise NotPermitted("no more")

    files = files_in_order(children, "", recursive=True)
    assert next(files).uri == "first"
    with pytest.raises(NotPermitted, match="no more"):
        next(files)


def test_a_closed_listing_leaves_no_threads() -> None:
    played = PlayedTree(FOLDERS)
    files = files_in_order(played.children, "", recursive=True)
    next(files)
    files.close()
    assert _threads() == []
    assert len(played.listed) < len(FOLDERS)
