"""Finds unidiomatic phrases. `python tests/lint/words.py PATH…` prints each discouraged phrase it finds, with a suggested
replacement, and exits with 1 if it finds any.

It reads comments, docstrings and other strings of Python files, and the prose of Markdown files. Add a phrase only if it is almost always
wrong, because people switch off a check that gives false alarms.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

PHRASES: Final[Mapping[str, str]] = {
    # pattern (a space matches any white space): what to write instead
    r"sees? to it that": "makes sure that",
    r"whom it concerns": "name who is affected",
    r"is the one(?=[.,;:)])": "say what happens to it: 'is used', 'wins'",
    r"what st(ands|ood)": "what is, or the name of the thing",
    r"st(ands?|ood) (in(?! for)|on|at|behind|beside|before|within|below|above|after|there)": "is in, comes after, is next to",
    r"that one must": "it must",
    r"on the way out": "when leaving, at exit",
    r"(is|are|was|were) left early": "stopped early",
    r"one spelling": "one form, one encoding",
    r"of which (it|this) is one": "including this one",
    r", for (it|they|there|nobody|he|she) (?!to)": "', because …', or a new sentence",
    r"hardly, for": "hardly, because",
    r"so many (bytes|rows|records|samples|values|files|shards|seconds|digits|words)": "this many, the given number of",
    r"what (is|was) there(?! to)": "name it: 'the existing …', 'its …'",
    r"that (is|are|was|were) there(?=[.,;:)]| already)": "that exists",
    r"nobody (has said|says)": "is not specified",
    r"it is told(?! by| apart)": "it is reported",
    r"in vain": "without success",
    r"shall": "must, should, is to",
    r"(held|holds?) (it |them |these |each |all )?against": "compared with",
    r"an own": "its own, a separate",
    r"what (is|are|was|were) no": "anything that isn't a …",
    r"(is|are|was|were) passed (over|by)": "is skipped, is ignored",
    r"l(et|ets|etting) go of": "release, free",
    r"all the same(?=[.,;:)])": "anyway",
    r"to be had": "available",
    r"oftener": "more often",
    r"(of|to|for) nobody": "of no one in particular, or say it actively",
    r"(lays?|laid) (each |it |them |rows )?by": "store, put aside",
    r"whence|thereof|therein|wherein|whosoever|albeit": "a modern word",
    r"hands? (it |them )?on(?=[.,;:)])": "passes on",
    r"(?<!# )Who (may|must|can|wants|reads|writes|asks|has|waits) (?![^.]*[?:])": "whoever, anyone who",
}
_FENCE: Final = re.compile(r"^( *)(```|~~~).*?^\1\2", re.DOTALL | re.MULTILINE)
_CODE: Final = re.compile(r"`[^`\n]+`")
_COMMENT: Final = re.compile(r"#+ ?")


def main(paths: Sequence[str]) -> int:
    """Print the phrases found in these files and folders. Return 1 if any were found."""
    hits = [hit for path in paths for file in files(Path(path)) for hit in check(file)]
    for hit in hits:
        sys.stdout.write(f"{hit}\n")
    return 1 if hits else 0


def files(path: Path) -> list[Path]:
    """Return the file itself, or the Python and Markdown files of a folder.

    This file and its test are left out, because they quote the phrases.
    """
    found = [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.md")])
    return [file for file in found if file.name not in ("words.py", "test_words.py")]


def check(file: Path) -> Iterator[str]:
    """Yield `file:line: the phrase: a better one` for each phrase in a file."""
    text = file.read_text(encoding="utf-8")
    for start, prose in sorted(python(text) if file.suffix == ".py" else [(1, markdown(text))]):
        for pattern, better in _COMPILED.items():
            for match in pattern.finditer(prose):
                line = start + prose.count("\n", 0, match.start())
                yield f"{file}:{line}: '{' '.join(match[0].split())}': {better}"


def python(source: str) -> Iterator[tuple[int, str]]:
    """Yield (first line, text) for each string and each block of comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if block and line != last + 1:
            yield last - len(block) + 1, "\n".join(block)
            block = []
        block.append(_COMMENT.sub("", token.string, count=1))
        last = line
    if block:
        yield last - len(block) + 1, "\n".join(block)


def markdown(text: str) -> str:
    """Return a page without its code. The line numbers stay the same."""
    return _CODE.sub("``", _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text))


def _pattern(phrase: str) -> re.Pattern[str]:
    flags = 0 if "Who " in phrase else re.IGNORECASE
    # Spaces within a look-behind aren't replaced, because a look-behind must have a fixed width.
    spaced = re.sub(r"(\(\?<!# \))| ", lambda match: match[1] or r"\s+", phrase)
    return re.compile(rf"\b(?:{spaced})" + (r"\b" if phrase[-1].isalpha() else ""), flags)


_COMPILED: Final = {_pattern(phrase): better for phrase, better in PHRASES.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
