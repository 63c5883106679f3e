"""Supervised fine-tuning of a Writer:  accelerate launch train_sft.py [RECIPE] [key=value ...]"""

from writer_rl.entry import main

if __name__ == "__main__":
    main("sft", default="sft.yaml")
