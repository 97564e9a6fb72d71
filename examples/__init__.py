"""Programs to run, read and copy from: docs/how-to/spark.md says how."""
