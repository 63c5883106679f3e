"""Property tests are judged by their values, never by the time that a busy machine takes for one example."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
