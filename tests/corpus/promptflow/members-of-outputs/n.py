from promptflow.core import tool
@tool
def n(a: str) -> dict:
    return {'b': [a, 2]}
