from promptflow.core import tool, Flow, Prompty
@tool
def n(a: str):
    Prompty.load(source='a.prompty')
    return a
