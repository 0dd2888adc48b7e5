from promptflow.core import tool
from promptflow.tools.common import validate_functions
@tool
def n(a: str):
    return a
