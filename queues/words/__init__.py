"""The words of the queues: pure values and rules, without ORM, clock or I/O."""
