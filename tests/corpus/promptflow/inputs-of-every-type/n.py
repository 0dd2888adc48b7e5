from promptflow.core import tool
@tool
def n(i: int, d: float, b: bool, l: list, o: dict, s: str):
    return [type(x).__name__ for x in (i, d, b, l, o, s)]
