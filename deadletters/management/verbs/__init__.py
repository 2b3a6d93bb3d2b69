"""What `manage.py dead_letters` can do: a module for each family of verbs.

Each has `add(verbs)`, which adds its parsers; a parser's default `act` takes a Call and returns the exit code.
"""
