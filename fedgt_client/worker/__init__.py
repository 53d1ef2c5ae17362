"""The worker process, which keeps torch, graph and model in memory between rounds.

``process`` finds, starts and stops it, ``transport`` carries messages, ``loop`` is what runs in it,
and ``forward`` is the way of a message from Flower's process to it.
"""
