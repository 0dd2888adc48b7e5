from promptflow.core import tool
import logging, sys
@tool
def n(a: str):
    print('printed')
    print('to stderr', file=sys.stderr)
    logging.getLogger('x').warning('logged')
    return a
