def n(a: str):
    return a
