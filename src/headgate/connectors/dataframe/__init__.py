"""Sources and sinks for Spark's DataFrames, bounded and streaming.
`deploy/spark` manages the session, and decides how long staging folders live.
"""

from headgate.connectors.dataframe.connector import DataFrameConnector
from headgate.connectors.dataframe.sink import DataFrameSink, dataframe_sink
from headgate.connectors.dataframe.source import DataFrameSource, dataframe_source
from headgate.connectors.dataframe.stream_source import StreamSource, spark_source

__all__ = [
    "DataFrameConnector", "DataFrameSink", "DataFrameSource", "StreamSource", "dataframe_sink",
    "dataframe_source", "spark_source",
]  # fmt: skip
