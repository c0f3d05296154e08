r"""Regular expressions have the reference's meaning, or are refused."""

from __future__ import annotations

import os
import signal
import threading
import unicodedata

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancekit._scan.expressions.kernels.patterns import in_pieces
from lancekit._scan.expressions.kernels.regex_reader import _characters
from lancekit._scan.expressions.predicate import compile_expression
from lancekit.errors import PredicateError

TEXTS = [
    *(
        "",
        "a",
        "A",
        "aab",
        "ab",
        "A_",
        "_",
        "é",
        "É",
        "aé",
        "éa",
        "été",
        "ß",
        "ẞ",
        "\u017f",
        "K",
        "k",
    ),
    *("\n", "a\n", "\na", "a\r\n", "a\nb", " ", "\u00a0", "a b", "foo bar", "über alles", "0", "٣"),
    *(
        "½",
        "日本",
        "日本 a",
        "Ω",
        "ω",
        "ǅ",
        "Ⓐ",
        "\u200d",
        "\u0345",
        "😀",
        "a😀b",
        "\x00",
        "\u2028",
    ),
    *("a&&b", "{", "-", "]", "[", "^", "a-z", "a.b", "#", "~", "<", "xxxx", "aaaa", "abcabc", "5"),
]
ROWS = pa.table({"s": pa.array([*TEXTS, None])})


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def mine(sql: str, rows: pa.Table = ROWS) -> object:
    try:
        return compile_expression(sql, rows.schema).evaluate(rows).to_pylist()
    except PredicateError:
        return "refused"


def theirs(sql: str, dataset: lance.LanceDataset) -> object:
    try:
        return dataset.to_table(columns={"x": sql})["x"].to_pylist()
    except (ValueError, OSError):
        return "refused"


@pytest.fixture(scope="module")
def reference() -> lance.LanceDataset:
    return lance.write_dataset(ROWS, "memory://texts")


SAME = r"""
a|^a|a$|^a$|^$|$|(?m)a$|(?m)^a$|(?m)$|.|(?s).|a.b|a\z|\Aa|(?m)a\z
\w|\W|\d|\D|\s|\S|^\w+$|\w\w|[\w]|[\W_]|[^\W]|[\s\S]|[^\s]|[\D]|[\w&&[^\d]]|[\w--[a-z]]
[[:alpha:]]|[[:^alpha:]]|[[:alnum:]_]|[[:word:]]|[[:foo:]]|[:alpha:]
\pL|\p{L}|\PL|\p{Lu}|\P{Lu}|\p{Letter}|\p{Uppercase_Letter}|\p{gc=Lu}|\p{Nd}|\p{Greek}
\p{greek}|\p{sc=Greek}|\p{IsGreek}|\p{Old Italic}|\p{LC}|\p{Any}|\p{ASCII}|\p{M}|\p{L&}|\p{Foo}
\b|\B|\ba|a\b|\bfoo\b|\bété\b|\Bt\B|\b\w|(?-u:\b)|(?-u:\w)|(?-u:\W)|(?-u:.)|(?-u:[^a])
(?i)a|(?i)K|(?i)k|(?i)s|(?i)ß|(?i)é|(?i)ω|(?i)[a-z]|(?i)[^k]|(?i)\p{Lu}|(?i)\P{Lu}|(?i)[\P{Lu}]
(?i)\W|(?i)[^a&&b]|(?i)[a-z&&[^k]]|(?i)[[:upper:]]|(?i)[[:^upper:]]|((?i)k)k|(?i:k)K|a(?i)b|(?i)(?-i)K
[a-c&&b-d]|[a-c--b]|[a-c~~b-d]|[^a&&b]|[a[bc]]|[a[^b]]|[^[^a]]|[a&&b--c]|[a&&]|[&&a]|[a&b]|[--a]|[a---b]
[]a]|[^]a]|[a-]|[-a]|[a-b-c]|[z-a]|[a-\d]|[\d-a]|[a\-z]|[\]]|[^]|[]|[|[a|[a-[b]]|[[a]-b]
a*|a+|a?|a*?b|a{2}|a{2,}|a{1,2}|a{,2}|a{|a{2|a{2,1}|a{ 2 }|a**|a*+|a??|a???|(?:a*)*|(a?){3}|a{2}{2}
*|+a|(*a)|^*|$+|()*|(?:)|()|(?i)*|(?U)a+b|(?U)a+?b
(a)(b)?|(?P<n>a)|(?<n>a)|(?<n>a)(?<n>b)|(?<1>a)|(?P=n)|(?:a|(|(?:|a)|)|(?i|(?|(?)|(?-)|(?ii)a|(?q)a
(?=a)|(?!a)|(?<=a)|(?<!a)|(?>a)|(a)\1|\0|\Qa\E|\K|\R|\X|\Z|\h|\cA|(?#c)a|a\
(?x) a b # c|(?x)[a #]|(?x)a\ b|(?x)a {2}
\x41|\x{41}|\x{1F600}|\u0041|\U00000041|\x4|\x{}|\x{110000}
\t|\n|\a|\-|\#|\ |\&|\~|\%|\<|\e|\i|\_
"""
ALTERNATIVES = [
    *("a|b", "a|", "|", "(a|ab)(c|bcd)?", "(|a)+", "(?:a|b)*?b", r"\b|a", "é|a|日", "^|b$", "a|*"),
    *("(" * 250 + ")" * 250, "(" * 251 + ")" * 251),
]
PATTERNS = [*(p for line in SAME.strip().splitlines() for p in line.split("|")), *ALTERNATIVES]
FORMS = [
    "regexp_like(s, {0})",
    "regexp_count(s, {0})",
    "regexp_instr(s, {0})",
    "regexp_replace(s, {0}, '<\\0>')",
    "regexp_replace(s, {0}, '<$0>', 'g')",
]
# Differences that `docs/filters.md` tells: what the engine has nothing like.
NOT_OFFERED = {r"\<"}


def without_nulls(values: object) -> object:
    """Leave the null row out: the reference counts 0 matches in it."""
    return values if values == "refused" else list(values)[:-1]


def compared(pattern: str, dataset: lance.LanceDataset, rows: pa.Table = ROWS) -> dict[str, object]:
    differ = {}
    for form in FORMS:
        sql = form.format(quoted(pattern))
        found, expected = (without_nulls(x) for x in (mine(sql, rows), theirs(sql, dataset)))
        borders = r"\b" in pattern.lower() and "replace" in form  # in texts beyond ASCII
        if found != expected and not (borders and found == "refused"):
            differ[sql] = found, expected
    return differ


def test_all_is_as_in_the_reference(reference):
    assert len(PATTERNS) > 200
    differ = {}
    for pattern in dict.fromkeys(PATTERNS):
        if pattern not in NOT_OFFERED:
            differ |= compared(pattern, reference)
    assert differ == {}


ATOMS = [
    *("a", "b", "é", "日", "_", " ", ".", r"\w", r"\W", r"\d", r"\s", "[a-c]", "[^a]", "[éb]"),
    *(r"[\w&&[^a]]", r"\p{Lu}", "(?i:a)", "(?s:.)", "^", "$", r"\b", r"\B", "", "(?m:$)", "A"),
]


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda one: f"({one})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    )


@settings(derandomize=True)
@given(
    patterns=st.lists(
        st.recursive(st.sampled_from(ATOMS), grown, max_leaves=6), min_size=4, max_size=4
    ),
    texts=st.lists(st.text("aabAé日_ \n0", max_size=7), min_size=1, max_size=8),
)
def test_random_expressions_are_as_in_the_reference(patterns, texts):
    rows = pa.table({"s": pa.array([*texts, None])})
    dataset = lance.write_dataset(rows, "memory://texts")
    for pattern in patterns:
        assert compared(pattern, dataset, rows) == {}, texts


def test_every_character_is_classed_as_in_the_reference():
    numbers, characters = _characters()
    dataset = lance.write_dataset(pa.table({"s": characters}), "memory://characters")
    for pattern in (r"\w", r"\d", r"\s", r"\p{L}", r"(?i)\p{Lu}", "(?i)[a-zé-ÿ]", "(?i)[^k]"):
        sql = f"regexp_like(s, '{pattern}')"
        found = compile_expression(sql, pa.schema({"s": pa.string()})).evaluate(
            pa.table({"s": characters})
        )
        expected = dataset.to_table(columns={"x": sql})["x"].combine_chunks()
        other = pc.not_equal(found, expected).to_numpy(zero_copy_only=False)
        # what newer versions of Unicode have added, and the capitals of two old letters
        assert {chr(n) for n in numbers[other] if unicodedata.category(chr(n)) != "Cn"} <= {
            "ƛ",
            "ɤ",
        }


@pytest.mark.parametrize(
    "function",
    [
        *("regexp_like(s, {0})", "regexp_match(s, {0})", "regexp_count(s, {0})"),
        *("regexp_instr(s, {0})", "regexp_replace(s, {0}, '<$0>')"),
        *("s LIKE {0}", "s ILIKE {0}", "s LIKE {0} ESCAPE '!'"),
    ],
)
def test_a_column_of_patterns_is_as_one_pattern(function):
    patterns = [
        "a",
        "^a",
        r"\w$",
        "é|b",
        "a%",
        "%É",
        r"_\__",
        "a!%",
        "(?i)A",
        "",
        r"^[[:alpha:]]+$",
    ]
    pairs = pa.table({"s": TEXTS * len(patterns), "p": sorted(patterns * len(TEXTS))})
    for rows in (pairs, pairs.slice(0, 0), pairs.slice(30, 90)):
        found = mine(function.format("p"), rows)
        one_by_one = [
            mine(function.format(quoted(p)), pa.table({"s": [s]}))[0]
            for s, p in zip(*rows.to_pydict().values(), strict=True)
        ]
        assert found == one_by_one
    nulls = pa.table({"s": ["a", None, "a"], "p": pa.array([None, "a", "a"])})
    assert mine(function.format("p"), nulls)[:2] == [None, None]
    assert mine(function.format("p"), nulls)[2] is not None
    constant = function.replace("(s,", "('aé',").replace("s ", "'aé' ", 1)
    assert mine(constant.format("p"), rows) == [
        mine(constant.format(quoted(p)), pa.table({"s": ["x"]}))[0] for p in rows["p"].to_pylist()
    ]


def test_a_bad_pattern_beside_a_null_is_none():
    rows = pa.table(
        {
            "n": range(4),
            "s": [None, "ab", None, "x"],
            "p": ["(", "a", r"\q", None],
            "w": ["?", "i", "zz", None],
        }
    )
    reference = lance.write_dataset(rows, "memory://beside")
    for form in (
        *("regexp_like(s, p)", "regexp_match(s, p)", "regexp_like(s, p, 'i')"),
        *("regexp_like(s, p, w)", "regexp_instr(s, p)", "regexp_replace(s, p, '<$0>')"),
        *("regexp_replace(s, p, s, w)", "instr(s, p)", "replace(s, p, 'x')"),
    ):
        sql = f"{form} IS NULL"
        expected = reference.to_table(filter=sql, columns=["n"])["n"].to_pylist()
        assert pc.indices_nonzero(pa.array(mine(sql, rows))).to_pylist() == expected, form
    assert mine("regexp_count(s, p)", rows) == [None, 1, None, None]  # an error in the reference
    for sql, some in [
        ("regexp_like(s, p)", pa.table({"s": [None, "a"], "p": ["a", "("]})),
        ("regexp_like(s, '(')", rows.slice(0, 1)),
    ]:
        with pytest.raises(PredicateError, match="a group that is not closed"):
            compile_expression(sql, some.schema).evaluate(some)


@pytest.mark.parametrize("new", [r"<\1>", r"<\\1>", "${n}$1$n", "$1x", "${1}x", "$$1", "$", r"\&"])
@pytest.mark.parametrize("flags", ["", ", 'g'", ", 'i'", ", 'gi'", ", null"])
def test_new_texts_are_as_in_the_reference(new, flags, reference):
    sql = f"regexp_replace(s, '(?<n>a)(b)?', '{new}$2$3'{flags})"
    assert mine(sql) == theirs(sql, reference)


@pytest.mark.parametrize("flags", ["i", "m", "s", "x", "U", "im", "q", "ii", "g", "-i", "i-m"])
def test_flags_are_as_in_the_reference(flags, reference):
    for pattern in ("A", "a b", "^a$", "a.", "a+", r"\w"):
        sql = f"regexp_like(s, '{pattern}', '{flags}')"
        assert mine(sql) == theirs(sql, reference)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "a group that is not closed"),
        ("a|*", "from character 3, a repetition without an expression"),
        ("(?=a)", "look-around, which is not supported"),
        (r"(a)\1", "a back reference, which is not supported"),
        (r"\p{Emoji}", "categories \\(Lu\\) and scripts \\(Greek\\) are supported"),
        (r"\p{Cs}", "categories \\(Lu\\) and scripts \\(Greek\\) are supported"),
        (r"\<a", "a half word boundary, which is not supported"),
        ("a{1001}", "more than 1000 repetitions"),
        ("(?:a{500}){3}", "is too large for the engine"),
        (r"\pL{900}", "is too large for the engine"),
        ("(?R)a", "the flags 'R'"),
        (r"\ba(?-u:\b)", r"both Unicode's \\b and ASCII's"),
        ("a" * 40_000, "has 40000 characters"),
        ("[" * 100 + "a" + "]" * 100, "too deeply nested classes"),
    ],
)
def test_what_is_refused_says_why(pattern, reason):
    rows = pa.table({"s": ["a"], "p": [pattern]})
    for function in ("like", "match", "count", "instr"):
        for form in (quoted(pattern), "p"):
            sql = f"regexp_{function}(s, {form})"
            with pytest.raises(PredicateError, match=f"(?s){reason}") as caught:
                compile_expression(sql, rows.schema).evaluate(rows)
            assert caught.value.context["position"] == 0


def test_borders_of_words_beyond_ascii():
    letters = "".join(map(chr, range(0xC0, 0x17F)))
    many = rf"\b(?:{'|'.join(letters)})"
    with pytest.raises(PredicateError, match="has too many distinct characters"):
        compile_expression(f"regexp_like(s, '{many}')", ROWS.schema).evaluate(
            pa.table({"s": [letters]})
        )
    with pytest.raises(PredicateError, match="only in ASCII text"):
        compile_expression(r"regexp_replace(s, '\bt', '')", ROWS.schema).evaluate(ROWS)
    assert mine(r"regexp_replace(s, '\bb', '')", pa.table({"s": ["a b", None]})) == ["a ", None]
    assert mine(r"regexp_replace(s, '(?-u:\b)b', '')", pa.table({"s": ["é b"]})) == ["é "]


#: an engine that goes back takes years for each of these
EXPLODING = [("(x+x+)+y", "x" * 5000), ("(a|a)*b", "a" * 5000), ("(?:.*,){20}y", "1," * 5000)]


@pytest.mark.parametrize(("pattern", "text"), EXPLODING)
def test_no_expression_and_no_text_explodes(pattern, text):
    rows = pa.table({"s": [text], "p": [pattern], "l": ["%a%b" * 20 + "%z"]})
    for form in (quoted(pattern), "p"):
        assert mine(f"regexp_like(s, {form})", rows) == [False]
        assert mine(f"regexp_instr(s, {form})", rows) == [0]
        assert mine(f"regexp_count(s, {form})", rows) == [0]
        assert mine(f"regexp_replace(s, {form}, '')", rows) == [text]
    assert mine("s LIKE l", rows) == [False]
    assert mine("s ILIKE l", rows) == [False]


def test_pieces_are_the_whole():
    texts = pa.array([None, *("x" * (n % 400) for n in range(2000)), "y" * 100_000, None, ""])
    for kind in (pa.string(), pa.large_string()):
        for some in (
            texts.cast(kind),
            texts.cast(kind).slice(7, 1500),
            texts.cast(kind).slice(2000),
        ):
            pieces: list[pa.Array] = []

            def kernel(piece: pa.Array, pieces: list[pa.Array] = pieces) -> pa.Array:
                pieces.append(piece)
                return pc.utf8_length(piece)

            assert in_pieces(kernel, some).equals(pc.utf8_length(some))
            assert len(pieces) > 1


def test_an_interrupt_does_not_wait_for_a_long_text():
    """The engine cannot be stopped, so it runs beside: an interrupt ends the waiting for it."""
    begun, released = threading.Event(), threading.Event()
    threads = []

    def kernel(piece: pa.Array) -> pa.Array:
        threads.append(threading.current_thread())
        begun.set()
        released.wait()
        return piece

    def interrupt() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        in_pieces(kernel, pa.array(["x" * 100_000]))
    assert threads[0] is not threading.main_thread()
    released.set()
    threads[0].join()
    with pytest.raises(ZeroDivisionError):  # what it raises is raised here
        in_pieces(lambda _: 1 / 0, pa.array(["x" * 100_000]))
