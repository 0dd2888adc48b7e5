from promptflow.core import tool
@tool
def m(a: str = None):
    return 'made' if a is None else a
