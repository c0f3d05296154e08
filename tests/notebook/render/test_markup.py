"""Elements: what is escaped, and which attributes are left out."""

from xml.etree.ElementTree import fromstring

from lancekit._notebook.render.html import Markup, element, joined

EVIL = "</b><script>'\"&amp;"


def test_strings_are_escaped_and_markup_stays():
    made = element("p", EVIL, element("b", EVIL), title=EVIL)
    parsed = fromstring(made)
    assert parsed.attrib == {"title": EVIL}
    assert [parsed.text, parsed[0].tag, parsed[0].text] == [EVIL, "b", EVIL]
    assert joined(EVIL, Markup("<i></i>")) == joined(EVIL) + "<i></i>"


def test_attributes_have_dashes_and_short_numbers():
    made = element("rect", class_="a", stroke_width=0, x=1.5, y=2.0, dx=1 / 3, role="", title=None)
    assert made == '<rect class="a" stroke-width="0" x="1.5" y="2" dx="0.33"></rect>'
