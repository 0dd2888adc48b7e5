from promptflow.core import tool


@tool
def n(c: "NobodysConnection"):
    return str(c)
