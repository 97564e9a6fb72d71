"""The contract's messages: conversion from and to the store's values, encoding, JSON, statuses.

Pure, and the only package but `rpc` that knows Protocol Buffers.
"""
