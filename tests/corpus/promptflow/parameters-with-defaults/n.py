from promptflow.core import tool
@tool
def n(a: str, k: int = 7, **more):
    return f'{a}-{k}-{more}'
