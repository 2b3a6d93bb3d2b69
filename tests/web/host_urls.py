"""A host's URLs: the pages under a prefix and nothing else."""

from django.urls import include, path

urlpatterns = [path("triage/", include("deadletters.urls"))]
