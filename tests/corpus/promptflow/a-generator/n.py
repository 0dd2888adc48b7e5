from promptflow import tool
@tool
def n(a: str, k: int):
    for _ in range(k):
        yield a
