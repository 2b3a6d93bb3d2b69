"""The error pages in a project whose addresses include none of these pages: they say what happened, without links."""

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from deadletters.views import errors

pytestmark = pytest.mark.urls(__name__)
urlpatterns: list[object] = []

ANSWERS = {
    400: lambda request: errors.bad_request(request, ValueError()),
    403: errors.not_allowed,
    404: errors.not_found,
    500: errors.failed,
}


@pytest.fixture
def request_of_somebody(admin_user) -> HttpRequest:
    request = RequestFactory().get("/elsewhere")
    request.user = admin_user
    request.htmx = False
    return request


@pytest.mark.django_db
@pytest.mark.parametrize("status", ANSWERS)
def test_an_error_page_needs_no_address_of_these_pages(status, request_of_somebody):
    answer = ANSWERS[status](request_of_somebody)

    assert answer.status_code == status
    content = answer.content.decode()
    assert "<h1>" in content
    assert 'href=""' not in content
    assert "To the start" not in content
    assert "Overview" not in content


@pytest.mark.django_db
def test_a_page_out_of_date_says_so_without_an_address_of_these_pages(request_of_somebody):
    answer = errors.out_of_date(request_of_somebody)

    assert answer.status_code == 403
    assert "out of date" in answer.content.decode()
