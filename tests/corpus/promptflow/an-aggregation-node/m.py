from promptflow.core import tool
from typing import List
from promptflow.core import log_metric
@tool
def m(all: List[str]):
    log_metric('lines', len(all))
    return len(all)
