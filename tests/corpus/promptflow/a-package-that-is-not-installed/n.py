import no_such_package
from promptflow.core import tool
@tool
def n(a: str, k: int):
    return a
