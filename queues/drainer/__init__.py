"""The drainer: claims batches, runs handlers, records what came of them."""

from queues.drainer.drain import Report, drain

__all__ = ["Report", "drain"]
