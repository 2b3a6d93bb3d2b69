"""Error texts as pages show them."""

import traceback
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.errortexts import Kind, Relation, steps_of

HEADER = "Traceback (most recent call last):"
CAUSE = "The above exception was the direct cause of the following exception:"
CONTEXT = "During handling of the above exception, another exception occurred:"
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
            HEADER,
            CAUSE,
            CONTEXT,
            "Behind it:",
            "  | ValueError: in a group",
            "  +-+---------------- 1 ----------------",
            "    +---------------- ... ----------------",
            "  + Exception Group Traceback (most recent call last):",
            '  |   File "/srv/shop/b.py", line 3, in f',
        ]
    )
)


@given(LINES, st.sampled_from([[], [HEADER], ["ValueError: x", HEADER], ["two", "lines", "", HEADER, HEADER]]))
def test_no_line_of_the_text_is_lost_or_made_up(lines, head):
    text = "\n".join([*head, *lines])

    shown = [line for step in steps_of(text) for part in step.parts for line in part.text.split("\n")]
    assert Counter(filter(None, shown)) == Counter(filter(None, text.split("\n")))


@given(st.text())
def test_any_text_is_read_and_the_first_step_stands_for_itself(text):
    steps = steps_of(text)

    assert not steps or steps[0].relation is Relation.NONE


def kinds(step):
    return [part.kind for part in step.parts]


def test_library_frames_are_folded_together_and_counted():
    (step,) = steps_of(
        'ValueError: x\nTraceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n    g()\n'
        '  File "/x/site-packages/b.py", line 1, in g\n    h()\n    ^^^\n'
        '  File "/usr/lib/python3.11/c.py", line 1, in h\n    i()\n'
        "ValueError: x"
    )

    assert kinds(step) == [Kind.MESSAGE, Kind.HEADER, Kind.OWN, Kind.LIBRARY, Kind.REPEATED]
    assert step.parts[2].text.endswith("    g()")
    assert step.parts[3].frames == 2


def test_frames_of_named_paths_are_own_ones_wherever_they_are_installed():
    text = f'E: x\n{HEADER}\n  File "/venv/site-packages/shop/a.py", line 1, in f\n  File "/srv/b.py", line 1, in g'

    assert Kind.LIBRARY in kinds(steps_of(text)[0])
    assert Kind.LIBRARY not in kinds(steps_of(text, own=["/venv/site-packages/shop/"])[0])


def test_where_no_frame_is_ours_the_last_one_is_shown():
    frame = '  File "/venv/site-packages/shop/{}.py", line 1, in f'
    (step,) = steps_of("\n".join(["E: x", HEADER, frame.format("a"), frame.format("b"), "E: x"]))

    (shown,) = [part for part in step.parts if part.kind is Kind.OWN]
    assert "shop/b.py" in shown.text


def test_a_text_without_a_python_traceback_stays_as_it_is():
    (step,) = steps_of("System.Exception: no\n   at Shop.Pay()\n   at Shop.Run()")

    assert kinds(step) == [Kind.MESSAGE, Kind.TEXT]
    assert step.parts[1].text == "   at Shop.Pay()\n   at Shop.Run()"


def raised():
    try:
        try:
            try:
                raise KeyError("first")
            except KeyError as exc:
                raise TypeError("second") from exc
        except TypeError:
            third = ValueError("third")
            third.add_note("look at the map")
            raise third  # noqa: B904 - the chain as it is without a cause
    except ValueError as exc:
        return exc


def test_what_python_writes_is_shown_with_the_outcome_first():
    steps = steps_of("".join(traceback.format_exception(raised())).strip())

    messages = [next(part.text for part in step.parts if part.kind is Kind.MESSAGE) for step in steps]
    assert messages == ["ValueError: third", "TypeError: second", "KeyError: 'first'"]
    assert [step.relation for step in steps] == [Relation.NONE, Relation.CONTEXT, Relation.CAUSE]
    assert any("look at the map" in part.text for part in steps[0].parts)


def test_what_the_queues_record_keeps_its_order():
    recorded = f'shop.Down: x\n{HEADER}\n  File "/srv/a.py", line 1, in f\nshop.Down: x'
    steps = steps_of(f"{recorded}\n\nBehind it:\nConnectionError: refused")

    assert [step.relation for step in steps] == [Relation.NONE, Relation.BEHIND]
    assert kinds(steps[1]) == [Kind.LINK, Kind.MESSAGE]
    assert steps[1].parts[1].text == "ConnectionError: refused"


def test_a_message_that_is_said_again_leaves_only_its_notes():
    (step,) = steps_of(f'E: x\n{HEADER}\n  File "/srv/a.py", line 1, in f\nE: x\nlook at the map')

    assert kinds(step)[-2:] == [Kind.REPEATED, Kind.TEXT]
    assert step.parts[-1].text == "look at the map"


def test_the_members_of_a_group_are_steps_of_their_own():
    def fails(exc):
        try:
            raise exc
        except Exception as caught:
            return caught

    group = fails(ExceptionGroup("two", [fails(ValueError("a")), fails(OSError("b"))]))
    steps = steps_of("".join(traceback.format_exception(group)).strip())

    assert [step.relation for step in steps] == [Relation.NONE, Relation.MEMBER, Relation.MEMBER]
    for step, said in zip(steps, ("two", "ValueError: a", "OSError: b"), strict=True):
        assert any(said in part.text for part in step.parts if part.kind is Kind.MESSAGE)


@pytest.mark.parametrize("text", ["x" * 64_000, "\n" * 64_000, f"{HEADER}\n" * 2_000, "  + | " * 10_000, " |" * 32_000])
def test_long_and_odd_texts_are_read(text):
    assert steps_of(text)
