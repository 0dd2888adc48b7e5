from promptflow.core import tool


@tool
def tell(photo: object, more: list) -> str:
    kinds = [one._mime_type if isinstance(one, bytes) else one for one in [photo, *more]]
    return f"{photo} of {len(photo)} bytes: {', '.join(kinds)}; {photo.to_base64(with_type=True)[:30]}"
