from promptflow.core import tool
@tool
def n(a: str):
    return {None: 1, True: 2, 1.5: 3, 7: a}
