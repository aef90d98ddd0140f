"""Globs: patterns of paths, as sources and `script.outputs` have them."""

import re


def compiled(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stay within a folder, `**/` is any folders, `[…]` a set of characters."""
    out = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", pattern, re.DOTALL):
        known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        if part in known:
            out += known[part]
        elif part.startswith("[") and len(part) > 1:
            negated = part[1] == "!"
            out += f"[{'^/' if negated else ''}{re.escape(part[1 + negated : -1]).replace(chr(92) + '-', '-')}]"
        else:
            out += re.escape(part)
    return re.compile(out, re.DOTALL)
