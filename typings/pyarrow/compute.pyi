# Arrow's functions.  Most have one of a few shapes, by what they give for an array, for chunks of
# one and for a scalar; a plain value of Python stands for a scalar.

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol, TypeAlias, TypeVar, overload

from pyarrow import (
    Array,
    BooleanArray,
    BooleanScalar,
    ChunkedArray,
    DataType,
    DictionaryArray,
    RecordBatch,
    Scalar,
    StructArray,
    StructScalar,
    Table,
    _Indices,
    _NullSelection,
)

_Plain: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | Decimal
    | datetime.date
    | datetime.time
    | datetime.timedelta
    | None
)
_One: TypeAlias = Scalar | _Plain
_Taken = TypeVar("_Taken", bound=Array | ChunkedArray | RecordBatch | Table)

class _Folded(Protocol):
    def __call__(self, values: Array | ChunkedArray | Scalar, /, **options: Any) -> Scalar: ...

class _Ends(Protocol):
    def __call__(
        self, values: Array | ChunkedArray | Scalar, /, **options: Any
    ) -> StructScalar: ...

class _Unary(Protocol):
    @overload
    def __call__(self, values: Array, /, *args: Any, **options: Any) -> Array: ...
    @overload
    def __call__(self, values: ChunkedArray, /, *args: Any, **options: Any) -> ChunkedArray: ...
    @overload
    def __call__(self, values: _One, /, *args: Any, **options: Any) -> Scalar: ...
    @overload
    def __call__(self, values: Array | Scalar, /, *args: Any, **options: Any) -> Array | Scalar: ...

class _Test(Protocol):
    @overload
    def __call__(self, values: Array, /, *args: Any, **options: Any) -> BooleanArray: ...
    @overload
    def __call__(self, values: ChunkedArray, /, *args: Any, **options: Any) -> ChunkedArray: ...
    @overload
    def __call__(self, values: _One, /, *args: Any, **options: Any) -> BooleanScalar: ...

class _Binary(Protocol):
    @overload
    def __call__(self, x: Array, y: Array | _One, /, **options: Any) -> Array: ...
    @overload
    def __call__(self, x: _One, y: Array, /, **options: Any) -> Array: ...
    @overload
    def __call__(
        self, x: ChunkedArray, y: ChunkedArray | Array | _One, /, **options: Any
    ) -> ChunkedArray: ...
    @overload
    def __call__(self, x: Array | _One, y: ChunkedArray, /, **options: Any) -> ChunkedArray: ...
    @overload
    def __call__(self, x: _One, y: _One, /, **options: Any) -> Scalar: ...
    @overload
    def __call__(self, x: Array | Scalar, y: Array | _One, /, **options: Any) -> Array | Scalar: ...

class _Comparison(Protocol):
    @overload
    def __call__(self, x: Array, y: Array | _One, /) -> BooleanArray: ...
    @overload
    def __call__(self, x: _One, y: Array, /) -> BooleanArray: ...
    @overload
    def __call__(self, x: ChunkedArray, y: ChunkedArray | Array | _One, /) -> ChunkedArray: ...
    @overload
    def __call__(self, x: Array | _One, y: ChunkedArray, /) -> ChunkedArray: ...
    @overload
    def __call__(self, x: _One, y: _One, /) -> BooleanScalar: ...
    @overload
    def __call__(self, x: Array | Scalar, y: Array | _One, /) -> BooleanArray | BooleanScalar: ...

# Of several, the result is as long as the longest: what that is, the caller knows.
class _Several(Protocol):
    def __call__(self, *values: Array | ChunkedArray | _One, **options: Any) -> Any: ...

class _Coding(Protocol):
    @overload
    def __call__(self, values: Array, /, **options: Any) -> DictionaryArray: ...
    @overload
    def __call__(self, values: ChunkedArray, /, **options: Any) -> ChunkedArray: ...

class Expression: ...

abs: _Unary
abs_checked: _Unary
add: _Binary
add_checked: _Binary
all: _Folded
and_: _Comparison
and_kleene: _Comparison
and_not: _Comparison
any: _Folded
ascii_lower: _Unary
ascii_upper: _Unary
assume_timezone: _Unary
local_timestamp: _Unary
atan2: _Binary
binary_join: _Binary
binary_join_element_wise: _Several
binary_length: _Unary
binary_repeat: _Binary
ceil: _Unary
coalesce: _Several
count_distinct: _Folded
day: _Unary
day_of_week: _Unary
day_of_year: _Unary
dictionary_encode: _Coding
divide: _Binary
divide_checked: _Binary
ends_with: _Test
equal: _Comparison
exp: _Unary
fill_null: _Binary
find_substring_regex: _Unary
floor: _Unary
floor_temporal: _Unary
greater: _Comparison
greater_equal: _Comparison
hour: _Unary
invert: _Test
is_finite: _Test
is_inf: _Test
is_nan: _Test
is_null: _Test
is_valid: _Test
iso_week: _Unary
iso_year: _Unary
less: _Comparison
less_equal: _Comparison
list_value_length: _Unary
ln: _Unary
log10: _Unary
log2: _Unary
logb: _Binary
match_like: _Test
match_substring: _Test
match_substring_regex: _Test
max: _Folded
max_element_wise: _Several
microsecond: _Unary
millisecond: _Unary
min_element_wise: _Several
min: _Folded
min_max: _Ends
minute: _Unary
month: _Unary
multiply: _Binary
multiply_checked: _Binary
nanosecond: _Unary
negate_checked: _Unary
not_equal: _Comparison
or_: _Comparison
or_kleene: _Comparison
power: _Binary
quarter: _Unary
replace_substring: _Unary
replace_substring_regex: _Unary
round: _Unary
second: _Unary
bit_wise_and: _Binary
bit_wise_or: _Binary
shift_left: _Binary
shift_right: _Binary
sign: _Unary
sqrt: _Unary
starts_with: _Test
strftime: _Unary
string_is_ascii: _Test
struct_field: _Unary
subtract: _Binary
subtract_checked: _Binary
sum: _Folded
tan: _Unary
trunc: _Unary
utf8_length: _Unary
utf8_lower: _Unary
utf8_ltrim: _Unary
utf8_reverse: _Unary
utf8_rtrim: _Unary
utf8_slice_codeunits: _Unary
utf8_trim: _Unary
utf8_trim_whitespace: _Unary
xor: _Comparison
year: _Unary

@overload
def cast(
    arr: Array, target_type: DataType | str | None = None, safe: bool | None = None, **options: Any
) -> Array: ...
@overload
def cast(
    arr: ChunkedArray,
    target_type: DataType | str | None = None,
    safe: bool | None = None,
    **options: Any,
) -> ChunkedArray: ...
@overload
def cast(
    arr: Scalar, target_type: DataType | str | None = None, safe: bool | None = None, **options: Any
) -> Scalar: ...
@overload
def if_else(cond: Array, left: Array | _One, right: Array | _One, /) -> Array: ...
@overload
def if_else(cond: Scalar | bool, left: Array, right: Array | _One, /) -> Array: ...
@overload
def if_else(cond: Scalar | bool, left: _One, right: Array, /) -> Array: ...
@overload
def if_else(cond: Scalar | bool, left: _One, right: _One, /) -> Scalar: ...
@overload
def if_else(
    cond: ChunkedArray, left: ChunkedArray | Array | _One, right: ChunkedArray | Array | _One, /
) -> ChunkedArray: ...
def drop_null(input: _Taken, /) -> _Taken: ...
def filter(
    input: _Taken,
    selection_filter: Array | ChunkedArray,
    /,
    null_selection_behavior: _NullSelection = "drop",
) -> _Taken: ...
def index(
    data: Array | ChunkedArray, value: Any, start: int | None = None, end: int | None = None
) -> Scalar: ...
@overload
def index_in(
    values: Array, /, value_set: Array | ChunkedArray, *, skip_nulls: bool = False
) -> Array: ...
@overload
def index_in(
    values: ChunkedArray, /, value_set: Array | ChunkedArray, *, skip_nulls: bool = False
) -> ChunkedArray: ...
@overload
def index_in(
    values: Scalar, /, value_set: Array | ChunkedArray, *, skip_nulls: bool = False
) -> Scalar: ...
@overload
def is_in(
    values: Array, /, value_set: Array | ChunkedArray, *, skip_nulls: bool = False
) -> BooleanArray: ...
@overload
def is_in(
    values: ChunkedArray, /, value_set: Array | ChunkedArray, *, skip_nulls: bool = False
) -> ChunkedArray: ...
@overload
def is_in(
    values: Scalar, /, value_set: Array | ChunkedArray, *, skip_nulls: bool = False
) -> BooleanScalar: ...
@overload
def replace_with_mask(
    values: Array, /, mask: Array | _One, replacements: Array | _One
) -> Array: ...
@overload
def replace_with_mask(
    values: ChunkedArray, /, mask: Array | ChunkedArray | _One, replacements: Array | _One
) -> ChunkedArray: ...
def rank(input: Array | ChunkedArray, /, **options: Any) -> Array: ...
def sort_indices(
    input: Array | ChunkedArray | RecordBatch | Table,
    /,
    sort_keys: Sequence[tuple[str, str]] = (),
    **options: Any,
) -> Array: ...
def take(data: _Taken, indices: _Indices, *, boundscheck: bool = True) -> _Taken: ...
def unique(array: Array | ChunkedArray, /) -> Array: ...
def value_counts(array: Array | ChunkedArray, /) -> StructArray: ...
@overload
def list_flatten(lists: Array, /, recursive: bool = False) -> Array: ...
@overload
def list_flatten(lists: ChunkedArray, /, recursive: bool = False) -> ChunkedArray: ...
@overload
def list_parent_indices(lists: Array, /) -> Array: ...
@overload
def list_parent_indices(lists: ChunkedArray, /) -> ChunkedArray: ...
