"""HTTP: the queues as JSON, and the transport that the dashboard and SQS share.

`gateway` starts and stops it: softlayer/mq's six endpoints, and others under `/-/`. `routes` lists the
routes; the modules of endpoints answer.
Listeners, checks, bodies, errors and requests are for all of HTTP.
"""
