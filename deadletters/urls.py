"""The pages."""

from django.urls import path, re_path

from deadletters import health
from deadletters.views import exports, groups, letters, patterns, subjects

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
    path("letters/<uuid:dead_letter_id>/triage", letters.triage_letter, name="triage_letter"),
    path("letters/<uuid:dead_letter_id>/decide", letters.decide, name="decide"),
    path("groups/", groups.group_list, name="groups"),
    path("groups/<uuid:group_id>/", groups.group, name="group"),
    path("groups/<uuid:group_id>/triage", groups.triage_group, name="triage_group"),
    path("groups/<uuid:group_id>/notes", groups.add_note, name="add_group_note"),
    path("groups/of/<str:fingerprint>", groups.by_fingerprint, name="group_of"),
    path("subjects/", subjects.subject_list, name="subjects"),
    path("subject/", subjects.subject, name="subject"),
    path("patterns", patterns.patterns, name="patterns"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
