from promptflow.core import tool
from dataclasses import dataclass
from typing import List
@dataclass
class Part:
    n: int
@dataclass
class Whole:
    name: str
    parts: List[Part]
@tool
def n(a: str):
    return Whole(a, [Part(1)])
