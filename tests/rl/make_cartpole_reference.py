#!/usr/bin/env python3
"""Writes data/cartpole_v1.csv: states of Gymnasium's CartPole-v1 (pip install gymnasium) under given actions.

    tests/rl/make_cartpole_reference.py > tests/rl/data/cartpole_v1.csv
"""

import gymnasium as gym

ACTIONS = {
    "right": lambda state, step: 1,
    "left": lambda state, step: 0,
    "alternating": lambda state, step: step % 2,
    "upright": lambda state, step: int(state[2] + state[3] > 0),
    "away": lambda state, step: int(state[2] + state[3] > 0.05),
}

print("# Gymnasium", gym.__version__, "CartPole-v1: the state after each action, and how the episode ended")
print("trajectory,action,x,velocity,angle,turn,terminated,truncated")
for name, choose in ACTIONS.items():
    environment = gym.make("CartPole-v1")
    environment.reset(seed=len(name))
    state = environment.unwrapped.state
    print(name, -1, *map(repr, map(float, state)), 0, 0, sep=",")
    for step in range(500):
        action = choose(state, step)
        _, reward, terminated, truncated, _ = environment.step(action)
        state = environment.unwrapped.state
        assert reward == 1.0
        if step < 40 or step % 50 == 0 or terminated or truncated:
            print(name, action, *map(repr, map(float, state)), int(terminated), int(truncated), sep=",")
        else:
            print(name, action, "", "", "", "", 0, 0, sep=",")
        if terminated or truncated:
            break
