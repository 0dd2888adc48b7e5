def spoken(words):
    for word in words.split():
        yield word


def two_voices(first: str = "a b", second: str = "c d"):
    return {"first": spoken(first), "second": spoken(second)}
