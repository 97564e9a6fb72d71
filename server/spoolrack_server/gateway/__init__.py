"""The queues over HTTP: softlayer/mq's six endpoints, and others under `/-/`.

`gateway` starts and stops it; `routes` lists the routes; `queue_endpoints`, `message_endpoints`,
`schedule_endpoints` and `admin_endpoints` answer.
"""
