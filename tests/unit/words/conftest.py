from hypothesis import settings

settings.register_profile("words", max_examples=25, deadline=None)
settings.load_profile("words")
