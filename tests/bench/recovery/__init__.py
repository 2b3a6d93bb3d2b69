"""Recovery on many letters with real workers, shown from the command line: `make recovery`."""
