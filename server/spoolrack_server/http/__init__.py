"""HTTP's transport, for the gateway, the dashboard and SQS: listeners, checks, bodies, errors."""
