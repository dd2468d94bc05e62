"""The driver's side of a job from its first step to its end: opens what the job master needs, runs its loop,
answers other threads.

How a gang of workers is started stands in `deploy`.
"""
