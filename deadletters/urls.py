"""The pages."""

app_name = "deadletters"
urlpatterns: list[object] = []
