from promptflow.core import tool
@tool
def n(a: str, k: int):
    value = "end"
    for _ in range(200):
        value = [value]
    return value
