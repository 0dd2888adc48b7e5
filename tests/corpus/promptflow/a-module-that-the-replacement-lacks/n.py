from promptflow.core import tool
from promptflow.azure import PFClient
@tool
def n(a: str):
    return a
