"""HDFS: native and WebHDFS."""
