"""Speaker-conditioned GRPO of a Writer:  accelerate launch train_grpo.py [RECIPE] [key=value ...]"""

from writer_rl.entry import main

if __name__ == "__main__":
    main("grpo", default="r1.yaml")
