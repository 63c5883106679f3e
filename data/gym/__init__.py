"""The gym: synthetic group chats with exact gold actions and questions, endless and from a seed."""

from data.gym.config import SPLITS, GymConfig, Split
from data.gym.generator import generate, networks

__all__ = ["SPLITS", "GymConfig", "Split", "generate", "networks"]
