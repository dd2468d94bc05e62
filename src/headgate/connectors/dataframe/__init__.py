"""DataFrames of Spark as input, bounded or streaming, and as output of a dataflow. How Spark is started and
stages rows stands in `deploy/spark`.
"""

from headgate.connectors.dataframe.connector import DataFrameConnector
from headgate.connectors.dataframe.sink import DataFrameSink, dataframe_sink
from headgate.connectors.dataframe.source import DataFrameSource, dataframe_source
from headgate.connectors.dataframe.stream_source import StreamSource, spark_source

__all__ = [
    "DataFrameConnector",
    "DataFrameSink",
    "DataFrameSource",
    "StreamSource",
    "dataframe_sink",
    "dataframe_source",
    "spark_source",
]
