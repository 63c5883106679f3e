"""Teacher trajectories, questions and a review page for networks that have none, written by a large model.

The model works under the Writer's own contract, one segment at a time on the memory that it has written so far. It is
shown what a Writer is shown and nothing else: no topics, questions, anchors or evidence.
"""
