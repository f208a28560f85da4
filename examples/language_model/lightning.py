# The same program in Lightning: python -P examples/language_model/lightning.py fit
# -P: otherwise `import lightning` finds this file.
import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.cli import LightningCLI
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader


class Writer(L.LightningModule):
    def __init__(
        self,
        tokens: str = "alice.bin",
        tokenizer: str = "examples/language_model/data/characters.json",
        context: int = 64,
        width: int = 64,
        batch_size: int = 16,
        prompt: str = "Alice",
    ):
        super().__init__()
        self.save_hyperparameters()
        self.tokenizer = Tokenizer.from_file(tokenizer)
        self.tokens = torch.from_numpy(np.fromfile(tokens, np.uint16).astype(np.int64))
        self.train_size = len(self.tokens) * 9 // 10
        self.embedding = nn.Embedding(self.tokenizer.get_vocab_size(), width)
        self.positions = nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.output = nn.Linear(width, self.tokenizer.get_vocab_size())

    def forward(self, tokens):
        length = tokens.size(1)
        features = self.embedding(tokens) + self.positions.weight[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length, self.device)
        return self.output(self.encoder(features, mask))

    def loss(self, tokens):
        return F.cross_entropy(self(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    def training_step(self, tokens, batch_idx):
        loss = self.loss(tokens)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, tokens, batch_idx):
        self.log("val_loss", self.loss(tokens), prog_bar=True)

    def predict_step(self, tokens, batch_idx):
        while tokens.size(1) < 300:
            scores = self(tokens[:, -self.hparams.context :])[:, -1].float()
            tokens = torch.cat([tokens, torch.softmax(scores / 0.7, 1).multinomial(1)], 1)
        print(self.tokenizer.decode(tokens[0].tolist()))

    def loader(self, tokens, length, shuffle=False):
        return DataLoader(tokens.unfold(0, length, length), batch_size=self.hparams.batch_size, shuffle=shuffle)

    def train_dataloader(self):
        return self.loader(self.tokens[: self.train_size], self.hparams.context + 1, shuffle=True)

    def val_dataloader(self):
        return self.loader(self.tokens[self.train_size :], self.hparams.context + 1)

    def predict_dataloader(self):
        prompt = torch.tensor(self.tokenizer.encode(self.hparams.prompt).ids)
        return self.loader(prompt, len(prompt))

    def configure_optimizers(self):
        matrices = [parameter for parameter in self.parameters() if parameter.dim() > 1]
        others = [parameter for parameter in self.parameters() if parameter.dim() < 2]
        optimizer = torch.optim.AdamW([{"params": matrices}, {"params": others, "weight_decay": 0.0}], weight_decay=0.1)
        steps = self.trainer.estimated_stepping_batches
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.006, total_steps=steps, pct_start=0.1)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


if __name__ == "__main__":
    torch.set_num_threads(1)
    LightningCLI(
        Writer,
        seed_everything_default=1,
        trainer_defaults={
            "max_epochs": 4,
            "accelerator": "cpu",
            "gradient_clip_val": 1.0,
            "log_every_n_steps": 20,
            "logger": {"class_path": "CSVLogger", "init_args": {"save_dir": ".", "name": "logs"}},
            "callbacks": [LearningRateMonitor(), ModelCheckpoint(monitor="val_loss", save_top_k=2)],
        },
    )
