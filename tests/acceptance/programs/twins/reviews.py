import glob
import json
import random
import sys

import lightning as L
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset


class Reviews(L.LightningModule):
    """Whether a review is a good one, by its words. A word is the hash of its letters."""

    def __init__(self, words: int = 1000, hidden: int = 32, lr: float = 0.01):
        super().__init__()
        self.save_hyperparameters()
        self.embedding = nn.Embedding(words, hidden, padding_idx=0)
        self.memory = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2)

    def forward(self, words):
        states, _ = self.memory(self.embedding(words))
        mask = (words > 0).unsqueeze(2)
        return self.head((states * mask).sum(1) / mask.sum(1))

    def training_step(self, batch, batch_idx):
        words, good = batch
        return nn.functional.cross_entropy(self(words), good)

    def validation_step(self, batch, batch_idx):
        words, good = batch
        self.log("val_acc", (self(words).argmax(1) == good).float().mean(), batch_size=len(good))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class ReviewBatches(IterableDataset):
    """Batches of reviews of similar lengths, which make 512 words with their padding."""

    def __init__(self, pattern, words=1000, window=0):
        self.files, self.words, self.window = sorted(glob.glob(pattern)), words, window

    def read(self):
        for file in self.files:
            with open(file) as lines:
                for line in lines:
                    review = json.loads(line)
                    numbers = []
                    for word in review["text"].split():
                        value = 7
                        for letter in word.encode():
                            value = (31 * value + letter) % (self.words - 1)
                        numbers.append(value + 1)
                    yield torch.tensor(numbers), torch.tensor(review["good"])

    def shuffled(self):
        waiting = []
        for review in self.read():
            if len(waiting) < self.window:
                waiting.append(review)
            elif self.window:
                place = random.randrange(self.window)
                waiting[place], review = review, waiting[place]
                yield review
            else:
                yield review
        random.shuffle(waiting)
        yield from waiting

    def __iter__(self):
        buckets = [[] for _ in range(4)]
        for review in self.shuffled():
            length = len(review[0])
            bucket = buckets[sum(length > boundary for boundary in (8, 16, 32))]
            longest = max([length] + [len(words) for words, _ in bucket])
            if bucket and longest * (len(bucket) + 1) > 512:
                yield self.collate(bucket)
                bucket.clear()
            bucket.append(review)
        for bucket in buckets:
            if bucket:
                yield self.collate(bucket)

    @staticmethod
    def collate(reviews):
        words, good = zip(*reviews)
        return pad_sequence(words, True), torch.stack(good)


if __name__ == "__main__":
    L.seed_everything(1)
    model = Reviews()
    trainer = L.Trainer(
        max_epochs=4, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    train, val = ReviewBatches(sys.argv[1], window=500), ReviewBatches(sys.argv[2])
    trainer.fit(model, DataLoader(train, None, num_workers=1), DataLoader(val, None, num_workers=1))
    print(f"val_acc {trainer.callback_metrics['val_acc']:.4f}")
