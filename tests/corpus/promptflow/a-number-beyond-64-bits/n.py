from promptflow.core import tool
@tool
def n(a: str):
    return {'n': 12345678901234567890123}
