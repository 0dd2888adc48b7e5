from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Union

from own import Own
from promptflow.connections import AzureOpenAIConnection, OpenAIConnection
from promptflow.core import tool

if TYPE_CHECKING:
    from promptflow.connections import CustomConnection


@tool
def n(
    a: Union[OpenAIConnection, AzureOpenAIConnection],
    b: Optional["AzureOpenAIConnection"],
    c: "OpenAIConnection | AzureOpenAIConnection",
    d: AzureOpenAIConnection,
    e: CustomConnection,
    f: Own,
    g: str,
    k: int,
    m: List[str],
):
    names = [type(one).__name__ for one in (a, b, c, d, e, f)]
    return {"names": names, "members": [a.api_key, d.api_base, e.place, f.place, f.key], "g": g, "k": k, "m": m}
