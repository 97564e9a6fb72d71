"""Where Spark finds the data source by itself: it looks into each package whose name begins so."""

from spoolrack.spark._datasource import SpoolrackDataSource as DefaultSource

__all__ = ["DefaultSource"]
