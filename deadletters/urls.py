"""The pages."""

from django.urls import path, re_path

from deadletters import health
from deadletters.views import exports, letters, patterns

app_name = "deadletters"
urlpatterns = [
    path("", letters.home, name="home"),
    path("letters/", letters.letter_list, name="letters"),
    path("letters/newer", letters.newer, name="newer"),
    re_path(r"^letters/export\.(?P<form>jsonl|csv)$", exports.letter_list, name="export"),
    path("letters/<uuid:dead_letter_id>/export.json", exports.letter, name="export_letter"),
    path("letters/<uuid:dead_letter_id>/payload", exports.payload, name="payload"),
    path("letters/<uuid:dead_letter_id>/", letters.detail, name="letter"),
    path("letters/<uuid:dead_letter_id>/live", letters.live, name="live"),
    path("letters/<uuid:dead_letter_id>/recover", letters.recover, name="recover"),
    path("letters/<uuid:dead_letter_id>/notes", letters.add_note, name="add_note"),
    path("patterns", patterns.patterns, name="patterns"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
