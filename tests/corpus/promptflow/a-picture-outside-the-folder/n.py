from promptflow import tool


@tool
def n(photo):
    return "read"
