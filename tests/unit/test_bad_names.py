"""What is not a name: garbage, foreign spellings, and good names with one character changed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack_store.model.names import (
    NotAName,
    is_queue_name,
    parse_entry,
    parse_filed,
    parse_item,
    parse_receipt,
)

ID = "0190b0c0-1234-7abc-8def-0123456789ab"

Parse = Callable[[str], object]

GOOD: list[tuple[Parse, str]] = [
    (parse_item, ID),
    (parse_item, f"{ID},s5,c00000abc,m7,r2,f1,gg1,kk1,ome,zfoo,Y"),
    (parse_item, f"{ID},n3,r1,f0,oa,x"),
    (parse_filed, f"q:{ID},s5,c00000abc"),
    (parse_filed, f"a.b:{ID},n3@1700000000000"),
    (parse_filed, f"a-b:{ID},n3,r1@1700000000000~0123456789abv"),
    (parse_receipt, f"q:{ID}~0123456789abv"),
    (parse_receipt, f"q:{ID.replace('1', '2')}/{ID}~0123456789abv"),
]

good_names = pytest.mark.parametrize(("parse", "good"), GOOD, ids=[good for _, good in GOOD])

# Garbage never parses.


@pytest.mark.parametrize("parse", [parse_item, parse_entry, parse_filed, parse_receipt])
@given(st.text())
@example("")
@example("\0")
@example("..")
@example("../../etc/passwd")
@example(":")
@example("@")
@example(",")
@example("~")
@example(f"q:{ID}/..")
def test_garbage_is_no_name(parse: Parse, text: str) -> None:
    with pytest.raises(NotAName):
        parse(text)


BAD_ITEMS = [
    ID.upper(),
    ID + ",",
    ID + ",,s1",
    "," + ID,
    ID + " ",
    ID + "\n",
    ID + ",s1\n",
    ID + ",s1,s1",
    ID + ",s1,s2",
    ID + ",S\0",
    ID + ",s-1",
    ID + ",s+1",
    ID + ",s 1",
    ID + ",s1_000",
    ID + ",s01",
    ID + ",s1.0",
    ID + ",s",
    ID + ",s\N{ARABIC-INDIC DIGIT ONE}",
    ID + ",s\N{FULLWIDTH DIGIT ONE}",
    ID + ",s\N{SUPERSCRIPT TWO}",
    ID + ",s" + "1" * 16,
    ID + ",c1",
    ID + ",c0000000g",
    ID + ",cABCDEF01",
    ID + ",c\N{ARABIC-INDIC DIGIT ONE}0000000",
    ID + ",m0",
    ID + ",n0",
    ID + ",n1,s1",
    ID + ",s1,n1",
    ID + ",n1,g1",
    ID + ",n1,k1",
    ID + ",n1,m1",
    ID + ",n1,c00000000",
    ID + ",r0",
    ID + ",r1000000000",
    ID + ",f" + "1" * 14,
    ID + ",o",
    ID + ",oA",
    ID + ",o" + "a" * 17,
    ID + ",o\N{LATIN SMALL LETTER E WITH ACUTE}",
    ID + ",ga/b",
    ID + ",k..\0",
    ID + ",x/y",
    ID + ",x\0",
    ID + ",x y",
    ID + ",x\N{ARABIC-INDIC DIGIT ONE}",
    ID + ",\N{LATIN SMALL LETTER E WITH ACUTE}",
    ID + ",\N{KELVIN SIGN}1",
    ID + ",\N{LATIN SMALL LETTER LONG S}1",
    ID + ",1",
    ID + ",-",
    ID + ",c00000000,s1",
    ID + ",x,s1",
    ID + "/" + ID,
    "./" + ID,
    "\udcff" + ID[1:],
    ID + ",x" + "y" * 1_000_000,
]


@pytest.mark.parametrize("text", BAD_ITEMS, ids=lambda text: ascii(text[36:60]))
def test_a_bad_item_is_no_name_wherever_it_stands(text: str) -> None:
    for parse, place in (
        (parse_item, text),
        (parse_entry, text),
        (parse_filed, f"q:{text}"),
        (parse_filed, f"q:{text}@1700000000000"),
        (parse_filed, f"q:{text}@1700000000000~0123456789abv"),
    ):
        with pytest.raises(NotAName):
            parse(place)


@pytest.mark.parametrize(
    "text",
    [
        ID,
        f":{ID}",
        f".q:{ID}",
        f"-q:{ID}",
        f"_q:{ID}",
        f"q/r:{ID}",
        f"q\0:{ID}",
        f"q\n:{ID}",
        f"{'q' * 81}:{ID}",
        f"\N{LATIN SMALL LETTER E WITH ACUTE}:{ID}",
        f"q\N{ARABIC-INDIC DIGIT ONE}:{ID}",
        f"q:r:{ID}",
        f"q:{ID}@",
        f"q:{ID}@1",
        f"q:{ID}@170000000000",
        f"q:{ID}@17000000000000",
        f"q:{ID}@-170000000000",
        f"q:{ID}@+170000000000",
        f"q:{ID}@170000000000\N{ARABIC-INDIC DIGIT ONE}",
        f"q:{ID}@1700000000000@1700000000000",
        f"q:{ID}@1700000000000~",
        f"q:{ID}@1700000000000~012345678",
        f"q:{ID}@1700000000000~0123456789abw",
        f"q:{ID}@1700000000000~0123456789ABV",
        f"q:{ID}@1700000000000~0123456789abv~",
        f"q:{ID}@1700000000000~0123456789abv\n",
        f"q:{ID}@1700000000000~0123456789ab\N{ARABIC-INDIC DIGIT ONE}",
        f"q:{ID}~0123456789abv",
        f"q:{ID}~0123456789abv@1700000000000",
    ],
    ids=ascii,
)
def test_a_bad_filed_name_is_no_name(text: str) -> None:
    with pytest.raises(NotAName):
        parse_filed(text)


@pytest.mark.parametrize(
    "text",
    [
        f"q:{ID}",
        f"q:{ID}~",
        f"{ID}~0123456789abv",
        f":{ID}~0123456789abv",
        f"q/:{ID}~0123456789abv",
        f"q:/{ID}~0123456789abv",
        f"q:{ID}/~0123456789abv",
        f"q:../{ID}~0123456789abv",
        f"q:{ID}/{ID}/{ID}~0123456789abv",
        f"q:{ID}//{ID}~0123456789abv",
        f"q:{ID},s1~0123456789abv",
        f"q:{ID.upper()}~0123456789abv",
        f"q:{ID}~0123456789abv\n",
        f"q:{ID}~0123456789abv\0",
        f"q:{ID}~0123456789ab\N{FULLWIDTH DIGIT ONE}",
        f"q:{ID}@1700000000000~0123456789abv",
        "q" * 10_000_000,
    ],
    ids=lambda text: ascii(text[:60]),
)
def test_a_bad_receipt_is_no_receipt(text: str) -> None:
    with pytest.raises(NotAName):
        parse_receipt(text)


FOREIGN = ["\0", "/", "\n", " ", "\\", "\N{ARABIC-INDIC DIGIT ONE}", "\udc80", "\N{KELVIN SIGN}", "*"]


@good_names
def test_a_name_with_a_foreign_character_anywhere_is_no_name(parse: Parse, good: str) -> None:
    assert str(parse(good)) == good
    for foreign in FOREIGN:
        for at in range(len(good) + 1):
            for after in (good[at:], good[at + 1 :]):
                if good[:at] + foreign + after == good:
                    continue  # the slash of a receipt, where it belongs
                with pytest.raises(NotAName):
                    parse(good[:at] + foreign + after)


@good_names
def test_a_name_with_one_character_changed_is_another_name_or_none(parse: Parse, good: str) -> None:
    for at in range(len(good)):
        for code in range(128):
            changed = good[:at] + chr(code) + good[at + 1 :]
            try:
                assert (parse(changed) == parse(good)) == (changed == good)
            except NotAName:
                assert changed != good


# Queue names.


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", fullmatch=True))
def test_a_queue_name_keeps_to_its_characters(name: str) -> None:
    assert is_queue_name(name)


@pytest.mark.parametrize("name", ["a", "0", "A", "a.b", "a-b_c.d", "9" * 80, "a..", "config", "new"])
def test_a_plain_name_is_a_queue_name(name: str) -> None:
    assert is_queue_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "_a",
        "a/b",
        "/a",
        "a/",
        "a:b",
        "a,b",
        "a@b",
        "a~b",
        "a b",
        "a\n",
        "a\0",
        "\0",
        "a" * 81,
        "é",
        "aé",
        "\N{FULLWIDTH LATIN SMALL LETTER A}",
        "a\N{ARABIC-INDIC DIGIT ONE}",
        "a\udc80",
        "*",
        "a" * 10_000_000,
    ],
    ids=lambda name: ascii(name[:20]),
)
def test_anything_else_is_no_queue_name(name: str) -> None:
    assert not is_queue_name(name)


@given(st.text())
def test_a_queue_name_is_always_a_safe_file_name(text: str) -> None:
    if is_queue_name(text):
        assert text.isascii()
        assert re.match("[A-Za-z0-9]", text)
        assert not set(text) & set("/\0:,@~\n")
        assert len(text) <= 80
