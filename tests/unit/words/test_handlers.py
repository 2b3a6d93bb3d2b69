from collections.abc import Iterator
from datetime import timedelta
from functools import partial, wraps
from typing import Any

import pytest

from queues.words.errors import HandlerConflict, InvalidSetting
from queues.words.handlers import AfterDeath, Handler, Projection, Registry, handles, on_dead_letter, projects, registry
from queues.words.messages import Message
from queues.words.outcomes import Budget
from queues.words.reactions import DeadLetter


def first(message: Message) -> None: ...


def second(message: Message) -> None: ...


@pytest.fixture(autouse=True)
def scratch() -> Iterator[Registry]:
    with registry.scratch() as open_registry:
        yield open_registry


def test_handles_registers_the_function_and_returns_it_unchanged() -> None:
    returned = handles("shop.Place", max_attempts=3, max_delays=None, time_limit=2.5, atomic=False)(first)

    assert returned is first
    assert registry.get("shop.Place") == Handler(
        type="shop.Place",
        function=first,
        max_attempts=3,
        max_delays=None,
        time_limit=timedelta(seconds=2.5),
        atomic=False,
    )


def test_a_second_function_for_a_type_is_refused_and_the_first_stays() -> None:
    handles("shop.Place")(first)

    with pytest.raises(HandlerConflict, match=r"shop\.Place"):
        handles("shop.Place")(second)

    handler = registry.get("shop.Place")
    assert handler is not None
    assert handler.function is first


def test_the_same_function_may_be_registered_again() -> None:
    handles("shop.Place")(first)
    handles("shop.Place")(first)

    assert "shop.Place" in registry.types()


def made_here() -> Any:
    def handle(message: Message) -> None: ...

    return handle


def made_there() -> Any:
    def handle(message: Message) -> None: ...

    handle.__qualname__ = made_here().__qualname__
    return handle


def test_a_module_imported_again_registers_its_handler_again() -> None:
    handles("shop.Place")(made_here())
    handles("shop.Place")(made_here())

    assert "shop.Place" in registry.types()


def test_two_functions_of_one_name_are_still_two_handlers() -> None:
    handles("shop.Place")(made_here())

    with pytest.raises(HandlerConflict):
        handles("shop.Place")(made_there())


def test_two_functions_of_one_name_behind_one_decorator_are_still_two_handlers() -> None:
    def decorated(function: Any) -> Any:
        @wraps(function)
        def wrapper(message: Message) -> object:
            return function(message)

        return wrapper

    handles("shop.Place")(decorated(made_here()))

    with pytest.raises(HandlerConflict):
        handles("shop.Place")(decorated(made_there()))


def test_a_handler_is_named_by_module_and_qualified_name() -> None:
    handler = Handler(type="a", function=first)

    assert handler.name == f"{first.__module__}.first"


def test_a_handler_without_a_name_of_its_own_is_named_by_its_class() -> None:
    assert Handler(type="a", function=partial(first)).name == "functools.partial"


@pytest.mark.parametrize("caps", [{"max_attempts": 0}, {"max_attempts": -1}, {"max_delays": -1}, {"time_limit": 0}])
def test_a_cap_that_cannot_be_is_refused_at_registration(caps: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        handles("shop.Place", **caps)(first)

    assert registry.get("shop.Place") is None


@pytest.mark.parametrize("message_type", ["", "x" * 501, first])
def test_a_type_that_no_message_can_have_is_refused_at_registration(message_type: Any) -> None:
    with pytest.raises(InvalidSetting, match="type"):
        handles(message_type)(first)


def test_a_handler_keeps_the_source_caps_that_it_does_not_set() -> None:
    default = Budget(max_attempts=10, max_delays=100)

    assert Handler(type="a", function=first).budget(default) == default
    assert Handler(type="a", function=first, max_attempts=2).budget(default) == Budget(max_attempts=2, max_delays=100)
    assert Handler(type="a", function=first, max_attempts=None, max_delays=0).budget(default) == Budget(
        max_attempts=None, max_delays=0
    )


def test_an_unknown_type_has_no_handler() -> None:
    assert registry.get("nobody.Knows") is None


def test_scratch_forgets_what_was_registered_in_it() -> None:
    own = Registry()
    own.add(Handler(type="kept", function=first))

    with own.scratch():
        own.add(Handler(type="gone", function=second))
        assert own.types() == ("gone", "kept")

    assert own.types() == ("kept",)


def test_projects_registers_the_function_for_its_perspective_and_returns_it_unchanged() -> None:
    returned = projects("test_totals", "shop.Placed", "shop.Paid", max_attempts=3, time_limit=2.5)(first)

    assert returned is first
    limit, hold = timedelta(seconds=2.5), AfterDeath.HOLD
    handler = Handler(type="test_totals", function=first, max_attempts=3, time_limit=limit, after_death=hold)
    expected = Projection(handler=handler, event_types=("shop.Placed", "shop.Paid"))
    assert registry.projection("test_totals") == expected
    assert registry.get("test_totals") is None
    assert expected in registry.projections()


def test_a_second_function_for_a_perspective_is_refused_even_for_other_events() -> None:
    projects("test_totals", "shop.Placed")(first)

    with pytest.raises(HandlerConflict, match="both project test_totals"):
        projects("test_totals", "shop.Paid")(second)

    projection = registry.projection("test_totals")
    assert projection is not None
    assert projection.handler.function is first


def test_one_function_may_project_two_perspectives_and_handle_a_type() -> None:
    for perspective in ("test_totals", "search"):
        projects(perspective, "shop.Placed")(first)
    handles("shop.Placed")(first)

    assert [known.perspective for known in registry.projections() if known.handler.function is first] == [
        "search",
        "test_totals",
    ]


@pytest.mark.parametrize("name", ["", "x" * 101, "a\x00b", 7])
def test_a_perspective_that_no_row_can_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidSetting):
        projects(name, "shop.Placed")(first)


@pytest.mark.parametrize("types", [(), ("",), ("x" * 501,), ("shop.Placed", first)])
def test_event_types_that_no_event_can_have_are_refused(types: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidSetting, match="event type"):
        projects("test_totals", *types)(first)


def test_scratch_forgets_projections_too() -> None:
    own = Registry()

    with own.scratch():
        own.add_projection(Projection(handler=Handler(type="gone", function=first), event_types=("a",)))

    assert own.projections() == ()


def reconcile(letter: DeadLetter) -> None: ...


def reconcile_too(letter: DeadLetter) -> None: ...


def test_a_second_reaction_to_a_type_is_refused_and_the_first_stays(scratch: Registry) -> None:
    assert on_dead_letter("test.Pay")(reconcile) is reconcile
    with pytest.raises(HandlerConflict, match=r"dead_letter:test\.Pay"):
        on_dead_letter("test.Pay")(reconcile_too)

    handler = scratch.get("dead_letter:test.Pay")
    assert handler is not None
    assert handler.function is reconcile
    assert "test.Pay" in scratch.reacted_types()


@pytest.mark.parametrize("message_type", ["", "x" * 489, None])
def test_a_reaction_to_a_type_that_no_message_can_tell_of_is_refused(message_type: Any) -> None:
    with pytest.raises(InvalidSetting, match="type"):
        on_dead_letter(message_type)
