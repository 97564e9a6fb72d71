"""HTTP as the gateway, the dashboard and SQS share it: listeners, checks, bodies, errors and JSON."""
