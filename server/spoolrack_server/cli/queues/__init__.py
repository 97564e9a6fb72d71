"""Commands on queues, their schedules, redrives and archives."""
