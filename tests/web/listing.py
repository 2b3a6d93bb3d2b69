"""How the tests of the list read it."""


def found(page, **parameters):
    """Return the ids on the page that the parameters name."""
    response = page.get("/letters/", parameters)
    assert response.status_code == 200, response.content.decode()
    return [row.letter.pk for row in response.context["page"].rows]
