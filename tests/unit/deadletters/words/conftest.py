from hypothesis import settings

settings.register_profile("words of dead letters", max_examples=40, deadline=None)
settings.load_profile("words of dead letters")
