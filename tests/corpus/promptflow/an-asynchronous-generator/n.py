from promptflow import tool
@tool
async def n(a: str, k: int):
    yield a
    yield 'y'
