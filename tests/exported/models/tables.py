"""Models of tables, densities and single cells."""

import torch
import torch.nn.functional as F

from cases import Training, case


@case("tabm", lambda _: (torch.randn(16, 6), torch.randint(0, 3, (16, 2)), torch.randint(0, 4, (16,))))
def tabm_ensemble():
    import tabm

    network = tabm.TabM.make(n_num_features=6, cat_cardinalities=[3, 3], d_out=4, k=8, n_blocks=2, d_block=32)

    def loss(network, batch):
        numbers, kinds, target = batch
        logits = network(numbers, kinds)
        return F.cross_entropy(logits.flatten(0, 1), target.repeat_interleave(logits.shape[1]))

    return Training(network, loss)


@case("rtdl_revisiting_models", lambda _: (torch.randn(16, 6), torch.randint(0, 3, (16, 2)), torch.randn(16, 1)))
def ft_transformer():
    from rtdl_revisiting_models import FTTransformer

    network = FTTransformer(n_cont_features=6, cat_cardinalities=[3, 3], d_out=1, n_blocks=2, d_block=16, attention_n_heads=4, attention_dropout=0.1,
                            ffn_d_hidden_multiplier=2, ffn_dropout=0.1, residual_dropout=0.0)
    return Training(network, lambda network, batch: F.mse_loss(network(batch[0], batch[1]), batch[2]))


@case("normflows", lambda _: torch.randn(32, 4))
def spline_flow():
    import normflows

    flows = []
    for _ in range(2):
        flows += [normflows.flows.AutoregressiveRationalQuadraticSpline(4, 1, 16), normflows.flows.LULinearPermute(4)]
    return Training(normflows.NormalizingFlow(normflows.distributions.DiagGaussian(4), flows), lambda network, batch: network.forward_kld(batch))


def cells(_):
    from scvi import REGISTRY_KEYS

    return {REGISTRY_KEYS.X_KEY: torch.poisson(torch.full((16, 20), 3.0)), REGISTRY_KEYS.BATCH_KEY: torch.randint(0, 2, (16, 1)),
            REGISTRY_KEYS.LABELS_KEY: torch.zeros(16, 1, dtype=torch.long)}


@case("scvi-tools", cells)
def scvi_autoencoder():
    from scvi.module import VAE
    from scvi.train import TrainingPlan

    return TrainingPlan(VAE(n_input=20, n_batch=2, n_hidden=16, n_latent=4))


@case("scvi-tools", cells)
def scvi_linear_decoder():
    from scvi.module import LDVAE
    from scvi.train import TrainingPlan

    return TrainingPlan(LDVAE(n_input=20, n_batch=2, n_hidden=16, n_latent=4, use_observed_lib_size=True), n_epochs_kl_warmup=20)


@case("normflows", lambda _: torch.randn(32, 4))
def coupling_flow():
    import normflows

    flows = []
    for _ in range(2):
        flows += [normflows.flows.AffineCouplingBlock(normflows.nets.MLP([2, 16, 4], init_zeros=True)), normflows.flows.Permute(4, mode="swap")]
    return Training(normflows.NormalizingFlow(normflows.distributions.DiagGaussian(4), flows), lambda network, batch: network.forward_kld(batch))
