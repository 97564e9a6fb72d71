"""Programs to run, read and copy from: docs/spark.md says how."""
