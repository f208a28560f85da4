"""Models of time series."""

import torch

from cases import Training, case, changed


def darts_batch(index):
    """Of the model that darts_module() has made."""
    return LOADED[0][index % len(LOADED[0])]


LOADED = []


def darts_module(name, **options):
    """The LightningModule that a darts model makes, and the batches that it gives it."""
    import copy

    import darts.models
    import lightning
    import numpy as np
    from darts import TimeSeries

    quiet = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    seen = []

    class Watch(lightning.Callback):
        def on_train_batch_start(self, trainer, module, batch, index):
            seen.append(copy.deepcopy(batch))

    model = getattr(darts.models, name)(input_chunk_length=24, output_chunk_length=6, n_epochs=1, batch_size=8, random_state=0,
                                        pl_trainer_kwargs={**quiet, "callbacks": [Watch()]}, **options)
    model.fit(TimeSeries.from_values(np.random.default_rng(0).normal(size=69).astype(np.float32)))
    LOADED[:] = [[batch for batch in seen if batch.past_target.shape[0] == 8]]
    return model.model


@case("darts", darts_batch)
def darts_nbeats():
    return darts_module("NBEATSModel", num_stacks=2, num_blocks=1, layer_widths=16)


@case("darts", darts_batch)
def darts_tcn():
    return darts_module("TCNModel", num_filters=4, dropout=0.1)


@case("darts", darts_batch)
def darts_transformer():
    return darts_module("TransformerModel", d_model=16, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=24)


@case("darts", darts_batch)
def darts_nhits():
    return darts_module("NHiTSModel", num_stacks=2, num_blocks=1, layer_widths=16)


@case("darts", darts_batch)
def darts_tide():
    return darts_module("TiDEModel", hidden_size=16, temporal_width_past=2, temporal_width_future=2)


@case("darts", darts_batch)
def darts_dlinear():
    return darts_module("DLinearModel", kernel_size=5)


@case("darts", darts_batch)
def darts_lstm_of_blocks():
    return darts_module("BlockRNNModel", model="LSTM", hidden_dim=8)


@case("darts", darts_batch)
def darts_tsmixer():
    return darts_module("TSMixerModel", hidden_size=8, ff_size=8, num_blocks=1)


def forecasting_data():
    import numpy as np
    import pandas as pd
    from pytorch_forecasting import TimeSeriesDataSet

    table = pd.DataFrame({"time": np.tile(np.arange(40), 6), "group": np.repeat([str(each) for each in range(6)], 40),
                          "value": np.random.default_rng(0).normal(size=240)})
    return TimeSeriesDataSet(table, time_idx="time", target="value", group_ids=["group"], max_encoder_length=16, min_encoder_length=16,
                             max_prediction_length=4, time_varying_unknown_reals=["value"], time_varying_known_reals=["time"])


def forecasting_batch(_):
    return next(iter(forecasting_data().to_dataloader(train=True, batch_size=8, num_workers=0)))


@case("pytorch-forecasting", forecasting_batch, batches=2)
def temporal_fusion_transformer():
    from pytorch_forecasting import TemporalFusionTransformer

    return TemporalFusionTransformer.from_dataset(forecasting_data(), hidden_size=8, attention_head_size=2, hidden_continuous_size=4)


@case("pytorch-forecasting", forecasting_batch)
def forecasting_deepar():
    from pytorch_forecasting import DeepAR

    return DeepAR.from_dataset(forecasting_data(), hidden_size=8)


@case("pytorch-forecasting", forecasting_batch)
def forecasting_nhits():
    from pytorch_forecasting import NHiTS

    return NHiTS.from_dataset(forecasting_data(), hidden_size=8, static_hidden_size=8, n_blocks=[1, 1], n_layers=1)


changed(forecasting_nhits, 'without=["validation_step", "test_step"]', without=["validation_step", "test_step"])


@case("pytorch-forecasting", forecasting_batch)
def forecasting_mlp():
    from pytorch_forecasting import DecoderMLP

    return DecoderMLP.from_dataset(forecasting_data(), hidden_size=8)


changed(forecasting_mlp, 'without=["validation_step", "test_step"]', without=["validation_step", "test_step"])


@case("transformers", lambda _: {"past_values": torch.randn(4, 32, 2), "future_values": torch.randn(4, 8, 2)})
def patch_tst():
    from transformers import PatchTSTConfig, PatchTSTForPrediction

    config = PatchTSTConfig(num_input_channels=2, context_length=32, prediction_length=8, patch_length=8, patch_stride=8, d_model=16,
                            num_hidden_layers=2, num_attention_heads=4, ffn_dim=32)
    return Training(PatchTSTForPrediction(config), lambda network, batch: network(**batch).loss)
