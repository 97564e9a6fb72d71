"""The queues over HTTP: softlayer/mq's six endpoints, and what lives beside them under `/-/`.

`gateway` starts and stops it; `routes` lists what is served; `queues`, `messages` and `pages` answer;
`headers` and `bodies` know what travels; `errors` says what goes wrong.
"""
