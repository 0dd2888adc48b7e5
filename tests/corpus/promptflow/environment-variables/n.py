import os
from promptflow.core import tool
@tool
def n(a: str, k: int):
    return os.environ['MODE']
