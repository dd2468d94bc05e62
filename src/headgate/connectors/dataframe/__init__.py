"""DataFrames of Spark as bounded input and as output of a dataflow."""

from headgate.connectors.dataframe.connector import DataFrameConnector
from headgate.connectors.dataframe.sink import DataFrameSink, dataframe_sink
from headgate.connectors.dataframe.source import DataFrameSource, dataframe_source

__all__ = [
    "DataFrameConnector",
    "DataFrameSink",
    "DataFrameSource",
    "dataframe_sink",
    "dataframe_source",
]
