"""What a load balancer asks: does the process answer, and can it work?"""

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe


@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """Answer: the process runs."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    """Answer 200 when the database answers and is migrated, else 503 with what is missing."""
    try:
        missing = _missing()
    except Error:
        missing = ["database"]
    status = {"status": "waiting", "missing": missing} if missing else {"status": "ok"}
    return JsonResponse(status, status=503 if missing else 200)


def _missing() -> list[str]:
    executor = MigrationExecutor(connection)
    return ["migrations"] if executor.migration_plan(executor.loader.graph.leaf_nodes()) else []
