"""Entry point of the data source `spoolrack.root`, which Spark finds by itself: a package offers one
data source."""

import logging

__all__ = ["DefaultSource"]

try:
    from spoolrack.spark import SpoolrackRootDataSource as DefaultSource
except ImportError as error:
    # Spark imports all such packages at its first use of any format: an error here would fail them all.
    logging.getLogger("spoolrack.spark").warning("format('spoolrack.root') is not there: %s", error)
