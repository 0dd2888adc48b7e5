from promptflow.core import tool
from enum import Enum
class Tone(str, Enum):
    LOUD = 'loud'
    SOFT = 'soft'
@tool
def n(a: str, tone: Tone):
    return f'{Tone(tone).value}: {a.upper()}'
