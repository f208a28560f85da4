# PPO in Lightning, with manual optimization: python -P examples/cartpole/lightning.py [SEED]
# -P: otherwise `import lightning` finds this file.
import sys
import time
import warnings

import gymnasium as gym
import lightning as L
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset

STEPS, ENVIRONMENTS, GAMMA, LAMBDA, CLIP, UPDATES = 32, 8, 0.98, 0.8, 0.2, 8_000


def network(outputs):
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Rollouts(IterableDataset):
    """A rollout of the current policy in each step."""

    def __init__(self, module):
        self.module = module

    def __iter__(self):
        while True:
            yield self.module.play()


class Ppo(L.LightningModule):
    def __init__(self, seed):
        super().__init__()
        self.automatic_optimization = False
        self.actor, self.critic = network(2), network(1)
        self.environments = gym.vector.SyncVectorEnv(
            [lambda: gym.make("CartPole-v1")] * ENVIRONMENTS, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
        )
        self.observation = torch.from_numpy(self.environments.reset(seed=seed)[0])
        self.sums, self.last, self.acted = np.zeros(ENVIRONMENTS), [], 0

    def train_dataloader(self):
        return DataLoader(Rollouts(self), batch_size=None)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), 1e-3)
        return [optimizer], [torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.1, UPDATES)]

    @torch.no_grad()
    def play(self):
        steps = []
        for _ in range(STEPS):
            policy = Categorical(logits=self.actor(self.observation))
            action = policy.sample()
            row = {"observation": self.observation, "action": action, "log_chance": policy.log_prob(action)}
            row["value"] = self.critic(self.observation).squeeze(1)
            now, reward, terminated, truncated, info = self.environments.step(action.numpy())
            self.sums += reward
            ended = terminated | truncated
            self.last = (self.last + list(self.sums[ended]))[-100:]
            self.sums[ended] = 0
            row["reward"] = torch.from_numpy(reward).float()
            row["terminated"], row["truncated"] = torch.from_numpy(terminated), torch.from_numpy(truncated)
            row["final_value"] = torch.zeros(ENVIRONMENTS)
            if truncated.any():
                after = now.copy()
                for index in np.flatnonzero(info["_final_obs"]):
                    after[index] = info["final_obs"][index]
                row["final_value"] = self.critic(torch.from_numpy(after)).squeeze(1)
            steps.append(row)
            self.observation = torch.from_numpy(now)
            self.acted += ENVIRONMENTS
        next_value, next_advantage = self.critic(self.observation).squeeze(1), 0
        for row in reversed(steps):
            ended = row["terminated"] | row["truncated"]
            next_value = torch.where(ended, row["final_value"], next_value) * ~row["terminated"]
            delta = row["reward"] + GAMMA * next_value - row["value"]
            row["advantage"] = next_advantage = delta + GAMMA * LAMBDA * ~ended * next_advantage
            row["return"] = row["advantage"] + row["value"]
            next_value = row["value"]
        return {name: torch.cat([row[name] for row in steps]) for name in steps[0]}

    def training_step(self, rollout, batch_idx):
        optimizer, scheduler = self.optimizers(), self.lr_schedulers()
        for _ in range(10):
            for index in torch.randperm(STEPS * ENVIRONMENTS).split(128):
                batch = {name: tensor[index] for name, tensor in rollout.items()}
                policy = Categorical(logits=self.actor(batch["observation"]))
                ratio = (policy.log_prob(batch["action"]) - batch["log_chance"]).exp()
                scaled = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
                policy_loss = -torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
                value_loss = nn.functional.mse_loss(self.critic(batch["observation"]).squeeze(1), batch["return"])
                self.log_dict({"policy_loss": policy_loss, "value_loss": value_loss})
                optimizer.zero_grad()
                self.manual_backward(policy_loss + 0.5 * value_loss)
                optimizer.step()
                scheduler.step()
        if self.last:
            self.log("episode_return", float(np.mean(self.last)), prog_bar=True)
            self.trainer.should_stop = np.mean(self.last) >= 475


warnings.filterwarnings("ignore")
seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
L.seed_everything(seed)
torch.set_num_threads(1)
module = Ppo(seed)
trainer = L.Trainer(max_epochs=1, max_steps=UPDATES, accelerator="cpu", logger=L.pytorch.loggers.CSVLogger("logs"))
begin = time.perf_counter()
trainer.fit(module)
seconds = time.perf_counter() - begin
print(f"{module.acted} steps in {seconds:.2f} s: {module.acted / seconds:.0f} a second")
