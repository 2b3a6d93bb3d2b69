"""Static files under hashed names, also where one script module of the pages imports another."""

from whitenoise.storage import CompressedManifestStaticFilesStorage

MODULES = "deadletters/js/*.js"
IMPORT = r"""(?P<matched>import (?P<names>(?:\{[^}]*\} from )?)"(?P<url>\./[^"]+)";)"""


class ModuleStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise is untyped
    """Else a browser could run a new module with an old one from its cache.

    Only the pages' own: Django's switch for this trips over an import in a file of django-htmx.
    """

    patterns = (*CompressedManifestStaticFilesStorage.patterns, (MODULES, ((IMPORT, 'import %(names)s"%(url)s";'),)))
