"""The queues over HTTP: softlayer/mq's six endpoints, and others under `/-/`.

`gateway` starts and stops it; `routes` lists what is served; `queue_endpoints`, `message_endpoints` and
`admin_endpoints` answer; `headers` and `request_bodies` convert; `http_errors` has the form of errors.
"""
