from functools import wraps
from promptflow import tool
def bracketed(f):
    @wraps(f)
    def inner(*args, **kwargs):
        return '[' + f(*args, **kwargs) + ']'
    return inner
@tool
@bracketed
def n(a: str):
    return a
