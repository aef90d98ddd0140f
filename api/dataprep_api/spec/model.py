"""The building blocks of the spec's models: the base class, CEL rules, unions, and the types of strings and numbers."""

import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from dataprep_api import quantity
from dataprep_api.redaction import has_user, unsigned
from dataprep_api.spec import descriptions


def rule(expression: str, message: str, *, path: str = "", reason: str = "") -> dict[str, str]:
    """Return one CEL rule of `x-kubernetes-validations`. Without a reason, the API server uses FieldValueInvalid."""
    optional = {"reason": reason, "fieldPath": path}
    return {"rule": expression, "message": message} | {key: value for key, value in optional.items() if value}


def count(*conditions: str) -> str:
    """Return a CEL expression that counts how many of the conditions are true."""
    return f"[{', '.join(conditions)}].filter(x, x).size()"


def rules(*entries: dict[str, str]) -> dict[str, Any]:
    """Return CEL rules in the form of a model's `json_schema_extra`."""
    return {"x-kubernetes-validations": list(entries)}


class _Described(BaseModel):
    """Uses the docstring below each field as the field's description in the schema."""

    # Any, because pydantic's type for a schema is not public.
    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Add the fields' descriptions to the schema."""
        schema = handler(core)
        properties: dict[str, Any] = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in descriptions.of_fields(cls).items():
            if name in cls.model_fields:
                properties[cls.model_fields[name].alias or name].setdefault("description", text)
        return schema


class Model(_Described):
    """The base class of the models. Names are camelCase in YAML and snake_case in Python, unknown fields are refused, and objects are frozen.

    Validators are built only when they are first needed, so that a process that reads a job starts quickly. All validators of a complete
    job are built in one step.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        defer_build=True,
        hide_input_in_errors=True,
        validate_default=True,
    )


class Open(_Described):
    """A Kubernetes object that is passed on unchecked. The API server checks the object's fields when the pod is created."""

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})


def model_in(annotation: object) -> type[BaseModel] | None:
    """Return the first model class within a type such as `list[Split] | None`."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in typing.get_args(annotation) if (model := model_in(inner)) is not None), None)


NEW: Final = "new"
"""A key in the context of `model_validate`. If its value is true, also apply rules that objects stored by earlier releases may break."""


@dataclass(frozen=True)
class SharedList:
    """Marks a list whose items can have different managers in server-side apply.

    `keys` are the fields that identify an item (list type `map`). Without keys, an item is identified by its value (list type `set`).
    Unmarked lists are `atomic`: each apply replaces the complete list. In lists that describe the data set, the order of the items affects
    the output's bytes, so one manager must own the complete list.
    """

    keys: tuple[str, ...] = ()

    # Any, because pydantic's type for a source type is Any.
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuse duplicates in new objects, as the API server does."""
        return core_schema.with_info_after_validator_function(self._check_unique, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Add the keywords of the list type."""
        if not self.keys:
            return handler(core) | {"x-kubernetes-list-type": "set"}
        return handler(core) | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(self.keys)}

    # Any, because the items are strings or models.
    def _check_unique(self, items: list[Any], info: ValidationInfo) -> list[Any]:
        if not isinstance(info.context, Mapping) or not info.context.get(NEW):
            return items
        numbers: dict[object, int] = {}
        for number, item in enumerate(items):
            first = numbers.setdefault(self._identity(item), number)
            if first != number:
                *others, last = self.keys or ("value",)
                names = f"{', '.join(others)} and {last}" if others else last
                raise ValueError(f"the items {first} and {number} have the same {names}")
        return items

    def _identity(self, item: Any) -> object:
        values = item.model_dump(by_alias=True) if isinstance(item, BaseModel) else item
        return tuple(values.get(key) for key in self.keys) if self.keys else repr(values)


def _check_quantity(value: int | str) -> int | str:
    quantity.to_bytes(value)
    return value


def _check_resource(value: int | str) -> int | str:
    if re.fullmatch(quantity.RESOURCE_PATTERN, str(value)) is None:
        raise ValueError(f"expected a Kubernetes quantity such as 500m, 2 or 4Gi, got {value!r}")
    return value


class OneOf(Model):
    """A union of which exactly one member must be set. The CEL rule and its message list the members of the class."""

    what: ClassVar[str]
    """The union's name in messages, such as `source`."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Write the CEL rule for the members of the class."""
        names = cls.members()
        number = count(*(f"has(self.{name})" for name in names))
        cel_rules = rules(rule(f"{number} == 1", f"exactly one {cls.what} must be set: {', '.join(names)}"))
        cls.model_config = ConfigDict(**{**cls.model_config, "json_schema_extra": cel_rules})

    @classmethod
    def members(cls) -> list[str]:
        """Return the members' names as they are written in YAML."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        values = {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}
        names = [name for name, value in values.items() if value is not None]
        if len(names) != 1:
            raise ValueError(f"exactly one {self.what} must be set ({', '.join(values)}), got {', '.join(names) or 'none'}")
        return self

    @property
    def kind(self) -> str:
        """The name of the member that is set. The converter's registry uses the same name."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def member(self) -> Any:  # any of the models
        """The member that is set."""
        return getattr(self, self.kind)


def _refuse_nul(uri: str) -> str:
    if "\0" in uri:
        raise ValueError(f"a URI can't contain a NUL character, got {uri!r}")
    return uri


def _check_host(uri: str) -> str:
    try:
        urlsplit(uri)
    except ValueError as exc:
        raise ValueError("the text after :// is not a host") from exc
    return uri


def _refuse_user(uri: str) -> str:
    if has_user(uri):
        raise ValueError(
            "a URI can't contain a user, key or password: credentials come from a Secret (an entry of stores) or from the environment"
        )
    return uri


def _serialise_uri(uri: str, info: SerializationInfo) -> str:
    return unsigned(uri) if isinstance(info.context, Mapping) and info.context.get(STORED) else uri


STORED: Final = "stored"
"""A key in the context of `model_dump`. If the value is true, URIs are written without signatures, so that they can be stored in files."""
Uri = Annotated[
    str,
    AfterValidator(_refuse_nul),
    AfterValidator(_check_host),
    AfterValidator(_refuse_user),
    PlainSerializer(_serialise_uri),
    Field(min_length=1, max_length=1024),
]
Label63 = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
SplitName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$")]
Column = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(max_length=1024)]
NullDefaults = Annotated[dict[Annotated[str, Field(max_length=256)], Text], Field(max_length=1024)]
"""Maps each column to the value that replaces its nulls."""
Quantity = Annotated[
    int | str,
    AfterValidator(_check_quantity),
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0, "maxLength": 32, "pattern": quantity.PATTERN}),
]
ResourceQuantity = Annotated[
    int | str,
    AfterValidator(_check_resource),
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "minimum": 0, "maxLength": 64, "pattern": quantity.RESOURCE_PATTERN}),
]
"""An amount of a container resource: cores, bytes or devices."""
Seconds = Annotated[int, Field(ge=0, le=31_536_000)]
Seed = Annotated[int, Field(ge=0, le=2**53)]
ResourceMap = Annotated[dict[Annotated[str, Field(max_length=317)], ResourceQuantity], Field(max_length=16)]
StringMap = Annotated[dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=253)]], Field(max_length=64)]
