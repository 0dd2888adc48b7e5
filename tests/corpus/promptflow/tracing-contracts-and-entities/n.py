from promptflow.tracing import trace, start_trace
from promptflow.contracts.types import PromptTemplate
from promptflow.entities import CustomConnection
from promptflow.exceptions import UserErrorException
from promptflow.core import tool
start_trace()
@trace
def inner(a):
    return a
@tool
def n(a: PromptTemplate, k: int):
    return inner(a)
