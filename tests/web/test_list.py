"""The list: newest first, whole with equal times, filtered by what the address says or refused."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils import timezone

from deadletters.models import RecoveryStatus
from deadletters.queries import letters
from deadletters.templatetags.deadletters import without_module
from deadletters.words.filters import LetterFilter
from tests.factories import NOON, a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db


def found(page, **parameters):
    """Return the ids on the page that the parameters name."""
    response = page.get("/letters/", parameters)
    assert response.status_code == 200, response.content.decode()
    return [row.letter.pk for row in response.context["page"].rows]


def walk(page, **parameters):
    """Return the ids of all pages, following "Older"."""
    ids, after = [], ""
    while True:
        response = page.get("/letters/", {**parameters, "after": after})
        shown = response.context["page"]
        ids += [row.letter.pk for row in shown.rows]
        if shown.next is None:
            return ids
        after = str(shown.next)


def test_the_newest_come_first(page):
    old, new = a_letter(dead_lettered_at=NOON), a_letter(dead_lettered_at=NOON + timedelta(seconds=1))

    assert found(page) == [new.pk, old.pk]


def test_pages_lose_and_repeat_nothing_with_equal_times_and_microseconds(page):
    at = NOON.replace(microsecond=123_456)
    times = [at] * 30 + [at + timedelta(microseconds=1)] * 15 + [at - timedelta(microseconds=1)] * 15
    made = {a_letter(dead_lettered_at=moment).pk for moment in times}

    walked = walk(page, size="25")
    assert len(walked) == 60
    assert set(walked) == made


def test_pages_stay_whole_while_new_letters_arrive(page):
    first = [a_letter(dead_lettered_at=NOON + timedelta(seconds=n)).pk for n in range(30)]
    shown = page.get("/letters/", {"size": "25"}).context["page"]
    a_letter(dead_lettered_at=NOON + timedelta(hours=1))

    rest = found(page, size="25", after=str(shown.next))
    assert [row.letter.pk for row in shown.rows] + rest == first[::-1]


def test_a_filter_finds_its_letters_only(page):
    wanted = a_letter(
        message_type="billing.ChargeCard",
        failure_reason=4,
        status=RecoveryStatus.HELD,
        source_table="wh_outbox",
        error="CardDeclined: no funds",
        subjects=[("order", "42")],
        dead_lettered_at=NOON,
    )
    a_letter(dead_lettered_at=NOON + timedelta(hours=2), subjects=[("order", "43")])

    for parameters in (
        {"type": "billing.ChargeCard"},
        {"reason": "validation_error"},
        {"status": "held"},
        {"source": "outbox"},
        {"subject": "order:42"},
        {"q": "cARDdeclined"},
        {"q": "billing.charge"},
        {"until": "2026-01-15T13:00"},
        {"since": "2026-01-15T11:59:59+00:00", "until": "2026-01-15T12:00:01Z"},
    ):
        assert found(page, **parameters) == [wanted.pk], parameters


def test_since_counts_back_from_now(page):
    from django.utils import timezone

    recent = a_letter(dead_lettered_at=timezone.now() - timedelta(minutes=59))
    a_letter(dead_lettered_at=timezone.now() - timedelta(minutes=61))

    assert found(page, since="1h") == [recent.pk]


def test_letters_that_died_again_and_those_of_other_sources_and_reasons_are_found(page):
    again = a_letter(deaths=2)
    foreign = a_letter(source_table="their_outbox", failure_reason=4711)
    a_letter()

    assert found(page, again="yes") == [again.pk]
    assert found(page, source="other") == [foreign.pk]
    assert found(page, reason="4711") == [foreign.pk]
    assert page.get("/letters/", {"again": "no"}).status_code == 400


def test_a_text_that_is_an_id_finds_letter_message_and_stream_exactly(page):
    stream = uuid4()
    letter = a_letter(stream_id=stream)
    a_letter(error=f"ValueError: {letter.pk} {letter.source_id} {stream}")

    for identity in (letter.pk, letter.source_id, stream, stream.hex, str(stream).upper()):
        assert found(page, q=str(identity)) == [letter.pk]


def test_like_wildcards_in_a_text_are_only_characters(page):
    percent = a_letter(error="ValueError: 100% wrong_")
    a_letter(error="ValueError: 1000 wrongs")

    assert found(page, q="100%") == [percent.pk]
    assert found(page, q="wrong_") == [percent.pk]
    assert found(page, q="\\") == []


def test_a_subject_may_hold_colons_and_anything_else(page):
    letter = a_letter(subjects=[("urn:x", "1"), ("order", "a:b&c=d #<é>")])

    content = page.get("/letters/", {"subject": "order:a:b&c=d #<é>"})
    assert [row.letter.pk for row in content.context["page"].rows] == [letter.pk]


def test_a_type_longer_than_its_index_is_compared_whole(page):
    long = a_letter(message_type="t" * 300)
    a_letter(message_type="t" * 299)

    assert found(page, type="t" * 300) == [long.pk]


@pytest.mark.parametrize(
    "query",
    [
        "since=0001-01-01T00:00%2B23:59",
        "until=9999-12-31T23:59:59-23:59",
        "stauts=open",
        "status=zombie",
        "status=open&status=held",
        "source=inbx",
        "reason=nope",
        "reason=4",
        "subject=order",
        "since=yesterday",
        "since=24",
        "until=2026-13-01",
        "since=99999d",
        "size=7",
        "size=abc",
        "after=xyz",
        "after=20260115T120000.000000_zz",
        "q=a%00b",
        "q=" + "x" * 201,
    ],
)
def test_what_is_not_understood_is_400_with_a_sentence_and_never_no_filter(page, query):
    a_letter(error="must not be shown")

    for headers in ({}, HTMX):
        response = page.get(f"/letters/?{query}", headers=headers)
        assert response.status_code == 400
        assert "That filter is not understood." in response.content.decode()
        assert "must not be shown" not in response.content.decode()
    assert page.get(f"/letters/newer?{query}").status_code == 400


def test_what_was_typed_stays_in_the_form_of_a_refused_filter(page):
    content = page.get("/letters/", {"q": "card <b>", "since": "yesterday", "status": "held"}).content.decode()

    assert 'value="card &lt;b&gt;"' in content
    assert 'value="yesterday"' in content
    assert '<option value="held" selected>' in content


def test_the_filter_says_itself(page):
    content = page.get("/letters/", {"status": "given_up", "q": "<b>", "since": "1h"}).content.decode()

    assert "Dead letters in state given up, with “&lt;b&gt;” in them, since 1 hour ago" in content


def test_empty_fields_of_the_form_are_no_filter_and_leave_the_address(page):
    letter = a_letter()

    response = page.get("/letters/?q=&status=&type=&since=2400h&until=", headers=HTMX)
    assert response.headers["HX-Push-Url"] == "/letters/?since=2400h"
    assert [row.letter.pk for row in response.context["page"].rows] == [] or letter


def test_the_empty_list_says_which_kind_of_empty_it_is(page):
    assert "Nothing has died." in page.get("/letters/").content.decode()

    a_letter()
    content = page.get("/letters/", {"q": "unheard of"}).content.decode()
    assert "No dead letter matches." in content
    assert "Clear the filter" in content


def test_superseded_letters_are_not_listed(page):
    survivor = a_letter()
    a_letter(source_id=survivor.source_id, superseded_by=survivor.pk)

    assert found(page) == [survivor.pk]


def test_a_row_says_what_it_is_in_words(page):
    a_letter(status=RecoveryStatus.RECOVERING, deaths=2, subjects=[("order", "42"), ("customer", "7"), ("sku", "x")])
    a_letter(error=None, status=RecoveryStatus.PERMANENTLY_FAILED)
    a_letter(error="")

    content = page.get("/letters/").content.decode()
    for said in ("Recovering", "died 2×", "+2", "Given up", "no reason recorded", "empty reason", "Inbox"):
        assert said in content


def test_secrets_in_an_error_line_are_masked(page):
    a_letter(error="HTTPError: https://user:hunter2@pay.example/ said no, token=abcdef123")

    content = page.get("/letters/").content.decode()
    assert "hunter2" not in content
    assert "abcdef123" not in content


def test_the_number_of_queries_does_not_depend_on_the_rows(page):
    counts = []
    for _ in range(2):
        for _ in range(12):
            a_letter(subjects=[("order", "1"), ("order", "2")])
        page.get("/letters/")
        with CaptureQueriesContext(
            connection,
        ) as queries:
            page.get("/letters/")
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[0] <= 11


def test_the_list_reads_no_heavy_column(page):
    a_letter()

    with CaptureQueriesContext(connection) as queries:
        page.get("/letters/", {"q": "no such", "subject": "order:42"})
        page.get("/letters/")
    read = " ".join(query["sql"] for query in queries)
    for column in ("envelope", "error_text", "metadata", "source_row", "failure_detail"):
        assert f'"{column}"' not in read


def test_a_text_is_looked_for_in_the_newest_only_and_the_page_says_so(page, monkeypatch):
    monkeypatch.setattr(letters, "SEARCHED", 2)
    a_letter(error="needle", dead_lettered_at=NOON)
    for _ in range(2):
        a_letter(error="hay", dead_lettered_at=NOON + timedelta(hours=1))

    response = page.get("/letters/", {"q": "needle"})
    assert response.context["page"].rows == []
    assert "Looked for in the newest 2 of them only." in response.content.decode()
    assert "in the newest 2" not in page.get("/letters/", {"q": "needle", "until": "2026-01-15T12:30"}).content.decode()


def test_of_letters_that_died_at_once_no_more_are_looked_through(page, monkeypatch):
    monkeypatch.setattr(letters, "SEARCHED", 2)
    for _ in range(4):
        a_letter(error="needle", dead_lettered_at=NOON)
    assert len(page.get("/letters/", {"q": "needle"}).context["page"].rows) == 2


def test_counts_are_capped(page, monkeypatch):
    monkeypatch.setattr(letters, "COUNT_CAP", 2)
    for _ in range(26):
        a_letter()
    content = page.get("/letters/", {"reason": "unknown", "size": "25"}).content.decode()
    assert "10,000+" in content
    assert "count exactly" in content


def test_what_is_counted_anyway_is_exact_whatever_the_cap(page, monkeypatch):
    monkeypatch.setattr(letters, "COUNT_CAP", 2)
    for status in [RecoveryStatus.HELD] * 3 + [RecoveryStatus.PENDING]:
        a_letter(status=status)
    a_letter(source_table="wh_outbox")

    def counted(**parameters):
        total = page.get("/letters/", parameters).context["counted"].value
        assert not total.is_capped
        return total.n

    assert [counted(), counted(status="held"), counted(source="outbox")] == [5, 3, 1]
    assert counted(disposition="none", source="inbox") == 4


def test_a_capped_count_is_counted_to_the_end_when_asked_for(page, monkeypatch):
    monkeypatch.setattr(letters, "COUNT_CAP", 2)
    for _ in range(4):
        a_letter()

    fragment = page.get("/letters/count", {"reason": "unknown"}, headers=HTMX).content.decode()
    assert "4" in fragment
    assert "10,000+" not in fragment
    assert "<tr" not in fragment
    whole = page.get("/letters/count", {"reason": "unknown"})
    assert whole.context["counted"].value.n == 4
    assert len(whole.context["page"].rows) == 4
    assert page.get("/letters/count", {"reason": "nope"}).status_code == 400


def test_a_count_that_takes_too_long_takes_no_row_with_it(page, monkeypatch):
    for _ in range(26):
        a_letter(message_type="the.Row")

    def slow(*_, **__):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(20)")

    monkeypatch.setattr(letters, "total", slow)
    with override_settings(DEADLETTERS={"REGION_SECONDS": 0.05}):
        content = page.get("/letters/", {"size": "25"}).content.decode()

    assert "Counting took too long." in content
    assert "the.Row" in content


def test_rows_that_take_too_long_leave_the_search_and_say_so(page, monkeypatch):
    a_letter(message_type="the.Row")

    def slow(*_, **__):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(20)")

    monkeypatch.setattr(letters, "page", slow)
    with override_settings(DEADLETTERS={"REGION_SECONDS": 0.05}):
        content = page.get("/letters/", {"q": "x y"}).content.decode()

    assert "Took too long." in content
    assert "/letters/?q=x+y" in content
    assert "the.Row" not in content


def test_a_search_is_the_whole_filter_and_leads_to_its_one_address(page):
    wanted = a_letter(message_type="order.placed", failure_reason=4, error="boom bang")
    a_letter(message_type="order.placed", failure_reason=4, error="hush")
    search = "type:order.placed boom reason:validation_error since:99d bang"
    address = "/letters/?type=order.placed&reason=validation_error&q=boom+bang&since=99d"

    response = page.get("/letters/", {"search": search, "size": "25"})
    assert (response.status_code, response.headers["Location"]) == (302, f"{address}&size=25")
    fragment = page.get("/letters/", {"search": search.replace("since:99d", "")}, headers=HTMX)
    assert fragment.headers["HX-Push-Url"] == address.replace("&since=99d", "")
    assert [row.letter.pk for row in fragment.context["page"].rows] == [wanted.pk]
    assert 'value="type:order.placed reason:validation_error boom bang"' in fragment.content.decode()


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"search": "stauts:open boom"}, "did you mean “status”?"),
        ({"search": "status:open status:held"}, "given more than once"),
        ({"search": "status:zombie"}, "“zombie” is no status"),
        ({"search": "boom", "status": "open"}, "“status” cannot stand beside it"),
        ({"search": "x" * 9_000}, "at most 8,000 characters"),
    ],
)
def test_a_search_that_is_not_understood_is_400_and_stays_in_the_box(page, parameters, said):
    a_letter(error="must not be shown")

    for headers in ({}, HTMX):
        response = page.get("/letters/", parameters, headers=headers)
        assert response.status_code == 400
        content = response.content.decode()
        assert said in content
        assert f'value="{parameters["search"][:8_000]}"' in content
        assert "must not be shown" not in content


def test_the_form_follows_a_changed_filter_and_is_left_alone_under_the_same(page):
    a_letter()
    here = {**HTMX, "HX-Current-URL": "http://testserver/letters/?status=open&size=25"}

    same = page.get("/letters/", {"status": "open", "after": "20260115T120000.000000_" + "0" * 32}, headers=here)
    other = page.get("/letters/", {"status": "held"}, headers=here)
    assert 'id="filters"' not in same.content.decode()
    assert 'id="filters" hx-swap-oob="true"' in other.content.decode()
    assert 'value="status:held"' in other.content.decode()


def test_each_part_of_the_filter_is_a_chip_with_a_link_without_it(page):
    content = page.get("/letters/", {"status": "held", "q": "a&b", "size": "25"}).content.decode()

    assert 'href="/letters/?q=a%26b&amp;size=25"' in content
    assert 'href="/letters/?status=held&amp;size=25"' in content
    assert "No longer filter by: with “a&amp;b” in them" in content


def test_what_a_row_says_are_links_that_narrow_the_list(page):
    a_letter(failure_reason=4, source_table="wh_outbox", destination="topic/eu", owner="vera")

    content = page.get("/letters/", {"q": "no such", "size": "25"}).content.decode()
    for link in ("reason=validation_error&amp;q=no+such", "source=outbox&amp;q=no+such", "owner=vera&amp;q=no+such"):
        assert f'href="/letters/?{link}&amp;size=25"' in content
    assert "topic/eu" in content


def test_letters_that_died_again_and_what_one_owns_are_lists(page):
    again = a_letter(deaths=2)
    mine = a_letter(owner="olga")
    a_letter(owner="olga the other")

    assert found(page, again="yes") == [again.pk]
    assert found(page, owner="olga") == [mine.pk]
    assert page.get("/letters/?again=no").status_code == 400


def test_newer_letters_are_counted_and_offered_while_the_rows_stay(page):
    a_letter(dead_lettered_at=NOON)
    shown = page.get("/letters/").context["page"]
    for second in (0, 1):
        a_letter(dead_lettered_at=NOON + timedelta(seconds=second), dead_letter_id=UUID(int=2**128 - 1 - second))

    content = page.get("/letters/newer", {"after": str(shown.newest)}, headers=HTMX).content.decode()
    assert "2" in content
    assert "newer dead letters" in content
    newest = page.get("/letters/").context["page"].newest
    assert page.get("/letters/newer", {"after": str(newest)}, headers=HTMX).content.strip() == b""


@pytest.mark.parametrize("others", [[], [timedelta(days=-1)]], ids=["alone", "above another"])
def test_a_letter_of_the_future_is_no_news_and_hides_none(page, others):
    now = timezone.now()
    for apart in [timedelta(days=3000), *others]:
        a_letter(dead_lettered_at=now + apart)
    after = {"after": str(page.get("/letters/").context["page"].newest)}
    assert page.get("/letters/newer", after, headers=HTMX).content.strip() == b""

    a_letter(dead_lettered_at=timezone.now())
    response = page.get("/letters/newer", after, headers=HTMX)
    assert response.context["count"] == 1


def test_newer_ones_are_counted_under_the_same_filter(page):
    a_letter(dead_lettered_at=NOON, error="one")
    shown = page.get("/letters/", {"q": "one"}).context["page"]
    a_letter(dead_lettered_at=NOON + timedelta(seconds=1), error="two")

    response = page.get("/letters/newer", {"after": str(shown.newest), "q": "one"}, headers=HTMX)
    assert response.content.strip() == b""


def test_htmx_gets_the_results_only_and_a_history_restore_the_page(page):
    a_letter()

    fragment = page.get("/letters/", headers=HTMX).content.decode()
    assert "<html" not in fragment
    assert 'id="results"' in fragment
    restored = page.get("/letters/", headers={**HTMX, "HX-History-Restore-Request": "true"}).content.decode()
    assert "<html" in restored


def test_a_query_string_is_what_the_filter_says():
    filters = LetterFilter.parse({"type": "a b&c", "subject": "order:é", "size": "25", "after": ""})

    assert filters.query() == "type=a+b%26c&subject=order%3A%C3%A9&size=25"
    assert filters.query(subject="") == "type=a+b%26c&size=25"


def test_a_row_shows_the_errors_type_without_its_module_and_the_whole_line_on_hover(page):
    a_letter(error="shop.errors.CardDeclined: 51")

    shown = page.get("/letters/").content.decode()

    assert ">CardDeclined: 51<" in shown
    assert 'title="shop.errors.CardDeclined: 51"' in shown


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("psycopg.errors.UniqueViolation [23505]: dup", "UniqueViolation [23505]: dup"),
        ("shop.errors.CardDeclined: no", "CardDeclined: no"),
        ("shop.errors.CardDeclined", "CardDeclined"),
        ("ValueError: a.B: c", "ValueError: a.B: c"),
        ("see shop.Errors: no type", "see shop.Errors: no type"),
    ],
)
def test_an_error_line_is_shown_without_the_module_of_its_type(line, short):
    assert without_module(line) == short
