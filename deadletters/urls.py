"""The pages."""

from django.urls import path, re_path, register_converter
from django.urls.converters import StringConverter

from deadletters import health
from deadletters.views import (
    audit,
    edits,
    exports,
    groups,
    groupverbs,
    letter,
    letteractions,
    letters,
    live,
    many,
    overview,
    patterns,
    queues,
    reveals,
    rows,
    runs,
    savedviews,
    subjects,
    suggestions,
)


class LiveSource(StringConverter):
    """A source whose messages are alive, by its short name."""

    regex = "|".join(live.FILTERS)


class RegionName(StringConverter):
    """A region of the overview."""

    regex = "|".join(overview.PARTS)


register_converter(LiveSource, "live_source")
register_converter(RegionName, "region")

app_name = "deadletters"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("overview/<region:name>", overview.region, name="region"),
    path("letters/", letters.letter_list, name="letters"),
    path("letters/newer", letters.newer, name="newer"),
    path("letters/many", many.ask, name="ask_many"),
    path("letters/many/do", many.change, name="change_many"),
    path("letters/suggest", suggestions.suggest, name="suggest"),
    path("letters/views", savedviews.save, name="save_view"),
    path("letters/views/<int:view_id>", savedviews.view, name="saved_view"),
    path("letters/views/<int:view_id>/change", savedviews.change, name="change_view"),
    path("letters/count", letters.count, name="count_letters"),
    re_path(r"^letters/export\.(?P<form>jsonl|csv)$", exports.letter_list, name="export"),
    path("letters/<uuid:dead_letter_id>/export.json", exports.letter, name="export_letter"),
    path("letters/<uuid:dead_letter_id>/payload", exports.payload, name="payload"),
    path("letters/<uuid:dead_letter_id>/", letter.detail, name="letter"),
    path("letters/<uuid:dead_letter_id>/row", rows.row, name="row"),
    path("letters/<uuid:dead_letter_id>/act", rows.act, name="act"),
    path("letters/<uuid:dead_letter_id>/live", letter.live, name="live"),
    path("letters/<uuid:dead_letter_id>/recover", letteractions.recover, name="recover"),
    path("letters/<uuid:dead_letter_id>/notes", letteractions.add_note, name="add_note"),
    path("letters/<uuid:dead_letter_id>/triage", letteractions.triage_letter, name="triage_letter"),
    path("letters/<uuid:dead_letter_id>/reveal", reveals.reveal, name="reveal"),
    path("letters/<uuid:dead_letter_id>/edit", edits.edit, name="edit"),
    path("letters/<uuid:dead_letter_id>/versions/<int:number>", edits.version, name="version"),
    path("letters/<uuid:dead_letter_id>/versions/<int:number>/restore", edits.restore, name="restore"),
    path("letters/<uuid:dead_letter_id>/purge", edits.purge, name="purge"),
    path("letters/<uuid:dead_letter_id>/decide", letteractions.decide, name="decide"),
    path("groups/", groups.group_list, name="groups"),
    path("groups/<uuid:group_id>/", groups.group, name="group"),
    path("groups/<uuid:group_id>/triage", groups.triage_group, name="triage_group"),
    path("groups/<uuid:group_id>/menu", groupverbs.menu, name="group_menu"),
    path("groups/<uuid:group_id>/act", groupverbs.act, name="group_act"),
    path("groups/<uuid:group_id>/notes", groups.add_note, name="add_group_note"),
    path("groups/of/<str:fingerprint>", groups.by_fingerprint, name="group_of"),
    path("subjects/", subjects.subject_list, name="subjects"),
    path("subject/", subjects.subject, name="subject"),
    path("runs/", runs.run_list, name="runs"),
    path("runs/prepare", runs.prepare, name="prepare_run"),
    path("runs/<uuid:run_id>/", runs.run, name="run"),
    path("runs/<uuid:run_id>/live", runs.live, name="run_live"),
    path("runs/<uuid:run_id>/preview", runs.run_preview, name="run_preview"),
    path("runs/<uuid:run_id>/start", runs.start, name="start_run"),
    path("runs/<uuid:run_id>/change", runs.change, name="change_run"),
    path("queues/", queues.overview, name="queues"),
    path("queues/pause", queues.pause, name="pause"),
    path("queues/pauses/<int:pause_id>/resume", queues.resume, name="resume"),
    path("queues/streams/", queues.held_streams, name="held_streams"),
    path("queues/streams/let-go", queues.let_stream_go, name="let_stream_go"),
    path("queues/destinations/", queues.destinations, name="destinations"),
    path("queues/destinations/try", queues.try_destination, name="try_destination"),
    path("queues/workers/", queues.worker_list, name="workers"),
    path("queues/<live_source:source>/", live.message_list, name="live_messages"),
    path("queues/<live_source:source>/<uuid:message_id>/", live.message, name="live_message"),
    path("queues/<live_source:source>/<uuid:message_id>/state", live.message_state, name="message_state"),
    path("queues/<live_source:source>/<uuid:message_id>/run", live.run_now, name="run_now"),
    path("queues/<live_source:source>/<uuid:message_id>/stop", live.stop, name="stop"),
    path("queues/<live_source:source>/<uuid:message_id>/dead-letter", live.dead_letter, name="dead_letter"),
    path("audit/", audit.action_list, name="audit"),
    re_path(r"^audit/export\.(?P<form>jsonl|csv)$", audit.export, name="export_audit"),
    path("patterns", patterns.patterns, name="patterns"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
