from promptflow import tool
from promptflow.contracts.multimedia import Image


@tool
def pick(first: Image, second: Image) -> Image:
    if first != second:
        raise ValueError("two readings of one file differ")
    return first
