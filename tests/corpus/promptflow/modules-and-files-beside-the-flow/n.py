from promptflow.core import tool
from pathlib import Path
from helpers.words import said
import beside
@tool
def n(a: str):
    return said(a) + beside.MORE + (Path(__file__).parent / 'data' / 'some.txt').read_text()
