from typing import List, Optional
from promptflow._core.tool import tool
from promptflow.contracts.multimedia import Image
from promptflow.exceptions import ErrorTarget, UserErrorException
from promptflow.tools.aoai import AzureOpenAI
from promptflow.tools.common import parse_chat, to_bool
from promptflow.tracing.contracts.trace import TraceType

def pictures(of: Optional[List[Image]] = None, by: Optional[AzureOpenAI] = None):
    return isinstance(of, Image)

@tool
def n(a: str):
    try:
        raise UserErrorException(message_format="no {what}", what=a, target=ErrorTarget.TOOL)
    except UserErrorException as error:
        said = error.message
    chat = parse_chat("# system:\nBe brief.\nuser:\nname:\nAna\ncontent:\nHi\n")
    return {"chat": chat, "said": said, "flag": to_bool("True"), "kind": TraceType.LLM.value, "is": pictures()}
