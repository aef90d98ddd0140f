"""Lets objects that earlier releases stored keep list items without a key. Server-side apply now merges these lists by key.

Earlier CRDs accepted pod fields of any shape, such as a volume without a name. If a stored item lacks a key of its list, the API server can
neither apply the object's status nor change its finalizers. So, in items with unchecked fields, each key defaults to an empty string, and a
rule refuses new items with an empty key. `minLength` and `required` can't be used, because the API server validates even an unchanged item
if it has fields that the schema doesn't name.
"""

from typing import Any

from dataprep_api.spec.model import rule


# Any, because a schema is a JSON object.
def with_lenient_keys(items: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """Return `items`, the schema of a list's items, changed so that stored items may lack their keys. A schema without unchecked fields
    stays unchanged."""
    if "x-kubernetes-preserve-unknown-fields" not in items:
        return items
    members = {name: _lenient(member) if name in keys else member for name, member in items["properties"].items()}
    required = [name for name in items["required"] if name not in keys]
    are_set = " && ".join(f"self.{key} != ''" for key in keys)
    # The API server matches items by key, so `oldSelf` is the stored item that also has an empty key.
    key_rule = rule(
        f"{are_set} || oldSelf.hasValue()", f"{' and '.join(keys)} must be set", path=f".{keys[0]}", reason="FieldValueRequired"
    )
    rest = {keyword: value for keyword, value in items.items() if keyword != "required"}
    return rest | {
        **({"required": required} if required else {}),
        "properties": members,
        "x-kubernetes-validations": [key_rule | {"optionalOldSelf": True}, *items.get("x-kubernetes-validations", [])],
    }


def _lenient(member: dict[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in member.items() if keyword != "minLength"} | {"default": ""}
