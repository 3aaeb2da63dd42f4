"""The begin of a program that is killed at its n-th system call, for the checks of acts that are
whole or nothing: what it does follows, from `kill_at` on.
"""

KILLED = """
import os, sys
import synapse
count = 0

def counting(name, limit):
    real = getattr(os, name)
    def call(*args, **named):
        global count
        count += 1
        if count > limit:
            os.kill(os.getpid(), 9)
        return real(*args, **named)
    setattr(os, name, call)

def kill_at(limit, names):
    for name in names.split():
        counting(name, int(limit))
"""
