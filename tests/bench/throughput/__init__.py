"""How many messages a second drainers take: worker processes, floors written by hand, and what a backlog costs."""
