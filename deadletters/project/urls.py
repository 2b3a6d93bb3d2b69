"""URLs of the stand-alone product: the pages at the root, accounts and the admin beside them."""

from django.contrib import admin
from django.urls import include, path

admin.site.site_title = admin.site.site_header = "Deadletters administration"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/", include("django.contrib.auth.urls")),
    path("", include("deadletters.urls")),
]

handler400 = "deadletters.views.errors.bad_request"
handler403 = "deadletters.views.errors.not_allowed"
handler404 = "deadletters.views.errors.not_found"
handler500 = "deadletters.views.errors.failed"
