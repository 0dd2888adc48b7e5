from promptflow.core import tool
@tool
def n(a: str):
    raise ValueError('no such town')
