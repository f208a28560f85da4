# Both algorithms in PyTorch, each a loop in one file as in CleanRL: python examples/cartpole/cleanrl_style.py ppo|dqn [SEED]
import sys
import time

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

algorithm = sys.argv[1]
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
torch.manual_seed(seed)
np.random.seed(seed)
torch.set_num_threads(1)
ENVIRONMENTS, EVALUATED = 8, 100


def make(count):
    return gym.vector.SyncVectorEnv(
        [lambda: gym.make("CartPole-v1")] * count, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )


class Episodes:
    """The mean return of the last 100 episodes."""

    def __init__(self):
        self.sums, self.last = np.zeros(ENVIRONMENTS), []

    def add(self, reward, ended):
        self.sums += reward
        self.last = (self.last + list(self.sums[ended]))[-100:]
        self.sums[ended] = 0

    def mean(self):
        return np.mean(self.last) if self.last else 0.0


class Scale(nn.Module):
    """Observations to about [-1, 1]."""

    def forward(self, observation):
        return observation * torch.tensor([0.4, 0.5, 5.0, 0.5])


def final_of(info, observation):
    """The observations that the actions led to: where an episode has ended, its last one."""
    after = observation.copy()
    for index in np.flatnonzero(info.get("_final_obs", [])):
        after[index] = info["final_obs"][index]
    return torch.from_numpy(after)


def ppo():
    def network(outputs):
        return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))

    STEPS, GAMMA, LAMBDA, CLIP, UPDATES = 32, 0.98, 0.8, 0.2, 8_000
    actor, critic = network(2), network(1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 1e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.1, UPDATES)
    environments, episodes = make(ENVIRONMENTS), Episodes()
    observation, _ = environments.reset(seed=seed)
    observation = torch.from_numpy(observation)
    rows = {
        name: torch.zeros(STEPS, ENVIRONMENTS)
        for name in ("log_chance", "value", "reward", "terminated", "truncated", "final_value")
    }
    rows |= {
        "observation": torch.zeros(STEPS, ENVIRONMENTS, 4),
        "action": torch.zeros(STEPS, ENVIRONMENTS, dtype=torch.long),
    }
    updates = acted = 0
    while updates < UPDATES and episodes.mean() < 475:
        for step in range(STEPS):
            with torch.no_grad():
                policy = Categorical(logits=actor(observation))
                action = policy.sample()
                rows["value"][step] = critic(observation).squeeze(1)
            rows["observation"][step], rows["action"][step] = observation, action
            rows["log_chance"][step] = policy.log_prob(action)
            now, reward, terminated, truncated, info = environments.step(action.numpy())
            episodes.add(reward, terminated | truncated)
            rows["reward"][step] = torch.from_numpy(reward)
            rows["terminated"][step] = torch.from_numpy(terminated)
            rows["truncated"][step] = torch.from_numpy(truncated)
            if truncated.any():
                with torch.no_grad():
                    rows["final_value"][step] = critic(final_of(info, now)).squeeze(1)
            observation = torch.from_numpy(now)
            acted += ENVIRONMENTS
        with torch.no_grad():
            next_value = critic(observation).squeeze(1)
        advantage, next_advantage = torch.zeros(STEPS, ENVIRONMENTS), 0
        for step in reversed(range(STEPS)):
            ended = torch.maximum(rows["terminated"][step], rows["truncated"][step])
            next_value = torch.where(ended > 0, rows["final_value"][step], next_value) * (1 - rows["terminated"][step])
            delta = rows["reward"][step] + GAMMA * next_value - rows["value"][step]
            advantage[step] = next_advantage = delta + GAMMA * LAMBDA * (1 - ended) * next_advantage
            next_value = rows["value"][step]
        flat = {name: tensor.flatten(0, 1) for name, tensor in rows.items()}
        flat |= {"advantage": advantage.flatten(), "return": (advantage + rows["value"]).flatten()}
        for _ in range(10):
            for index in torch.randperm(STEPS * ENVIRONMENTS).split(128):
                batch = {name: tensor[index] for name, tensor in flat.items()}
                policy = Categorical(logits=actor(batch["observation"]))
                ratio = (policy.log_prob(batch["action"]) - batch["log_chance"]).exp()
                scaled = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
                policy_loss = -torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
                value_loss = nn.functional.mse_loss(critic(batch["observation"]).squeeze(1), batch["return"])
                optimizer.zero_grad()
                (policy_loss + 0.5 * value_loss).backward()
                optimizer.step()
                scheduler.step()
                updates += 1
    return actor, acted


def dqn():
    def network():
        return nn.Sequential(Scale(), nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))

    CAPACITY, BATCH, GAMMA, UPDATES = 200_000, 128, 0.98, 20_000
    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), 5e-4)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.01, UPDATES)
    environments = make(ENVIRONMENTS)
    observation, _ = environments.reset(seed=seed)
    observation = torch.from_numpy(observation)
    replay = {
        "observation": torch.zeros(CAPACITY, 4),
        "action": torch.zeros(CAPACITY, dtype=torch.long),
        "reward": torch.zeros(CAPACITY),
        "next_observation": torch.zeros(CAPACITY, 4),
        "terminated": torch.zeros(CAPACITY, dtype=torch.bool),
    }
    updates = acted = 0
    while updates < UPDATES:
        with torch.no_grad():
            best = online(observation).argmax(1)
        explores = torch.rand(ENVIRONMENTS) < max(0.02, 1 - updates / 3_000)
        action = torch.where(explores, torch.randint(2, (ENVIRONMENTS,)), best)
        now, reward, terminated, truncated, info = environments.step(action.numpy())
        at = torch.arange(acted, acted + ENVIRONMENTS) % CAPACITY
        replay["observation"][at], replay["action"][at] = observation, action
        replay["reward"][at] = torch.from_numpy(reward).float()
        replay["next_observation"][at] = final_of(info, now)
        replay["terminated"][at] = torch.from_numpy(terminated)
        observation = torch.from_numpy(now)
        acted += ENVIRONMENTS
        if acted < 1_000:
            continue
        if updates % 500 == 0 and evaluate(online, 2_000_003) >= 490:
            break
        index = torch.randint(min(acted, CAPACITY), (BATCH,))
        batch = {name: tensor[index] for name, tensor in replay.items()}
        with torch.no_grad():
            best = online(batch["next_observation"]).argmax(1, keepdim=True)
            future = target(batch["next_observation"]).gather(1, best).squeeze(1)
            goal = batch["reward"] + GAMMA * future * ~batch["terminated"]
        value = online(batch["observation"]).gather(1, batch["action"].unsqueeze(1)).squeeze(1)
        loss = nn.functional.mse_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        updates += 1
        with torch.no_grad():
            for to, of in zip(target.parameters(), online.parameters()):
                to.lerp_(of, 0.01)
    return online, acted


def evaluate(network, seed):
    environments = make(EVALUATED)
    observation, _ = environments.reset(seed=seed)
    returns, has_ended = np.zeros(EVALUATED), np.zeros(EVALUATED, dtype=bool)
    while not has_ended.all():
        with torch.no_grad():
            action = network(torch.from_numpy(observation)).argmax(1)
        observation, reward, terminated, truncated, _ = environments.step(action.numpy())
        returns[~has_ended] += reward[~has_ended]
        has_ended |= terminated | truncated
    return returns.mean()


begin = time.perf_counter()
network, acted = {"ppo": ppo, "dqn": dqn}[algorithm]()
seconds = time.perf_counter() - begin
print(f"{acted} steps in {seconds:.2f} s: {acted / seconds:.0f} a second")
print(f"mean return of 100 episodes: {evaluate(network, 1_000_003):.1f}")
