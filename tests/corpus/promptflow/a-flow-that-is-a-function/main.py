def talk(name: str = 'Eva', n: int = 2, **more):
    return {'said': name * n}
