from promptflow.core import tool
from promptflow.tools.openai import chat
@tool
def n(a: str):
    return chat(connection=None, prompt=a)
