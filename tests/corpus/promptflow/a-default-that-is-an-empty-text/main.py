class Talk:
    def __init__(self, tone: str = 'warm'):
        self.tone = tone
    def __call__(self, name: str, more: str = None):
        return {'said': [self.tone, name, more]}
