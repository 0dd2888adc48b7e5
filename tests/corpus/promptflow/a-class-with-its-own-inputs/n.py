from promptflow import tool, ToolProvider
class N(ToolProvider):
    def __init__(self, k: int):
        super().__init__()
        self.k = k
    @tool
    def n(self, a: str):
        return a * self.k
