from promptflow.contracts.types import Secret
from promptflow.connections import CustomStrongTypeConnection


class Own(CustomStrongTypeConnection):
    key: Secret
    place: str = "elsewhere"
