from promptflow.core import tool
@tool
def n(a: str, k: str):
    return a + k
