"""Trains on with Lightning from what python_test.cpp has exported, once with each scheduler."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "data"))
import torch
from make_torch_files import FOLDER, Regression, loader, trainer


def made(optimizer, class_path, init_args):
    kind = getattr(torch.optim.swa_utils if class_path == "SWALR" else torch.optim.lr_scheduler, class_path)
    if class_path in ("LambdaLR", "MultiplicativeLR"):
        return kind(optimizer, lambda epoch: eval(init_args.get("lr_lambda", "0.8**epoch")))
    if "schedulers" in init_args:
        members = [made(optimizer, **member) for member in init_args["schedulers"]]
        return kind(optimizer, members, init_args["milestones"]) if "milestones" in init_args else kind(members)
    return kind(optimizer, **init_args)


class Scheduled(Regression):
    def __init__(self, schedule):
        super().__init__(optimizer=schedule["optimizer"])
        self.schedule = schedule

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        [optimizer], _ = super().configure_optimizers()
        del optimizer.param_groups[0]["initial_lr"]  # of the scheduler that is not used
        scheduler = made(optimizer, self.schedule["class_path"], self.schedule["init_args"])
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "loss"}}


for index, schedule in enumerate(json.loads((FOLDER / "schedules.json").read_text())):
    module = Scheduled(schedule)
    trainer(max_epochs=4).fit(module, loader(), ckpt_path=FOLDER / f"{index}.ckpt")
    torch.save(module.state_dict(), FOLDER / f"{index}_later.pt")
