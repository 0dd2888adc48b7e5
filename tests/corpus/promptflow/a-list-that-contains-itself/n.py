from promptflow.core import tool
@tool
def n(a: str, k: int):
    parts = ["a"]
    parts.append({"more": parts})
    return parts
