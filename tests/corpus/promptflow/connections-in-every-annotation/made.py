from promptflow.core import ToolProvider, tool
from promptflow.connections import CustomConnection


class Made(ToolProvider):
    def __init__(self, connection: "CustomConnection"):
        super().__init__()
        self.connection = connection

    @tool
    def made(self, text: str):
        return [type(self.connection).__name__, self.connection.place, text]
