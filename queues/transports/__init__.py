"""Transports: what publishes the messages of the outbox."""
