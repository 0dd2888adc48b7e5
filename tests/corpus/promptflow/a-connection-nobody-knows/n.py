from promptflow.core import tool
from promptflow.connections import CustomConnection
@tool
def n(a: CustomConnection, k: int):
    return a.key
