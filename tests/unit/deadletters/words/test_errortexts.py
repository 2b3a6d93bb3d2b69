"""Error texts as pages show them."""

from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.errortexts import parts_of

LINES = st.lists(
    st.sampled_from(
        [
            '  File "/srv/shop/a.py", line 3, in f',
            '  File "/srv/venv/lib/python3.11/site-packages/x/y.py", line 3, in g',
            '  File "<frozen runpy>", line 1, in h',
            "    call()",
            "    ~~~~^^",
            "ValueError: x",
            "",
        ]
    )
)


HEADER = "Traceback (most recent call last):"


@given(LINES, st.sampled_from([[], [HEADER], ["ValueError: x", HEADER], ["two", "lines", "", HEADER, HEADER]]))
def test_nothing_of_the_text_is_lost(lines, head):
    text = "\n".join([*head, *lines])

    assert "\n".join(part.text for part in parts_of(text)) == text


def test_library_frames_are_folded_together_and_counted():
    parts = parts_of(
        'ValueError: x\nTraceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n    g()\n'
        '  File "/x/site-packages/b.py", line 1, in g\n    h()\n    ^^^\n'
        '  File "/usr/lib/python3.11/c.py", line 1, in h\n    i()\n'
        "ValueError: x"
    )

    assert [(part.is_folded, part.frames) for part in parts if part.is_folded] == [(True, 2)]
    assert parts[1].text.endswith("    g()")
    assert parts[-1].text == "ValueError: x"


def test_a_text_without_frames_is_one_open_part():
    (part,) = parts_of("System.Exception: no\n   at Shop.Pay()")

    assert not part.is_folded
