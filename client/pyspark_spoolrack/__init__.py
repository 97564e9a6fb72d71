"""Entry point of the data source `spoolrack`, which Spark finds by itself: it looks into each package
whose name begins so."""

import logging

__all__ = ["DefaultSource"]

try:
    from spoolrack.spark import SpoolrackDataSource as DefaultSource
except ImportError as error:
    # Spark imports all such packages at its first use of any format: an error here would fail them all.
    logging.getLogger("spoolrack.spark").warning("format('spoolrack') is not there: %s", error)
