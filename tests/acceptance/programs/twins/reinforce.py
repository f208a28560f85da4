import lightning as L
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, IterableDataset


class Corridor:
    """Ten fields; the prize is at the right end. Each step costs a little."""

    def reset(self):
        self.place, self.steps = 4, 0
        return self.state()

    def state(self):
        return nn.functional.one_hot(torch.tensor(self.place), 10).float()

    def step(self, action):
        self.place = max(0, self.place + (1 if action == 1 else -1))
        self.steps += 1
        won = self.place == 9
        return self.state(), 1.0 if won else -0.05, won or self.steps == 30


class Episodes(IterableDataset):
    def __init__(self, policy, env):
        self.policy, self.env = policy, env

    @torch.no_grad()
    def play(self):
        states, actions, rewards = [], [], []
        state, done = self.env.reset(), False
        while not done:
            action = Categorical(logits=self.policy(state)).sample()
            states.append(state)
            actions.append(action)
            state, reward, done = self.env.step(action.item())
            rewards.append(reward)
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        return torch.stack(states), torch.stack(actions), returns

    def __iter__(self):
        while True:
            yield self.play()


class Reinforce(L.LightningModule):
    def __init__(self, hidden: int = 32, lr: float = 0.01):
        super().__init__()
        self.save_hyperparameters()
        self.policy = nn.Sequential(nn.Linear(10, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def train_dataloader(self):
        return DataLoader(Episodes(self.policy, Corridor()), batch_size=None)

    def training_step(self, batch, batch_idx):
        states, actions, returns = batch
        chances = Categorical(logits=self.policy(states)).log_prob(actions)
        self.log("return", returns[0], prog_bar=True)
        return -(chances * (returns - returns.mean())).sum()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


L.seed_everything(2)
model = Reinforce()
trainer = L.Trainer(
    max_epochs=1,
    limit_train_batches=300,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model)
print(f"return {trainer.callback_metrics['return']:.2f}")
