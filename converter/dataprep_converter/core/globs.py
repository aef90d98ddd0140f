"""Globs: the path patterns in sources and in `script.outputs`."""

import re


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a glob. `*` and `?` match within a folder, `**/` matches any number of folders, and `[…]` is a set of characters."""
    out = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", pattern, re.DOTALL):
        wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        if part in wildcards:
            out += wildcards[part]
        elif part.startswith("[") and len(part) > 1:
            negated = part[1] == "!"
            out += f"[{'^/' if negated else ''}{re.escape(part[1 + negated : -1]).replace(chr(92) + '-', '-')}]"
        else:
            out += re.escape(part)
    return re.compile(out, re.DOTALL)
