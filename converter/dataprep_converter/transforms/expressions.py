"""Expressions over columns: a small subset of Python's syntax, computed by Arrow's kernels on whole batches.

Python's `ast` parses the expressions. Only the node types below are accepted, so attributes are refused, and only this module's functions
can be called. Expressions are never evaluated as Python. Types are checked once, on an empty batch, so type errors surface while planning.

If a column of decimals is compared with a column or a number, all digits are compared (`exact_comparisons.py`).
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_bytes, is_text
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.records.columns import find_columns
from dataprep_converter.records.exact_decimals import exact_source
from dataprep_converter.transforms.exact_comparisons import Column, Literal, Side, compared

_COMPARISONS: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Eq: "equal", ast.NotEq: "not_equal", ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
}  # fmt: skip
# If a result overflows, these kernels raise an error instead of returning a wrong number.
_ARITHMETIC: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "add_checked", ast.Sub: "subtract_checked", ast.Mult: "multiply_checked", ast.Div: "divide",
}  # fmt: skip
_FUNCTIONS: Final[Mapping[str, tuple[int, Callable[..., Any]]]] = {
    "length": (1, lambda value: _length(value)),
    "lower": (1, pc.utf8_lower),
    "upper": (1, pc.utf8_upper),
    "abs": (1, pc.abs_checked),
    "is_null": (1, pc.is_null),
    "is_nan": (1, pc.is_nan),
    "starts_with": (2, lambda value, text: pc.starts_with(value, pattern=text)),
    "ends_with": (2, lambda value, text: pc.ends_with(value, pattern=text)),
    "contains": (2, lambda value, text: pc.match_substring(value, pattern=text)),
    # RE2 takes time linear in the length of the text, whatever the pattern.
    "matches": (2, lambda value, text: pc.match_substring_regex(value, pattern=text)),
}
_DEEPEST: Final = 50
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_MEMBERS: Final[Mapping[type, str]] = {
    bool: "a boolean", int: "a number", float: "a number", str: "a text", bytes: "bytes", type(None): "a missing value",
}  # fmt: skip

_Value = Callable[[pa.RecordBatch], Any]


class Expression:
    """One expression over the columns of a schema. Raises BadSpec, naming the part that is unknown or has the wrong type."""

    def __init__(self, text: str, schema: pa.Schema, *, of: str) -> None:
        self._text = text
        self._of = of
        self.exact: dict[str, str] = {}
        """Maps each column whose decimals are compared by all their digits to the reader's column."""
        try:
            parsed = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
            reason = exc.msg if isinstance(exc, SyntaxError) else str(exc)
            raise BadSpec(f"{of}: {text!r} isn't a valid expression: {reason}.") from exc
        self._value = self._compile(parsed, schema, 0)
        try:
            self.type: pa.DataType = self.of(pa.RecordBatch.from_pylist([], schema=schema)).type
        except BadData as exc:
            raise BadSpec(str(exc)) from exc

    def of(self, records: pa.RecordBatch) -> Array:
        """Returns the expression's value for each record. Raises BadData for an overflow or a division by zero."""
        try:
            value = self._value(records)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError) as exc:
            raise BadData(f"{self._of}: {self._text!r} can't be computed: {_reason(exc)}.") from exc
        if isinstance(value, pa.Scalar | bool | int | float | str):
            scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
            value = pa.array([scalar.as_py()] * records.num_rows, scalar.type)
        result: Array = value
        return result

    def _compile(self, node: ast.expr, schema: pa.Schema, depth: int) -> _Value:
        if depth > _DEEPEST:
            raise BadSpec(f"{self._of}: {self._text[:60]!r}… is nested more than {_DEEPEST} levels deep.")

        def inner(child: ast.expr) -> _Value:
            return self._compile(child, schema, depth + 1)

        match node:
            case ast.Name(id=name):
                return self._column(name, schema)
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return self._constant(value)
            case ast.BoolOp(op=op, values=values):
                return _folding("and_kleene" if isinstance(op, ast.And) else "or_kleene", [inner(value) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _calling(pc.invert, [inner(operand)])
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return self._constant(-value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _calling(pc.negate_checked, [inner(operand)])
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
                return _calling(getattr(pc, _ARITHMETIC[type(op)]), [inner(left), inner(right)])
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self._comparison([left, *comparators], ops, schema, inner)
            case ast.Call(func=ast.Name(id="col"), args=[ast.Constant(value=str() as name)], keywords=[]):
                return self._column(name, schema)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return self._function(name, args, inner)
        functions = ", ".join(sorted([*_FUNCTIONS, "col"]))
        source = ast.unparse(node)[:60]
        raise BadSpec(
            f"{self._of}: {source!r} is not understood; expressions can contain columns, numbers, texts, comparisons, + - * /, and, or, not, in, and {functions}."
        )

    def _constant(self, value: bool | float | str) -> _Value:
        self._check(value)
        constant = pa.scalar(value, pa.uint64()) if isinstance(value, int) and value > _MOST >> 1 else value
        return lambda _: constant

    def _check(self, value: object) -> None:
        """Raises BadSpec for a value that Arrow has no type for."""
        if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
            raise BadSpec(
                f"{self._of}: {self._text!r}: the text {value!r} contains half of a surrogate pair, which isn't a Unicode character."
            )
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            raise BadSpec(
                f"{self._of}: {self._text!r}: a whole number must be from {_LEAST} to {_MOST}, got {value}. "
                "Write a larger number as a double, such as 1e20."
            )

    def _column(self, name: str, schema: pa.Schema) -> _Value:
        (column_name,) = find_columns([name], schema, of=self._of)
        return operator.methodcaller("column", column_name)

    def _comparison(self, operands: list[ast.expr], ops: list[ast.cmpop], schema: pa.Schema, inner: Callable[[ast.expr], _Value]) -> _Value:
        parts: list[_Value] = []
        for left, op, right in zip(operands, ops, operands[1:], strict=False):
            if isinstance(op, ast.In | ast.NotIn):
                parts.append(self._membership(left, right, schema, inner, negated=isinstance(op, ast.NotIn)))
            elif type(op) in _COMPARISONS:
                sides = self._exact_sides([left, right], schema)
                kernel = _COMPARISONS[type(op)]
                parts.append(
                    partial(compared, kernel, sides[0], sides[1]) if sides else _calling(getattr(pc, kernel), [inner(left), inner(right)])
                )
            else:
                raise BadSpec(f"{self._of}: {self._text!r}: to test for a missing value, write is_null(column).")
        return parts[0] if len(parts) == 1 else _folding("and_kleene", parts)

    def _exact_sides(self, nodes: Sequence[ast.expr], schema: pa.Schema) -> list[Side]:
        """Returns the sides of a comparison if all digits must be compared, or else [].

        All digits must be compared if each side is a number or a column of numbers, and at least one side is a column of decimals.
        """
        sides: list[Side] = []
        sources: dict[str, str] = {}
        for node in nodes:
            number = self._literal(node)
            name = _column_name(node)
            if number is not None:
                sides.append(Literal(number))
            elif name is not None:
                (column,) = find_columns([name], schema, of=self._of)
                field = schema.field(column)
                if not (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)):
                    return []
                sides.append(Column(column))
                source = exact_source(field)
                sources |= {} if source is None else {column: source}
            else:
                return []
        self.exact |= sources
        return sides if sources else []

    def _literal(self, node: ast.expr) -> Decimal | None:
        """Returns the number as it is written in the expression, or None if the node isn't a number."""
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as operand):
                number = self._literal(operand)
                return None if number is None else number.copy_negate()
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=int() as value):
                return Decimal(value)
            case ast.Constant(value=float() as value):
                return Decimal(ast.get_source_segment(self._text.strip(), node) or repr(value))
        return None

    def _membership(
        self, node: ast.expr, members: ast.expr, schema: pa.Schema, inner: Callable[[ast.expr], _Value], *, negated: bool
    ) -> _Value:
        values = _members(members)
        if not values:
            raise BadSpec(f"{self._of}: {self._text!r}: `in` must be followed by a list of values, such as ['cat', 'dog'].")
        value = inner(node)
        elements = members.elts if isinstance(members, ast.List | ast.Tuple | ast.Set) else []
        pairs = [self._exact_sides([node, element], schema) for element in elements]
        if all(pairs):
            return partial(_is_one_of, pairs, negated)
        members_array = self._array_of(values)

        def is_member(records: pa.RecordBatch) -> Any:
            column = _typed(value(records))
            try:
                value_set = members_array.cast(column.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
                raise BadSpec(
                    f"{self._of}: {self._text!r}: the list's values must be {column.type}, like the value before `in`: {_reason(exc)}."
                ) from exc
            inside = pc.is_in(column, value_set=value_set)
            return pc.invert(inside) if negated else inside

        return is_member

    def _array_of(self, values: Sequence[Any]) -> Array:
        """Returns a list's values as an array. Raises BadSpec if the values differ in kind, or if no numeric type can hold all of them."""
        for value in values:
            self._check(value)
        kinds = [_MEMBERS[type(value)] for value in values]
        other = next((place for place, kind in enumerate(kinds) if kind != kinds[0]), None)
        if other is not None:
            advice = " To test for a missing value, write is_null(column)." if None in values else ""
            raise BadSpec(
                f"{self._of}: {self._text!r}: the values of a list must be all numbers, all texts or all booleans, "
                f"but {values[0]!r} is {kinds[0]} and {values[other]!r} is {kinds[other]}.{advice}"
            )
        try:
            array: Array = pa.array(values)
        except (pa.ArrowInvalid, OverflowError) as exc:
            raise BadSpec(f"{self._of}: {self._text!r}: no numeric type can hold all values of the list: {_reason(exc)}.") from exc
        return array

    def _function(self, name: str, args: list[ast.expr], inner: Callable[[ast.expr], _Value]) -> _Value:
        count, kernel = _FUNCTIONS[name]
        if len(args) != count:
            raise BadSpec(f"{self._of}: {name} takes {count} value{'s' if count > 1 else ''}, got {len(args)} in {self._text!r}.")
        if count == 1:
            return _calling(kernel, [inner(args[0])])
        if not (isinstance(args[1], ast.Constant) and isinstance(args[1].value, str)):
            raise BadSpec(f"{self._of}: the second value of {name} must be a text in quotes, in {self._text!r}.")
        text, first = args[1].value, inner(args[0])
        self._check(text)
        try:
            kernel(pa.array([""]), text)
        except pa.ArrowInvalid as exc:
            raise BadSpec(f"{self._of}: {text!r} isn't a valid regular expression: {exc}.") from exc
        return lambda records: kernel(first(records), text)


def _column_name(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="col"), args=[ast.Constant(value=str() as name)], keywords=[]):
            return name
    return None


def _is_one_of(pairs: Sequence[Sequence[Side]], negated: bool, records: pa.RecordBatch) -> Any:
    """Returns, for each row, whether at least one pair has two equal sides.

    If `negated` is set, returns the opposite. As in Arrow's `is_in`, a missing value isn't in any list.
    """
    inside: Any = pa.array(np.zeros(records.num_rows, np.bool_))
    for left, right in pairs:
        inside = pc.or_(inside, pc.fill_null(compared("equal", left, right, records), False))
    return pc.invert(inside) if negated else inside


def _members(node: ast.expr) -> list[Any]:
    """Returns the values of a list in an expression, or [] if the node isn't a list or a value's type isn't in `_MEMBERS`."""
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return []
    try:
        values = [ast.literal_eval(each) for each in node.elts]
    except (ValueError, TypeError):
        return []
    if not all(type(value) in _MEMBERS for value in values):
        return []
    # A set contains each value only once, so {1, True} is {1}.
    return list(dict.fromkeys(values)) if isinstance(node, ast.Set) else values


def _typed(value: Any) -> Any:
    """Converts a Python value, such as a number or text in the expression, to an Arrow scalar. Other values are unchanged."""
    return pa.scalar(value) if isinstance(value, bool | int | float | str) else value


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")


def _calling(kernel: Callable[..., Any], values: list[_Value]) -> _Value:
    return lambda records: kernel(*[value(records) for value in values])


def _folding(kernel: str, values: list[_Value]) -> _Value:
    combine = getattr(pc, kernel)

    def fold(records: pa.RecordBatch) -> Any:
        result = values[0](records)
        for value in values[1:]:
            result = combine(result, value(records))
        return result

    return fold


def _length(given: Any) -> Array:
    """Returns lengths: in characters for text, in bytes for binary values, and in values for lists."""
    value = _typed(given)
    kind = value.type
    if is_text(kind):
        lengths: Array = pc.utf8_length(value)
    elif is_bytes(kind):
        lengths = pc.binary_length(value)
    else:
        lengths = pc.list_value_length(value)
    return lengths.cast(pa.int64())
