"""The HTTP gateway: the queues as JSON.

`gateway` starts and stops it: softlayer/mq's six endpoints, and others under `/-/`. `routes` lists the
routes; the modules of endpoints answer.
"""
