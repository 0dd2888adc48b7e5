from promptflow.core import tool


@tool
def n():
    return "never"
