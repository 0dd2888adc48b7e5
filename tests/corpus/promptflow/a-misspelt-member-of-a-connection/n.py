from promptflow.core import tool
from promptflow.connections import CustomConnection


def said(ask):
    try:
        return ask()
    except (AttributeError, KeyError) as error:
        return str(error)


@tool
def n(c: CustomConnection):
    return [
        said(lambda: c.keey), said(lambda: c["keey"]), said(lambda: c.secrets["keey"]),
        said(lambda: c.configs["keey"]), hasattr(c, "keey"), c.get("keey"), c.key,
    ]
