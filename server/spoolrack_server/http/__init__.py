"""HTTP: the queues as JSON, and the transport that the dashboard and SQS share.

`gateway` starts and stops it: softlayer/mq's six endpoints, and others under `/-/`. `routes` lists the
routes; `queue_endpoints`, `message_endpoints`, `schedule_endpoints` and `admin_endpoints` answer.
Listeners, checks, bodies, errors and requests are for all of HTTP.
"""
