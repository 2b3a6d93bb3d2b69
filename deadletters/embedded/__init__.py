"""PostgreSQL and Valkey from wheels, run in a data directory by a launcher of our own.

Importing this starts nothing. The names here say where the services of a data directory are, running or not.
"""

from deadletters.embedded.addresses import broker_url, database_url, secret_key, source_revision
from deadletters.embedded.places import data_dir

__all__ = ["broker_url", "data_dir", "database_url", "secret_key", "source_revision"]
