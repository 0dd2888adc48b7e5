from promptflow.tracing import trace
class Talk:
    def __init__(self, tone: str):
        self.tone = tone
    @trace
    async def __call__(self, n: int) -> str:
        return self.tone * n
