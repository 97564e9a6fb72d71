"""The contract's messages: conversion from and to the store's values, encoding, JSON, statuses.

Beside `rpc` and the endpoints of `http`, the only package that knows Protocol Buffers. All but
`contract_calls`, which calls the use cases, is pure.
"""
