from promptflow import tool
from promptflow.contracts.multimedia import Image


@tool
def n():
    return Image(b"GIF89a", "image/gif")
