from promptflow.core import tool
@tool
def n(a: str):
    return a
